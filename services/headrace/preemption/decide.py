"""One round of preemption: answer open searches, detect overdue leases and lost nodes, settle what has ended. Pure."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Protocol

from headrace.contracts import facts as f
from headrace.contracts.values.durations import SECOND
from headrace.domain.fold.record_size import RecordCapacity
from headrace.domain.model.deadlines import Deadlines
from headrace.domain.model.job_states import JobState
from headrace.domain.preemption.victims import NoPlan, VictimPlan, search
from headrace.domain.state.job_deadlines import walking
from headrace.preemption.idle_leases import changes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.domain.model.jobs import Preemption
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.preemption_state import Search
    from headrace.domain.state.state import State
    from headrace.preemption.idle_leases import LeaseUse

NODE_TIMEOUT = 60 * SECOND
"""Silence after which a node counts as lost (R32)."""


class NodeSilence(Protocol):
    """Silence of nodes, by a monotonic clock: no jump of log time makes a node lost (R34)."""

    def silence(self, node: str) -> int:
        """Microseconds since the last heartbeat of the node, or since it was first asked about."""


class PreemptionWatch:
    """The rules of preemption over one state.

    `node_silence` returns how long each node has been silent. It is not part of the state, because heartbeats are not in the ledger:
    silence is stated as an observation (`node.lost`), on which the allocator then decides. To avoid scanning all nodes, each is checked
    again at the earliest time at which it could be lost. `use` returns how leases use their devices, which is not in the ledger either;
    None: no policy wants to know.

    From its creation on, the fold keeps the index of jobs that may yield: no decision has to build it, so none changes the state.
    """

    def __init__(self, state: State, node_silence: NodeSilence | None = None, use: LeaseUse | None = None) -> None:
        self.state = state
        self.node_silence = node_silence
        self.use = use
        self._checks = Deadlines()
        self._known = -1
        self._looked_at = 0
        state.jobs_that_may_yield()

    def decide(self, now: int) -> tuple[AnyFact, ...]:
        """The facts to state at log time `now`; may be empty."""
        state, self._looked_at = self.state, max(now, self.state.now)
        uses = changes(state, self.use, self._looked_at) if self.use is not None else iter(())
        if self.node_silence is None and not (state.preemptions or state.ladders.moments or _searches(state)):
            return tuple(uses) if self.use is not None else ()
        record = RecordCapacity()
        return (
            *self._answers(now, record),
            *record.fill(chain(self._settled(now), self._overdue(now), self._lost(now), uses)),
        )

    def next_wakeup(self) -> int | None:
        """Log time at which a lease becomes overdue, a node may be lost, or a preemption with late leaves is settled (R34)."""
        moments = [self.state.ladders.next(self._looked_at), self._checks.next(self._looked_at)]
        moments += [at for one in self.state.preemptions.values() if (at := settles_at(self.state, one)) > self._looked_at]
        if self.use is not None:
            moments.append(self.use.next_change(self._looked_at))
        return min((moment for moment in moments if moment is not None), default=None)

    def _answers(self, now: int, record: RecordCapacity) -> Iterator[AnyFact]:
        for name, asked in sorted(_searches(self.state).items()):
            if asked.proposal is not None or asked.job.state is not JobState.PENDING:
                continue
            answer = _answer(asked, search(self.state, asked.job, self.state.pools[name], now))
            if not record.takes((answer,)):
                if not record.is_untouched:
                    return  # the next record has space
                answer = _answer(asked, NoPlan("the plan is too large for one record"))
                record.takes((answer,))
            yield answer

    def _settled(self, now: int) -> Iterator[AnyFact]:
        for preemption in self.state.preemptions.values():
            if preemption.all_left_at and not preemption.settled and now >= settles_at(self.state, preemption):
                yield _settlement(self.state, preemption)

    def _overdue(self, now: int) -> Iterator[AnyFact]:
        for key in self.state.ladders.due(now):
            job = self.state.jobs[key]
            for lease in walking(job):
                yield f.LeaseOverdueV1(job=job.key, attempt=job.attempt, rank=lease.rank, node=lease.node)

    def _lost(self, now: int) -> Iterator[AnyFact]:
        """Silence counts from the last registration at the earliest.

        A stopped node is not lost while its leases are covered by the stop (R36).
        """
        if self.node_silence is None:
            return
        if self._known != self.state.documents_sequence:  # nodes may have registered
            self._known = self.state.documents_sequence
            for node in self.state.nodes.values():
                if node.status != "lost" and node.name not in self._checks.moments:
                    self._checks.set(node.name, now)
        for name in self._checks.due(now):
            if name not in self.state.nodes:  # it has left the installation
                self._checks.clear(name)
                continue
            node = self.state.nodes[name]
            silent_for = min(self.node_silence.silence(name), now - node.registered_at)
            if node.status == "lost" or (silent_for >= NODE_TIMEOUT and not _is_missed(node)):
                self._checks.clear(name)
            elif silent_for >= NODE_TIMEOUT:
                yield f.NodeLostV1(node=name, silent_for=silent_for)
            else:
                self._checks.set(name, now + NODE_TIMEOUT - silent_for)


def _is_missed(node: NodeState) -> bool:
    """True if the node must be declared lost when it is silent: it did not stop, or its stop does not cover all its leases (R36)."""
    return node.healthy or (node.stopped_through > 0 and bool(node.leases))


def _searches(state: State) -> dict[str, Search]:
    """Searches for victims, by pool."""
    return {name: pool.search for name, pool in state.pools.items() if pool.search is not None}


def _answer(asked: Search, found: VictimPlan | NoPlan) -> AnyFact:
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


def settles_at(state: State, preemption: Preemption) -> int:
    """Time from which a preemption is settled: 0 once all have left in time; after a late leave, the preemptor goes first (R27)."""
    pool = state.pools.get(preemption.pool)
    if preemption.kept or not preemption.all_left_at or preemption.settled or pool is None:
        return 0
    late = {victim.job for victim in preemption.victims}
    if not any(victim.key in late for victim in state.barred.get(preemption.job.key, ())):
        return 0
    return preemption.all_left_at + pool.document.nomination_timeout


def _settlement(state: State, preemption: Preemption) -> f.PreemptionSettledV1:
    """Outcome of a preemption: its three parts, and the lost work, which is zero after a checkpoint during the grace."""
    signalled = preemption.signalled_at or preemption.ordered_at
    exited = max(preemption.exited_at, signalled)
    lost = 0
    for victim in preemption.victims:
        job = state.jobs.get(victim.job)
        saved = job is not None and job.checkpoint_attempt == victim.attempt and job.checkpoint_at >= preemption.ordered_at
        waits = job is not None and job.suspended_at > 0 and job.attempt == victim.attempt  # a suspended job has lost nothing
        lost += 0 if saved or waits else victim.lost
    return f.PreemptionSettledV1(
        preemption=preemption.id,
        job=preemption.job.key,
        victims=len(preemption.victims),
        lost=lost,
        to_signal=signalled - preemption.ordered_at,
        grace=exited - signalled,
        to_release=max(0, preemption.released_at - exited),
    )
