"""Follows the ledger into the books, a batch of messages in one transaction, and answers queries about them."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import structlog
from msgspec.structs import replace

from headrace.accounting.books.books import MEMORY, Books
from headrace.accounting.books.rows import NOWHERE, RowChanges
from headrace.accounting.catch_up_rate import CatchUpRate
from headrace.accounting.reports import history, invoice_query, preemptions, timeline, usage
from headrace.accounting.reports.instance_statement import InstanceMonth
from headrace.accounting.reports.statement_pieces import StatementPieces
from headrace.accounting.sampling import Sampling
from headrace.accounting.storage import store
from headrace.accounting.storage.batching import READ_AT_ONCE, gather
from headrace.accounting.storage.database import Connection, Database, DatabaseRefused, DatabaseUnavailable, T
from headrace.accounting.storage.schema import migrate
from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.bus.log import Log, LogBroken, LogError, LogReader, Message
from headrace.bus.loop import Fenced
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.niceness import BOOKS_NICE, AdaptiveNiceness
from headrace.bus.process import Service, freeze_present_objects
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.records import digest
from headrace.contracts.messages.audit import AuditAnswer, AuditRequest, TimelineAnswer, TimelineRequest
from headrace.contracts.messages.preemptions import PreemptionsAnswer, PreemptionsRequest
from headrace.contracts.messages.queries import ServiceView
from headrace.contracts.messages.usage import StatementAnswer, StatementRequest, UsageAnswer, UsageRequest
from headrace.contracts.messages.utilization import UtilizationAnswer
from headrace.contracts.transport.codec import decode
from headrace.contracts.transport.subjects import LEDGER_STREAM, telemetry
from headrace.contracts.values.durations import SECOND
from headrace.domain.explain.budget_forecast import warnings
from headrace.health.health import Health
from headrace.service.answering import Handler, Refused, serve
from headrace.service.concurrency_limit import ConcurrencyLimit, LimitReached
from headrace.service.engine_version import ENGINE
from headrace.service.fold import LedgerFold, wall_clock
from headrace.service.follower_status import Following, watch_fold
from headrace.service.snapshots import Snapshots, beginning
from headrace.views.pseudonyms import name, seen, shown
from headrace.views.visibility import ALL_TENANTS

FACTS_AT_ONCE = 100
"""Facts entered before writes and queries get their turn."""

PROVIDER = "provider"
"""The name under which queries about all tenants are sent."""

POLL_EVERY, ASKED_AGAIN = 5.0, 0.5
FAR = 2_000
"""Lag in records from which on it is logged repeatedly."""
HURRIED_AFTER = 10 * SECOND
"""Lateness from which on, with that lag, the books raise their priority again."""

SURVEYED_FIRST = 2_000
"""Facts after which PostgreSQL analyses the tables for the first time; then whenever their number has doubled."""

READS_MAX, READS_EACH = 200, 20
"""Maximum number of queries that wait for the books, in total and of one tenant: they are answered one after the other."""
CURRENCY = "HEADRACE_CURRENCY"
"""The environment variable for the currency of prices."""

DSN = "HEADRACE_POSTGRES_DSN"
"""The environment variable for the database."""

_log = structlog.get_logger("headrace.accounting")


async def main(service: Service) -> None:
    dsn = os.environ.get(DSN)
    if not dsn:
        raise DatabaseRefused(f"{DSN} is not set; it looks like postgresql://user:password@/database?host=/directory/of/socket")
    currency = os.environ.get(CURRENCY, "USD")
    if re.fullmatch("[A-Z]{3}", currency) is None:
        raise DatabaseRefused(f"{CURRENCY}: {currency!r} is not a currency; write three letters of ISO 4217, such as EUR")
    niceness = AdaptiveNiceness(BOOKS_NICE)
    fold = LedgerFold()
    ledger = WholeLedger(JetStreamLog(service.connection, LEDGER_STREAM), service.data / ARCHIVE)
    snapshots = Snapshots.over(service.connection, ledger)
    accounting = Accounting(ledger, fold, dsn, currency, snapshots, niceness)
    await serve(service.connection, service.name, fold, accounting.handlers())
    await serve(service.connection, PROVIDER, fold, accounting.provider_handlers())
    accounting.show(service.health)
    await service.connection.subscribe(telemetry("*", "samples"), cb=accounting.sampling.receive)
    await accounting.run()


class Accounting:
    """The books of one ledger in one database. `fold` is a new one; it is brought to the books' position, and stays ahead of them.

    While one batch is written the next one is folded: two processes, two cores. `niceness`: its scheduling priority.
    """

    def __init__(
        self,
        log: Log,
        fold: LedgerFold,
        dsn: str,
        currency: str = "USD",
        snapshots: Snapshots | None = None,
        niceness: AdaptiveNiceness | None = None,
    ) -> None:
        self._log = log
        self._snapshots = snapshots
        self._niceness = niceness
        self._fold = fold
        self._writing = Database(dsn)
        self._asking = Database(dsn)
        self._places = ConcurrencyLimit(READS_MAX, READS_EACH)
        self._books = Books(fold.state)
        self.written = NOWHERE
        self._outages = 0
        self._currency = currency
        self._statements = StatementPieces()
        self._survey_at = SURVEYED_FIRST
        self._loads = Database(dsn)
        self.sampling = Sampling(lambda: self._fold.state, self._loads, wall_clock)
        self.pace = CatchUpRate()

    async def run(self) -> None:
        """Work until cancelled. Raises `LogBroken`, `Fenced`, and what `Database.once` and `migrate` refuse."""
        watching = asyncio.ensure_future(self.watch_pace())
        sampling: asyncio.Future[None] | None = None
        try:
            await self._writing.run(migrate)
            sampling = asyncio.ensure_future(self.sampling.run())
            self.written = await self._writing.run(store.position)
            if self._snapshots is not None:  # the record at the books' position is read, and compared with theirs
                self._fold.state = await beginning(self._snapshots, self.written.sequence - 1)
            reader = await self._log.read(self._fold.sequence)
            try:
                await self._come_to_position(reader)
                await self._follow(reader)
            finally:
                await reader.close()
        finally:
            watching.cancel()
            if sampling is not None:
                sampling.cancel()
            await self._writing.close()
            await self._asking.close()
            await self._loads.close()

    async def watch_pace(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            await asyncio.sleep(POLL_EVERY)
            with suppress(LogError):
                self.pace.update(max(0, await self._log.tip() - self.written.sequence), loop.time() - began)
                is_far = self.pace.behind > FAR
                if self._niceness is not None:
                    late = wall_clock() - self.written.now
                    self._niceness.update(is_far_behind=is_far and late > HURRIED_AFTER)
                if is_far:
                    _log.info("catching_up", behind=self.pace.behind, facts_per_s=self.pace.facts_per_s)

    def show(self, health: Health) -> None:
        """Declare health checks and metrics of the books and of PostgreSQL."""
        written = Following(
            lambda: self.written.sequence, lambda: self.written.now, self._log.tip, lambda: self.written is not NOWHERE
        )
        watch_fold(health, written, self._fold)
        health.check("postgres", lambda: "" if self._writing.is_there else "PostgreSQL is away; the books wait for it")
        metrics, pace = health.metrics, self.pace
        metrics.gauge("headrace_postgres_connected", "1 while connected to PostgreSQL", lambda: int(self._writing.is_there))
        metrics.counter("headrace_postgres_outages_total", "times PostgreSQL was unreachable", lambda: self._writing.outages)
        metrics.counter("headrace_books_facts_total", "number of facts entered into the books", lambda: pace.taken)
        metrics.counter("headrace_samples_total", "number of samples received from nodes", lambda: self.sampling.received)

    def handlers(self) -> dict[str, Handler]:
        return {**self._queries(), "statement": self.statement, "status": self.status}

    def provider_handlers(self) -> dict[str, Handler]:
        """Handlers of queries about all tenants by name; only a provider's admin may send these (`bus.nats.permissions`)."""
        of_all = {what: partial(_of_all, handler) for what, handler in self._queries().items()}
        return {**of_all, "statement": self.statement_of_instances, "status": self.status}

    def _queries(self) -> dict[str, Handler]:
        """Queries about one tenant, or about all."""
        return {
            "usage": self.usage,
            "utilization": self.utilization,
            "audit": self.audit,
            "timeline": self.timeline,
            "preemptions": self.preemptions,
        }

    async def usage(self, tenant: str, _user: str, payload: bytes) -> UsageAnswer:
        """The usage of the user's tenant (see `UsageRequest`)."""
        question = decode(payload, UsageRequest) if payload.strip() else UsageRequest()
        answer = await self._read(tenant, partial(usage.answer, tenant=tenant, question=question))
        state = self._fold.state
        policies = [policy for (owner, _), policy in sorted(state.policies.items()) if tenant in (owner, ALL_TENANTS)]
        alarms = tuple(line for policy in policies for line in warnings(policy, max(state.now, wall_clock())))
        rows = tuple(replace(row, group=shown(state, row.group, tenant)) for row in answer.rows)
        return replace(answer, rows=rows, currency=self._currency, warnings=alarms)

    def utilization(self, tenant: str, _user: str, _payload: bytes) -> UtilizationAnswer:
        """How much the GPUs compute on which the tenant's jobs run, and who holds GPUs without using them."""
        return self.sampling.view(tenant)

    async def audit(self, tenant: str, user: str, payload: bytes) -> AuditAnswer:
        """A page of the history, as the user's tenant may read it (see `AuditRequest`)."""
        question = decode(payload, AuditRequest) if payload.strip() else AuditRequest()
        work = partial(history.answer, tenant=tenant, user=user, question=question, state=self._fold.state)
        return await self._read(tenant, work)

    async def timeline(self, tenant: str, _user: str, payload: bytes) -> TimelineAnswer:
        """Use of pools and events of a period by bin, as the user's tenant may see it (see `TimelineRequest`)."""
        question = decode(payload, TimelineRequest) if payload.strip() else TimelineRequest()
        return await self._read(tenant, partial(timeline.answer, tenant=tenant, question=question, state=self._fold.state))

    async def preemptions(self, tenant: str, _user: str, payload: bytes) -> PreemptionsAnswer:
        """Preemptions that concern the user's tenant (see `PreemptionsRequest`)."""
        question = decode(payload, PreemptionsRequest) if payload.strip() else PreemptionsRequest()
        found = await self._read(tenant, partial(preemptions.answer, tenant=tenant, question=question))
        return seen(self._fold.state, found, tenant)

    async def statement(self, tenant: str, _user: str, payload: bytes) -> StatementAnswer:
        """The statement of a month of the user's tenant (see `StatementRequest`)."""
        question = decode(payload, StatementRequest)

        async def month() -> invoice_query.Month:
            work = partial(invoice_query.read, tenant=tenant, question=question, currency=self._currency)
            return (await self._read(tenant, work)).naming(partial(name, self._fold.state, tenant))

        return await self._statements.piece(tenant, question, month, lambda: self.written.sequence)

    async def statement_of_instances(self, _tenant: str, _user: str, payload: bytes) -> StatementAnswer:
        """What the instances of all pools cost in a month (see `StatementRequest`)."""
        question = decode(payload, StatementRequest)

        async def month() -> InstanceMonth:
            work = partial(invoice_query.read_instances, question=question, currency=self._currency)
            return await self._read(ALL_TENANTS, work)

        return await self._statements.piece(ALL_TENANTS, question, month, lambda: self.written.sequence)

    async def _read(self, tenant: str, work: Callable[[Connection], Awaitable[T]]) -> T:
        """An answer from the books, for a tenant that they or the documents know."""
        try:
            self._places.take(tenant)
        except LimitReached as full:
            whose, most = ("of your tenant ", self._places.each) if full.own else ("", self._places.most)
            raise Refused(
                "UNAVAILABLE", f"{most} questions {whose}to the books are being answered; try again in a moment"
            ) from None
        try:
            if tenant != ALL_TENANTS and not self._fold.state.has_tenant(tenant):
                await self._asking.once(partial(_see_known, tenant=tenant))
            return await self._asking.once(work)
        except usage.InvalidQuery as error:
            raise Refused("INVALID", str(error)) from error
        except DatabaseUnavailable as error:
            raise Refused("UNAVAILABLE", f"the books cannot be read now, try again later: {error}") from error
        finally:
            self._places.leave(tenant)

    async def status(self, _tenant: str, _user: str, _payload: bytes) -> ServiceView:
        tip = await self._log.tip()
        written = self.written
        detail = {
            "tip": tip,
            "behind": max(0, tip - written.sequence),
            "waiting_to_be_written": self._fold.sequence - written.sequence,
            "facts_per_s": self.pace.facts_per_s,
        }
        return ServiceView(
            service="accounting",
            folded=written.sequence,
            now=written.now,
            engine=ENGINE,
            detail=detail,
            reads=LEVEL,
            level=self._fold.state.terms.level,
        )

    async def _tip_with(self, sequence: int) -> int:
        """The end of the ledger; one before `sequence` is asked for again while the log may be wrong about it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._log.doubt
        while True:
            tip = await self._log.tip()
            if tip >= sequence or loop.time() >= deadline:
                return tip
            await asyncio.sleep(ASKED_AGAIN)

    async def _come_to_position(self, reader: LogReader) -> None:
        """Fold what is in the books already, and check that they were made from this ledger."""
        written = self.written
        tip = await self._tip_with(written.sequence)
        if tip < written.sequence:
            raise LogBroken(f"the ledger ends at {tip}, but the books hold {written.sequence} records: it lost its end")
        self._outages = self._writing.outages
        _log.info("books_opened", position=written.sequence, behind=tip - written.sequence)
        named = ""
        while self._fold.sequence < written.sequence:
            for message in await reader.batch(min(READ_AT_ONCE, written.sequence - self._fold.sequence)):
                self._fold.read(message)
                named = digest(message.payload) if message.sequence == written.sequence else named
            await asyncio.sleep(0)
        if named != written.digest:
            raise LogBroken(f"record {written.sequence} is not the one in the books: this is another ledger, or it was changed")
        self._books = Books(self._fold.state, written)
        await self._undisturbed(partial(store.load, books=self._books, at=written, since=written.now - MEMORY))

    async def _follow(self, reader: LogReader) -> None:
        """Fold, enter and write batch by batch."""
        tip = await self._log.tip()
        write: asyncio.Future[None] | None = None
        try:
            while True:
                messages = await gather(reader)
                broken = await self._enter(messages)
                if write is not None and (messages or write.done()):
                    await write
                    write = None
                if not messages:  # woken only because a write has ended
                    continue
                await self._close_gaps()
                write = asyncio.ensure_future(self.write_changes(self._books.settle()))
                write.add_done_callback(lambda _: reader.wake())
                if broken is not None:
                    await write
                    raise broken
                if messages[0].sequence <= tip <= messages[-1].sequence:
                    _log.info("caught_up", sequence=messages[-1].sequence)
                    freeze_present_objects()
        finally:
            if write is not None:
                write.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await write

    async def _enter(self, messages: list[Message]) -> LogBroken | None:
        """Fold messages and enter them into the books. If the ledger is broken: enter what is before that, and return the error."""
        facts = 0
        for message in messages:
            try:
                record = self._fold.read(message)
            except LogBroken as error:
                return error
            self._books.enter(message, record, "" if record is not None else self._fold.void_reason)
            facts += 1 if record is None else len(record.facts)
            if facts >= FACTS_AT_ONCE:  # a write is many statements, and each waits for its turn here
                facts = 0
                await asyncio.sleep(0)
        return None

    async def _close_gaps(self) -> None:
        """Load the past of meters that a very late fact changes; everything before this batch has been written."""
        for gap in self._books.gaps():
            _log.info("release_known_late", meter="/".join(gap.meter), since=gap.since)
            await self._undisturbed(partial(store.close_gap, books=self._books, at=self.written, gap=gap))

    async def _undisturbed(self, work: Callable[[Connection], Awaitable[None]]) -> None:
        """Do `work` on the books. Raises `Fenced` if another process has changed them."""
        try:
            await self._writing.run(work)
        except store.PositionMoved as error:
            raise Fenced(f"another process writes these books: {error}") from error

    async def write_changes(self, changes: RowChanges) -> None:
        try:
            await self._undisturbed(partial(store.write, changes=changes))
        except store.CopyDiffers as error:
            raise LogBroken(str(error)) from error
        self.written = changes.position
        self.pace.facts += len(changes.facts)
        if self.pace.so_far >= self._survey_at:
            self._survey_at = 2 * self.pace.so_far
            await self._writing.run(store.survey)
        if self._writing.outages > self._outages:
            self._outages = self._writing.outages
            with suppress(LogError):
                _log.info("catching_up", position=self.written.sequence, behind=await self._log.tip() - self.written.sequence)


def _of_all(handler: Handler, _tenant: str, user: str, payload: bytes) -> Any:
    """The answer of a handler about all tenants."""
    return handler(ALL_TENANTS, user, payload)


async def _see_known(connection: Connection, tenant: str) -> None:
    if not await usage.knows(connection, tenant):
        raise Refused("NOT_FOUND", f"tenant: unknown tenant {tenant}, now and in the past; `headrace get tenant` lists them")
