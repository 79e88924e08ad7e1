"""Request and reply over NATS: a message becomes an `Answer`; an error in a request never ends the service."""

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
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.transport.codec import Malformed, encode
from headrace.contracts.transport.subjects import awaits_answer, parse_query
from headrace.contracts.values.ids import IdError
from headrace.nats_client.connection import Connection
from headrace.service.concurrency_limit import ConcurrencyLimit, LimitReached
from headrace.service.engine_version import ENGINE
from headrace.service.fold import LedgerFold

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.aio.subscription import Subscription

Handler = Callable[[str, str, bytes], Awaitable[object] | object]
"""`handler(tenant, user, payload)` returns the body. Raises Refused."""

SLOW_MAX = 1_000
"""Maximum number of concurrent requests that wait for other services or for the ledger; more are refused."""
SLOW_EACH = 500
"""Maximum number of these per tenant, so that other tenants have room."""
SLOW_RETRY = 1
"""Seconds after which a refused client tries again."""

_log = structlog.get_logger("headrace.answering")


class Refused(Exception):
    """The request is refused. `code` is a stable token; the text one line with the way out; `body` has details."""

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
) -> Subscription:
    """Answer `hr.query.<service>.<what>.<tenant>.<user>` by `handlers[what]`, and in addition `status`.

    Other services and the operator ask (`bus.nats.permissions`); people ask the API.

    `only`: the one request that is answered.
    """
    known: dict[str, Handler] = {
        "status": lambda _tenant, _user, _payload: status(service, fold),
        **handlers,
    }

    slow: set[asyncio.Task[None]] = set()
    places = ConcurrencyLimit(SLOW_MAX, SLOW_EACH)

    async def finish(message: Msg, body: Awaitable[object], tenant: str) -> None:
        try:
            reply = await _awaited(fold, message, body)
        finally:
            places.leave(tenant)
        with suppress(errors.Error):  # the connection closed meanwhile, and with it the request
            await connection.publish(message.reply, encode(reply))

    async def answer(message: Msg) -> None:
        parts = message.subject.split(".")
        if not awaits_answer(message.reply):
            return
        reply = _answer(known, fold, message)
        if isinstance(reply, Answer):
            await connection.publish(message.reply, encode(reply))
            return
        tenant = parts[4]
        try:
            places.take(tenant)
        except LimitReached as full:
            _drop(reply)
            whose, most = (f" of tenant {tenant}", places.each) if full.own else ("", places.most)
            busy = Refused(
                "UNAVAILABLE", f"{service} already answers {most} requests{whose}, its maximum; try again in {SLOW_RETRY} s"
            )
            await connection.publish(message.reply, encode(_bad(fold, message, busy)))
            return
        # a request that waits for other services must not delay the next one
        task = asyncio.ensure_future(finish(message, reply, tenant))
        slow.add(task)
        task.add_done_callback(slow.discard)

    return await connection.subscribe(f"hr.query.{service}.{f'{only}.' if only else ''}>", cb=answer)


def _drop(body: Awaitable[object]) -> None:
    """Close a body that will not be awaited."""
    if inspect.iscoroutine(body):
        body.close()


def _answer(handlers: Mapping[str, Handler], fold: LedgerFold, message: Msg) -> Answer | Awaitable[object]:
    """The answer, or the awaitable that returns its body."""
    try:
        _, what, tenant, user = parse_query(message.subject)
        body = handlers.get(what, _unknown(what, handlers))(tenant, user, message.data)
        return body if isinstance(body, Awaitable) else _good(fold, body)
    except Exception as error:  # noqa: BLE001  # one bad request must not end the service
        return _bad(fold, message, error)


async def _awaited(fold: LedgerFold, message: Msg, body: Awaitable[object]) -> Answer:
    try:
        return _good(fold, await body)
    except Exception as error:  # noqa: BLE001  # one bad request must not end the service
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
        raise Refused("NOT_FOUND", f"unknown query {what!r}; use one of {', '.join(sorted(handlers))}")

    return refuse


def status(service: str, fold: LedgerFold) -> ServiceView:
    """How far a service has folded, and counts over all tenants."""
    state = fold.state
    detail = {
        "jobs": len(state.jobs),
        "pending": sum(policy.pending for policy in state.policies.values()),
        "running": sum(len(policy.jobs) for policy in state.policies.values()),
        "nodes": len(state.nodes),
        "void_records": sum(state.voids.values()),
    }
    terms = state.terms
    return ServiceView(
        service=service, folded=fold.sequence, now=fold.now, engine=ENGINE, detail=detail, reads=LEVEL, level=terms.level
    )
