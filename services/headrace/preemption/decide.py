"""One round of preemption: answer open searches, watch ladders, settle what has ended. Pure."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Protocol

from headrace.contracts import facts as f
from headrace.contracts.durations import SECOND
from headrace.domain.record_room import RecordRoom
from headrace.domain.state import JobState
from headrace.domain.victims import NoPlan, Plan, search

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.domain.state import JobRecord, State
    from headrace.domain.takings import Preemption, Search

OVERRUN_MAX = 30 * SECOND
"""How long after its ladder's end a node may still be at it (R28)."""
NODE_TIMEOUT = 60 * SECOND
"""How long a node may be silent (R32)."""


class Heard(Protocol):
    """When each node was last heard of."""

    def get(self, node: str, default: int = 0, /) -> int:
        """Microseconds, in the same clock as `now`; `default` where it never was."""


class PreemptionWatch:
    """The rules of preemption over one state.

    `heard` says when each node was last heard of; it is no part of the state, because heartbeats are not in
    the ledger: what follows from silence is stated as an observation (`node.lost`), on which the allocator then decides.
    """

    def __init__(self, state: State, heard: Heard | None = None) -> None:
        self.state = state
        self.heard = heard

    def decide(self, now: int) -> tuple[AnyFact, ...]:
        """The facts to state at log time `now`; empty when there is nothing to say."""
        room = RecordRoom()
        return (*self._answers(now, room), *room.fill(chain(self._settled(), self._overdue(now), self._lost(now))))

    def next_wakeup(self) -> int | None:
        """The log time at which a ladder becomes overdue or a node lost (R34)."""
        moments = [_ladder_end(job) for job in self._stopping()]
        if self.heard is not None:
            ready = [node for node in self.state.nodes.values() if node.status == "ready"]
            moments += [max(self.heard.get(node.name, 0), node.registered_at) + NODE_TIMEOUT for node in ready]
        return min(moments, default=None)

    def _answers(self, now: int, room: RecordRoom) -> Iterator[AnyFact]:
        for name in sorted(self.state.pools):
            pool = self.state.pools[name]
            asked = pool.search
            if asked is None or asked.proposal is not None or asked.job.state is not JobState.PENDING:
                continue
            answer = _answer(asked, search(self.state, asked.job, pool, now))
            if not room.takes((answer,)):
                return  # the next record has room
            yield answer

    def _settled(self) -> Iterator[AnyFact]:
        for preemption in self.state.preemptions.values():
            if preemption.all_left_at and not preemption.settled:
                yield _settlement(self.state, preemption)

    def _stopping(self) -> Iterator[JobRecord]:
        for policy in (*self.state.policies.values(), *self.state.deleted_policies.values()):
            for job in policy.jobs.values():
                if job.state is JobState.STOPPING and any(not lease.overdue for lease in job.leases.values()):
                    yield job

    def _overdue(self, now: int) -> Iterator[AnyFact]:
        for job in self._stopping():
            if now < _ladder_end(job):
                continue
            for lease in job.leases.values():
                if not lease.overdue:
                    yield f.LeaseOverdueV1(job=job.key, attempt=job.attempt, rank=lease.rank, node=lease.node)

    def _lost(self, now: int) -> Iterator[AnyFact]:
        if self.heard is None:
            return
        for node in self.state.nodes.values():
            silent_for = now - max(self.heard.get(node.name, 0), node.registered_at)
            if node.status == "ready" and silent_for >= NODE_TIMEOUT:
                yield f.NodeLostV1(node=node.name, silent_for=silent_for)


def _answer(asked: Search, found: Plan | NoPlan) -> AnyFact:
    if isinstance(found, NoPlan):
        return f.PreemptionNoneV1(
            preemption=asked.id,
            job=asked.job.key,
            pool=asked.pool,
            why=found.why,
            protected=found.protected,
            retry_at=found.retry_at,
        )
    return f.PreemptionProposedV1(
        preemption=asked.id,
        job=asked.job.key,
        pool=asked.pool,
        cause=found.cause,
        victims=found.victims,
        places=found.places,
        rule="R26",
    )


def _ladder_end(job: JobRecord) -> int:
    ladder = job.stop
    graces = ladder.callback_grace + ladder.term_grace if ladder is not None else 0
    return job.stop_at + graces + OVERRUN_MAX


def _settlement(state: State, preemption: Preemption) -> f.PreemptionSettledV1:
    """How it ended, in three parts, and what was lost: nothing where a checkpoint was registered during the grace."""
    signalled = preemption.signalled_at or preemption.ordered_at
    exited = max(preemption.exited_at, signalled)
    lost = 0
    for victim in preemption.victims:
        job = state.jobs.get(victim.job)
        saved = job is not None and job.checkpoint_attempt == victim.attempt and job.checkpoint_at >= preemption.ordered_at
        lost += 0 if saved else victim.lost
    return f.PreemptionSettledV1(
        preemption=preemption.id,
        job=preemption.job.key,
        victims=len(preemption.victims),
        lost=lost,
        to_signal=signalled - preemption.ordered_at,
        grace=exited - signalled,
        to_release=max(0, preemption.released_at - exited),
    )
