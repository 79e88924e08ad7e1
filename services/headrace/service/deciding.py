"""A deciding service: one writer chain, one loop, one pure decider, over the fold of the process' follower."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Protocol

from msgspec import structs

from headrace.archive.history import WholeLedger
from headrace.bus.leader_election import LeaderElection, election_of, run_election
from headrace.bus.loop import Draft, ServiceLoop, Timing
from headrace.bus.process import Service
from headrace.bus.writer_chain import Chain
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.levels import at_level
from headrace.contracts.messages.queries import ServiceView, StatusRequest
from headrace.contracts.transport.codec import decode
from headrace.domain.state.state import State
from headrace.health.metrics import QUICK, Labels
from headrace.service.answering import Handler, serve, status
from headrace.service.engine_version import ENGINE
from headrace.service.follower_status import Following, watch_fold
from headrace.service.hosting import LedgerFollower, ledger_of
from headrace.service.task_group import run_until_first_ends

STATUS_WITHIN = 1.0
"""Seconds for which `status` waits for a record."""


class PureDecider(Protocol):
    """The interface of a service's `decide` module."""

    def decide(self, now: int) -> tuple[AnyFact, ...]:
        """The facts to state at log time `now`, on a state whose time is `now` (`State.pass_time`), and is left as it is."""

    def next_wakeup(self) -> int | None:
        """The log time at which a decision is due without a new record; None without one."""


Seal = Callable[[tuple[AnyFact, ...]], tuple[AnyFact, ...]]
"""Converts facts to the form in which they may be in the ledger."""


def _as_they_are(facts: tuple[AnyFact, ...]) -> tuple[AnyFact, ...]:
    return facts


class _Drafting:
    """Drafts for the loop: the decider's facts, with the trace of the job that they concern."""

    def __init__(self, state: State, decider: PureDecider, sealed: Seal) -> None:
        self._state = state
        self._decider = decider
        self._sealed = sealed

    def decide(self, now: int) -> Draft | None:
        self._state.pass_time(now)
        facts = at_level(self._sealed(self._decider.decide(now)), self._state.terms.level)
        return Draft(facts, trace=trace_of(self._state, facts)) if facts else None

    def next_wakeup(self) -> int | None:
        return self._decider.next_wakeup()


def trace_of(state: State, facts: tuple[AnyFact, ...]) -> str:
    """The W3C traceparent of the first job that the facts concern; empty if they concern none."""
    for fact in facts:
        job = state.jobs.get(getattr(fact, "job", ""))
        trace: str = getattr(fact, "trace", "") or (job.trace if job is not None else "")
        if trace:
            return trace
    return ""


class Deciding:
    """One deciding service on one connection, over the fold of the process' follower.

    `seal`: converts the facts of a decision before they are stated. `on_stated` receives facts that have become durable.
    """

    def __init__(self, service: Service, follower: LedgerFollower, writer: str, make: Callable[[State], PureDecider]) -> None:
        self.service = service
        self.follower = follower
        self.fold = follower.fold
        self.caught_up = follower.caught_up
        self._writer = writer
        self._turn = election_of(service.environment)
        self._stated = 0
        self.seal: Seal = _as_they_are
        self.on_stated: Callable[[tuple[AnyFact, ...]], None] = lambda _: None
        self.decider = make(self.fold.state)
        log = ledger_of(service)
        self.loop = ServiceLoop(
            follower,
            log,
            Chain(log, writer, ENGINE),
            _Drafting(self.fold.state, self.decider, self._sealed),
            on_appended=self._appended,
            turn=self._turn,
            timing=self._watched(log),
        )

    def _sealed(self, facts: tuple[AnyFact, ...]) -> tuple[AnyFact, ...]:
        return self.seal(facts)

    def _appended(self, draft: Draft, _sequence: int) -> None:
        self._stated += len(draft.facts)
        self.on_stated(draft.facts)

    def _watched(self, log: WholeLedger) -> Timing:
        """Registers the metrics and checks of the service."""
        health = self.service.health
        watch_fold(
            health, Following(lambda: self.fold.sequence, lambda: self.fold.now, log.tip, self.caught_up.is_set), self.fold
        )
        if self._turn is not None:
            turn = self._turn
            health.role = lambda: "active" if turn.mine else "standby"
        metrics = health.metrics
        metrics.gauge("headrace_decides", "1 if this instance decides, 0 if it is a standby", self._decides, "writer")
        metrics.counter("headrace_facts_stated_total", "number of facts that this instance has stated", lambda: self._stated)
        return Timing(
            metrics.histogram("headrace_decision_seconds", "duration of one decision", QUICK),
            metrics.histogram("headrace_append_seconds", "duration from a decision until its record is durable", QUICK),
        )

    @property
    def leads(self) -> bool:
        """True while this instance decides; a standby only follows."""
        return self._turn is None or self._turn.mine

    def _decides(self) -> dict[Labels, float]:
        return {(self._writer,): self.leads}

    def wake(self) -> None:
        """Wake the decision loop."""
        self.loop.wake()

    async def run(self, handlers: dict[str, Handler] | None = None) -> None:
        """Answer requests and decide, until cancelled or fenced."""
        await serve(self.service.connection, self.service.name, self.fold, {"status": self._status, **(handlers or {})})
        if self._turn is None:
            await self.loop.run()
            return
        await run_until_first_ends(self.loop.run(), self._run_election(self._turn))

    async def _run_election(self, turn: LeaderElection) -> None:
        await self.caught_up.wait()  # an instance that has not read the whole ledger does not take over
        await run_election(self.service.connection, self._writer, turn, self.wake)

    def _status(self, _tenant: str, _user: str, payload: bytes) -> ServiceView | Awaitable[ServiceView]:
        if payload in (b"", b"null"):  # some ask without a body, some with an empty one
            return self._view()
        return self._status_at(decode(payload, StatusRequest).folded)

    async def _status_at(self, sequence: int) -> ServiceView:
        with suppress(TimeoutError):
            async with asyncio.timeout(STATUS_WITHIN):
                await self.follower.until(lambda: self.fold.sequence >= sequence)
        return self._view()

    def _view(self) -> ServiceView:
        view = status(self.service.name, self.fold)
        return view if self._turn is None else structs.replace(view, detail=view.detail | {"decides": int(self._turn.mine)})
