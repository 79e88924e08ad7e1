"""The process: follows the directory, answers the server's authorization requests, and ends connections after an identity was withdrawn."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections import Counter
from typing import TYPE_CHECKING

import msgspec
import structlog
from nats import errors

from headrace.archive.history import ARCHIVE
from headrace.archive.writer_records import BySubject
from headrace.bus.log import LogError, LogUnavailable
from headrace.bus.nats.connection import connect
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.nkeys import AccountKey
from headrace.bus.process import LEDGER, Service
from headrace.bus.text_encryption import KEYS, Keyring
from headrace.bus.variables import SYSTEM_PASSWORD, SYSTEM_USER, URL
from headrace.callout.connection_limits import ConnectionLimits
from headrace.callout.directory_follower import SUBJECT, Follower, Source
from headrace.callout.eviction import Eviction
from headrace.callout.installation_logins import InstallationLogins
from headrace.callout.permits import Permit, permit
from headrace.callout.questions import ASKED_ON, Question, Unreadable, accept, read_question, reject
from headrace.callout.server_status import Servers
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.writers import GOVERNANCE
from headrace.contracts.messages.queries import Answer, ClaimRequest, ServiceView
from headrace.contracts.messages.tokens import PROVIDER_TENANT, PauseRequest
from headrace.contracts.transport.codec import Malformed, decode, encode
from headrace.contracts.transport.subjects import LEDGER_STREAM, awaits_answer, query
from headrace.health.metrics import QUICK, Histogram
from headrace.identity.caller import Role, Unauthenticated
from headrace.identity.pii import PersonalData
from headrace.identity.principals import ProviderToken, is_stated
from headrace.identity.signing import IDENTITY, ISSUER_KEY
from headrace.identity.verifier import Verifier
from headrace.nats_client.connection import Connection
from headrace.service.engine_version import ENGINE
from headrace.service.task_group import run_until_first_ends

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from nats.aio.msg import Msg

    from headrace.callout.permits import ConnectionTag
    from headrace.health.health import Health
    from headrace.identity.caller import Caller

NAME = "callout"
STATUS = f"hr.query.{NAME}.status.*.*"
"""Both get the same answer, which contains nothing of any tenant."""
PAUSE = f"hr.query.{NAME}.pause.*.*"
PAUSED_FOR = 60.0
"""Seconds during which a node is refused after governance found that it writes too much: enough to state that as a fact."""
CLAIMED_WITHIN = 1.0
"""Seconds; the server waits a little longer for the whole response."""
STORAGE_EVERY = 10.0
AT_ONCE_MAX = 256
"""Maximum number of requests answered at a time; more wait, and the server abandons those that wait too long."""

_log = structlog.get_logger("headrace.callout")


async def main(service: Service) -> None:
    system = await connect(
        os.environ.get(URL, "nats://127.0.0.1:4222"),
        os.environ.get(SYSTEM_USER, "callout-system"),
        os.environ.get(SYSTEM_PASSWORD, ""),
        name="callout",
    )
    try:
        ledger = BySubject(JetStreamLog(service.connection, LEDGER_STREAM), service.data / ARCHIVE)
        key = AccountKey.at(service.data / IDENTITY / ISSUER_KEY)
        authority = ConnectionAuthority(
            service.connection,
            Verifier.of(service.data),
            key,
            Eviction(system),
            ledger,
            PersonalData(Keyring(service.data / KEYS)),
            logins=InstallationLogins(service.data),
        )
        authority.show(service.health)
        servers = Servers(system)
        servers.show(service.health)
        await run_until_first_ends(authority.run(), report_storage(service.connection, servers))
    finally:
        await system.close()


class TooMany(Exception):
    """The bearer has as many connections as its limit allows."""


async def report_storage(connection: Connection, servers: Servers) -> None:
    """Report the servers' storage to governance every `STORAGE_EVERY` seconds. Only this service's login may ask the servers."""
    subject = query(GOVERNANCE, "storage", "default", NAME)
    while True:
        try:
            report = await servers.fullest()
            if report is not None:
                await connection.ask(subject, encode(report), within=CLAIMED_WITHIN)
        except (LogError, errors.Error) as error:
            _log.debug("storage_not_told", reason=str(error))
        await asyncio.sleep(STORAGE_EVERY)


class ConnectionAuthority:
    """Answers the server's authorization requests from the directory that it follows."""

    def __init__(
        self,
        connection: Connection,
        verifier: Verifier,
        key: AccountKey,
        eviction: Eviction,
        ledger: Source,
        people: PersonalData | None = None,
        list_tags: Callable[[str], Awaitable[Iterable[ConnectionTag]]] | None = None,
        logins: InstallationLogins | None = None,
    ) -> None:
        self._connection = connection
        self._logins = logins
        self._verifier = verifier
        self._key = key
        self._eviction = eviction
        self._limits = ConnectionLimits(list_tags or eviction.tags, self._tenants)
        self._evict_again = asyncio.Event()
        self.ready = asyncio.Event()
        self._answering: set[asyncio.Task[None]] = set()
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)
        self._evicted = 0
        self._paused: dict[str, float] = {}
        self._answered: Counter[tuple[str, ...]] = Counter()
        self._latency = Histogram(QUICK)
        self.follower = Follower(ledger, self._evict_again.set, people)

    def show(self, health: Health) -> None:
        """Register the health check and the metrics."""
        state = self.follower.directory.state
        health.check(LEDGER, lambda: "" if self.ready.is_set() else "the directory has not been read yet")
        metrics = health.metrics
        metrics.gauge(
            "headrace_build_info", "always 1; the labels are the version of the software", lambda: {(ENGINE,): 1}, "engine"
        )
        metrics.gauge(
            "headrace_directory_sequence_records",
            "sequence of the last record of identities read",
            lambda: state.sequence,
        )
        metrics.counter("headrace_logins_total", "authorization requests, by answer", lambda: self._answered, "answer")
        metrics.counter("headrace_evictions_total", "connections ended because access was withdrawn", lambda: self._evicted)
        metrics.histograms(
            "headrace_login_seconds", "time from the server's request to the response", lambda: {(): self._latency}
        )

    async def run(self) -> None:
        while True:
            try:
                await self.follower.catch_up()
                break
            except LogUnavailable:
                await asyncio.sleep(0.1)
        await self._connection.subscribe(SUBJECT, cb=self._on_record)
        await self._connection.subscribe(ASKED_ON, cb=self._on_request)
        await self._connection.subscribe(STATUS, cb=self._answer_status)
        await self._connection.subscribe(PAUSE, cb=self._pause)
        _log.info("ready", folded=self.follower.directory.state.sequence)
        await self._connection.flush()
        self.ready.set()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.follower.run())
            tasks.create_task(self._keep_evicting())

    async def _keep_evicting(self) -> None:
        while True:
            await self._evict_again.wait()
            self._evict_again.clear()
            try:
                self._evicted += await self._eviction.run(self.follower.directory.state, self._still_paused())
            except errors.Error as error:
                _log.warning("not_disconnected", reason=str(error))
                await asyncio.sleep(1.0)
                self._evict_again.set()

    async def _answer_status(self, message: Msg) -> None:
        """Answer with the sequence read and the versions of this service."""
        if not awaits_answer(message.reply):
            return
        state = self.follower.directory.state
        view = ServiceView(
            service=NAME, folded=state.sequence, now=state.now, engine=ENGINE, reads=LEVEL, level=state.terms.level
        )
        await message.respond(encode(Answer(sequence=state.sequence, body=msgspec.Raw(encode(view)))))

    async def _pause(self, message: Msg) -> None:
        """End a node's connections and keep it out for a while; governance asks so before the fact that excludes it is stored."""
        try:
            node = decode(message.data, PauseRequest).node
        except Malformed as error:
            _log.warning("pause_unreadable", reason=str(error))
            return
        self._paused[node] = asyncio.get_running_loop().time() + PAUSED_FOR
        self._evict_again.set()
        if not awaits_answer(message.reply):
            return
        with contextlib.suppress(errors.Error):
            await message.respond(encode(Answer(sequence=self.follower.directory.state.sequence)))

    def _still_paused(self) -> frozenset[str]:
        """Paused nodes that are not yet excluded by a fact."""
        now, excluded = asyncio.get_running_loop().time(), self.follower.directory.state.excluded
        self._paused = {node: until for node, until in self._paused.items() if until > now and node not in excluded}
        return frozenset(self._paused)

    async def _on_record(self, _message: Msg) -> None:
        self.follower.wake()

    async def _on_request(self, message: Msg) -> None:
        task = asyncio.create_task(self._answer(message))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, message: Msg) -> None:
        async with self._slots:
            try:
                question = read_question(message.data)
            except Unreadable as error:
                _log.warning("question_unreadable", reason=str(error))
                return
            now, began = int(time.time()), time.perf_counter()
            try:
                allowed = await self._permit(question, now)
            except TooMany as error:
                _log.info("too_many_connections", host=question.host, reason=str(error))
                self._answered["too_many",] += 1
                answer = reject(self._key, question, now)
            except Unauthenticated as error:
                _log.info("kept_out", host=question.host, reason=str(error))
                self._answered["kept_out",] += 1
                answer = reject(self._key, question, now)
            except Exception as error:  # noqa: BLE001  # an error in one request refuses that connection and does not end the service
                _log.error("not_judged", host=question.host, exc_info=error)
                self._answered["failed",] += 1
                answer = reject(self._key, question, now)
            else:
                self._answered["let_in",] += 1
                answer = accept(self._key, question, allowed, now)
            self._latency.observe(time.perf_counter() - began)
            with contextlib.suppress(errors.Error):
                await self._connection.publish(message.reply, answer)

    async def _permit(self, question: Question, now: int) -> Permit:
        """The permit of a node of the installation, or of a token's bearer. Raises Unauthenticated, TooMany."""
        paused = self._still_paused()
        state = self.follower.directory.state
        issued_at = 0
        caller = None if self._logins is None else self._logins.node(question)
        if caller is None:
            caller, issued_at = await self._bearer(question.token)
        elif caller.handle in state.excluded:
            raise Unauthenticated(f"node {caller.handle} is excluded: {state.excluded[caller.handle]}")
        if caller.role is Role.NODE and caller.handle in paused:
            raise Unauthenticated(f"node {caller.handle} wrote too much and is refused for {PAUSED_FOR:g} s")
        if not is_stated(state, caller):
            await self._claim(caller, question.token)
        allowed = permit(
            caller,
            question.token,
            issued_at,
            now,
            former=not state.terms.amended,
            asked_as=question.user,
            connection=question.connection,
        )
        if full := await self._limits.take(allowed.account, allowed.whose):
            raise TooMany(full)
        return allowed

    async def _bearer(self, token: str) -> tuple[Caller, int]:
        """The bearer of a token, and when a provider issued it (0: not a provider's). Raises Unauthenticated.

        A token not known yet may be new, so the ledger is read once more.
        """
        claims = await self._verifier.claims(token)
        issued_at = claims.issued_at if isinstance(claims, ProviderToken) else 0
        state = self.follower.directory.state
        try:
            return await self._verifier.caller(state, token), issued_at
        except Unauthenticated:
            await self.follower.catch_up()
            return await self._verifier.caller(state, token), issued_at

    def _tenants(self) -> int:
        return len(self.follower.directory.state.tenants.keys() | {PROVIDER_TENANT})

    async def _claim(self, caller: Caller, token: str) -> None:
        """Ask governance to state the groups in a provider's token. If that fails, the groups stated earlier count."""
        subject = query(GOVERNANCE, "claim", caller.tenant, caller.handle)
        try:
            answer = decode(
                (await self._connection.ask(subject, encode(ClaimRequest(token=token)), within=CLAIMED_WITHIN)).data, Answer
            )
        except (LogError, Malformed) as error:
            _log.warning("claims_not_stated", handle=caller.author, reason=str(error))
            return
        if answer.error:
            _log.warning("claims_not_stated", handle=caller.author, reason=answer.error)
