"""Request-reply over the bus: subject in, `Answer` out, and no question that ends a service."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import structlog
from nats import errors

from headrace.bus.log import LogUnavailable
from headrace.bus.nats.connection import Connection
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.transport.codec import Malformed, encode
from headrace.contracts.transport.subjects import awaits_answer, parse_query
from headrace.contracts.values.ids import IdError
from headrace.service.concurrency_limit import ConcurrencyLimit, LimitReached
from headrace.service.engine_version import ENGINE
from headrace.service.fold import LedgerFold

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

Handler = Callable[[str, str, bytes], Awaitable[object] | object]
"""`handler(tenant, user, payload)` gives the body, or raises `Refused`."""

SLOW_MAX = 1_000
"""Questions that wait for somebody else's answer, or for the ledger, at once; more are refused."""
SLOW_EACH = 500
"""The same of one tenant, so that others always find room."""
SLOW_RETRY = 1
"""Seconds."""

_log = structlog.get_logger("headrace.answering")


class Refused(Exception):
    """The answer is no. `code` is a stable token; the text one line with the way out; `body` what there is to say besides."""

    def __init__(self, code: str, text: str, body: object = None) -> None:
        super().__init__(text)
        self.code = code
        self.body = body


async def serve(
    connection: Connection,
    service: str,
    fold: LedgerFold,
    handlers: Mapping[str, Handler],
    *,
    only: str = "",
    but: str = "",
) -> Subscription:
    """Answer `hr.query.<service>.<what>.<tenant>.<user>` by `handlers[what]`, and `status` and `liveness` besides.

    `status` counts the jobs of all tenants: only the provider's people may ask it (`bus.nats.permissions`); users ask `liveness`.

    `only`, `but`: the one question that is answered, or that somebody else answers.
    """
    known: dict[str, Handler] = {
        "status": lambda _tenant, _user, _payload: status(service, fold),
        "liveness": lambda _tenant, _user, _payload: liveness(service, fold),
        **handlers,
    }

    slow: set[asyncio.Task[None]] = set()
    places = ConcurrencyLimit(SLOW_MAX, SLOW_EACH)

    async def finish(message: Msg, body: Awaitable[object], tenant: str) -> None:
        try:
            said = await _awaited(fold, message, body)
        finally:
            places.leave(tenant)
        with suppress(errors.Error):  # the connection went meanwhile, and with it whoever asked
            await connection.publish(message.reply, encode(said))

    async def answer(message: Msg) -> None:
        parts = message.subject.split(".")
        if not awaits_answer(message.reply) or parts[3] == but:
            return
        said = _answer(known, fold, message)
        if isinstance(said, Answer):
            await connection.publish(message.reply, encode(said))
            return
        tenant = parts[4]
        try:
            places.take(tenant)
        except LimitReached as full:
            _drop(said)
            whose, most = (f" of tenant {tenant}", places.each) if full.own else ("", places.most)
            busy = Refused(
                "UNAVAILABLE", f"{service} has {most} questions{whose} to answer already; try again in {SLOW_RETRY} s"
            )
            await connection.publish(message.reply, encode(_bad(fold, message, busy)))
            return
        # who has to ask somebody else must not keep the next question waiting
        task = asyncio.ensure_future(finish(message, said, tenant))
        slow.add(task)
        task.add_done_callback(slow.discard)

    return await connection.subscribe(f"hr.query.{service}.{f'{only}.' if only else ''}>", cb=answer)


def _drop(body: Awaitable[object]) -> None:
    """Nobody will wait for it."""
    if inspect.iscoroutine(body):
        body.close()


def _answer(handlers: Mapping[str, Handler], fold: LedgerFold, message: Msg) -> Answer | Awaitable[object]:
    """The answer, or what has to be awaited for it."""
    try:
        _, what, tenant, user = parse_query(message.subject)
        body = handlers.get(what, _unknown(what, handlers))(tenant, user, message.data)
        return body if isinstance(body, Awaitable) else _good(fold, body)
    except Exception as error:  # noqa: BLE001  # one bad question must not end the service
        return _bad(fold, message, error)


async def _awaited(fold: LedgerFold, message: Msg, body: Awaitable[object]) -> Answer:
    try:
        return _good(fold, await body)
    except Exception as error:  # noqa: BLE001  # one bad question must not end the service
        return _bad(fold, message, error)


def _good(fold: LedgerFold, body: object) -> Answer:
    return body if isinstance(body, Answer) else Answer(sequence=fold.sequence, body=msgspec.Raw(encode(body)))


def _bad(fold: LedgerFold, message: Msg, error: Exception) -> Answer:
    if isinstance(error, Refused):
        return Answer(sequence=fold.sequence, code=error.code, error=str(error), body=msgspec.Raw(encode(error.body)))
    if isinstance(error, (IdError, Malformed)):
        return Answer(sequence=fold.sequence, code="INVALID", error=str(error))
    if isinstance(error, LogUnavailable):
        return Answer(sequence=fold.sequence, code="UNAVAILABLE", error=f"the log cannot be read now, try again: {error}")
    _log.error("question_failed", subject=message.subject, exc_info=error)
    return Answer(sequence=fold.sequence, code="INTERNAL", error=f"{type(error).__name__}: see the service's log")


def _unknown(what: str, handlers: Mapping[str, Handler]) -> Handler:
    def refuse(_tenant: str, _user: str, _payload: bytes) -> object:
        raise Refused("NOT_FOUND", f"there is no question {what!r}; there are {', '.join(sorted(handlers))}")

    return refuse


def liveness(service: str, fold: LedgerFold) -> ServiceView:
    """That a service is there and how far it has folded; nothing about what other tenants have."""
    terms = fold.state.terms
    return ServiceView(service=service, folded=fold.sequence, now=fold.now, engine=ENGINE, reads=LEVEL, level=terms.level)


def status(service: str, fold: LedgerFold) -> ServiceView:
    """How far a service has folded, and how much there is in it of all tenants."""
    state = fold.state
    detail = {
        "jobs": len(state.jobs),
        "pending": sum(policy.pending for policy in state.policies.values()),
        "running": sum(len(policy.jobs) for policy in state.policies.values()),
        "nodes": len(state.nodes),
        "void_records": sum(state.voids.values()),
    }
    return msgspec.structs.replace(liveness(service, fold), detail=detail)
