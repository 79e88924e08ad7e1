"""The one service loop: decide at the tip, append. The only asynchronous code of a deciding service.

Naive meaning, with the follower of the process (`headrace.bus.follower`), which reads all new messages and folds them:

    at the tip (everything read is folded, and the last own record has come back) decide;
    append what was decided as one record;
    it comes back through the follower like any other record; decide again, until the decision is empty;
    then wait for a message, for the time that `next_wakeup` names, or for a nudge.

So a decision is a function of a prefix of the log and of `now`, and a service's only effect is what it appends. Facts of others that
arrive between the decision and the append are not conflicts: the next round takes them in. The services of one process share the fold, and
nothing else: each has its own chain, decider and leadership.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from headrace.bus.follower import Follower, retrying
from headrace.bus.log import Log, LogError, Message, WrongLast
from headrace.bus.log_clock import MICROSECONDS
from headrace.bus.notifier import Notifier
from headrace.bus.telemetry import span
from headrace.bus.writer_chain import Chain
from headrace.contracts.facts import AnyFact
from headrace.contracts.transport.subjects import ledger
from headrace.health.metrics import Histogram

SHORTEST_WAIT = 0.001


class Fenced(LogError):
    """Another instance has appended in this writer's name: stop, start again, and rebuild from the log."""


class Draft(NamedTuple):
    """The facts of one record, their cause, and the W3C traceparent that it continues."""

    facts: tuple[AnyFact, ...]
    cause: str = ""
    trace: str = ""


class Timing(NamedTuple):
    """Durations in seconds of a round that states something: its decision, and its append."""

    decision: Histogram
    append: Histogram


class Decider(Protocol):
    """Pure decisions on the state."""

    def decide(self, now: int) -> Draft | None:
        """What to state at the tip at the time `now`; None: nothing. Called again after each own record."""

    def next_wakeup(self) -> int | None:
        """When `decide` could return something else with no new message: log time in microseconds; None: never."""


class Leadership(Protocol):
    """Whether this instance is the leader (`headrace.bus.leader_election`)."""

    @property
    def mine(self) -> bool:
        """True while this instance leads."""


class ServiceLoop:
    """Appends what its decider decides on the fold of a follower, as long as it leads (`turn`; None: always).

    `log`: the log over the service's own login. `on_appended` is called when a draft has become durable at a sequence, before it is folded.
    """

    def __init__(
        self,
        follower: Follower[Any],
        log: Log,
        chain: Chain,
        decider: Decider,
        *,
        on_appended: Callable[[Draft, int], None] | None = None,
        turn: Leadership | None = None,
        timing: Timing | None = None,
    ) -> None:
        self._follower = follower
        self._fold = follower.fold
        self._time = follower.time
        self._log = log
        self._chain = chain
        self._decider = decider
        self._on_appended = on_appended
        self._turn = turn
        self._timing = timing
        self._begun = False
        self._wakeup = Notifier()
        self._settled = asyncio.Event()
        """Cleared while an append is under way, because the follower may read its record before the answer comes."""
        self._settled.set()
        follower.guard(ledger(chain.writer), self._expect)
        follower.listeners.append(self._wake_at_tip)

    def wake(self) -> None:
        """Decide again: something outside the log (a submission, a request, a heartbeat) could change the decision."""
        self._wakeup.ring()

    async def run(self) -> None:
        """Work until cancelled. Raises `Fenced`, `LogRefused`: the process has to stop."""
        await self._follower.caught_up.wait()
        while True:
            if self._time.unsure and self._is_at_tip():
                self._time.answered(await retrying(self._log.now))
            wait = await self._decide() if self._is_at_tip() and await self._may_decide() and self._is_at_tip() else None
            await self._wakeup.sleep(wait)

    def _wake_at_tip(self) -> None:
        if self._follower.at_tip:
            self._wakeup.ring()

    async def _expect(self, message: Message) -> None:
        """Wait until a record that is being appended is known to be stored. Raises `Fenced` if the message is another instance's."""
        await self._settled.wait()
        if self._begun and self._chain.is_foreign(message):
            raise Fenced(f"another instance has written as {self._chain.writer}: record {message.sequence}")

    async def _may_decide(self) -> bool:
        """True if this instance decides. A new leader first reads what is under way and continues after the writer's last record."""
        if self._begun:
            return True
        if self._turn is not None and not (self._turn.mine and self._fold.sequence >= await retrying(self._log.tip)):
            return False
        self._chain.restore(*self._fold.last_of(self._chain.writer))
        self._begun = True
        return True

    def _is_at_tip(self) -> bool:
        return self._follower.at_tip and self._fold.sequence >= self._chain.last

    async def _decide(self) -> float | None:
        """Decide once, and append the draft. Returns how many seconds to wait for a message (None: no timeout)."""
        now = max(self._fold.now, self._time.now())
        began = time.perf_counter()
        draft = self._decider.decide(now)
        decided = time.perf_counter()
        if draft is None:
            wakeup = self._decider.next_wakeup()
            return None if wakeup is None else max(SHORTEST_WAIT, (wakeup - self._time.now()) / MICROSECONDS)
        self._settled.clear()
        try:
            with span(f"{self._chain.writer} append", draft.trace, facts=len(draft.facts)) as traced:
                sequence = await self._chain.append(now, self._fold.sequence, draft.facts, draft.cause, traced.traceparent)
            if self._on_appended is not None:
                self._on_appended(draft, sequence)
        except WrongLast as error:
            raise Fenced(f"another instance writes as {self._chain.writer}: {error}") from error
        finally:
            self._settled.set()
        if self._timing is not None:
            self._timing.decision.observe(decided - began)
            self._timing.append.observe(time.perf_counter() - decided)
        return None
