"""Suspended jobs in random histories: none stays beside a place that it would be given, and none is moved for nothing (R29)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from headrace.allocator.decide import Allocator
from headrace.contracts import facts as f
from headrace.contracts.facts.fact import Ladder
from headrace.domain.fold.apply import make_true
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.snapshots.snapshot import copy_of
from headrace.domain.state.state import State
from headrace.simulate.world import World
from tests.properties.auditor import Auditor
from tests.properties.campaign import histories
from tests.properties.checked_histories import Checked, play
from tests.properties.oracle_watch import compiled, watch
from tests.properties.suspending import suspending
from tests.unit.domain.snapshot import differences, snapshot


def places_if_requeued(state: State, key: str, now: int) -> set[str]:
    """The nodes that a suspended job would be granted at once, were it in line: as a copy of the state is decided upon."""
    other = copy_of(state)
    job, attempt = other.jobs[key], other.jobs[key].attempt
    ladder = Ladder(cause="requeued", callback_grace=0, term_grace=0)
    ends = [
        f.LeaseEndedV1(job=key, attempt=attempt, rank=rank, outcome="killed", stopping=True, exited_at=now, at=now)
        for rank in job.leases
    ]
    facts = [
        f.StopOrderedV1(job=key, attempt=attempt, ladder=ladder),
        *ends,
        f.JobRequeuedV1(job=key, attempt=attempt, cause="requeued"),
    ]
    make_true(other, enumerate(facts), now, other.sequence + 1)
    decided = Allocator(other).decide(now)
    return {fact.node for fact in decided if isinstance(fact, f.LeaseGrantedV1) and fact.job == key}


class Looked(Checked):
    """A world in which every suspended job is looked at whenever everything has come to rest."""

    def run_until_stable(self) -> None:
        super().run_until_stable()
        for job in self.state.suspended.values():
            if job.checkpoint and all(self.state.nodes[lease.node].healthy for lease in job.leases.values()):
                places = places_if_requeued(self.state, job.key, self.now)
                # a node on probation is not a place for a job that would give up another for it
                assert not places or not places.isdisjoint(self.state.set_aside), f"{job.key} stays suspended beside {places}"


@histories(one_in=2)
@given(suspending())
def test_no_job_with_a_checkpoint_stays_suspended_beside_a_place_that_it_would_be_given(scenario) -> None:
    world, ledger = play(Looked(scenario, judged=False)), FoldedLedger()

    for message in world.log.messages_after(0):
        ledger.read(message)

    assert Auditor().read_all(world.log.messages_after(0)) == []
    assert differences(snapshot(ledger.state), snapshot(world.state)) == []


@histories()
@given(suspending())
def test_a_job_moves_at_most_once_for_each_time_that_it_was_suspended(scenario) -> None:
    world = play(World(scenario, judged=False))

    facts = [fact for stated in world.history for fact in stated.facts]
    suspended = Counter(fact.job for fact in facts if isinstance(fact, f.LeaseSuspendedV1) and not fact.rank)
    moved = Counter(fact.job for fact in facts if isinstance(fact, f.MoveOrderedV1))

    assert moved <= suspended


@compiled
@histories(one_in=2)
@given(suspending())
def test_every_round_moves_and_resumes_what_a_look_at_everything_would(scenario) -> None:
    watch(scenario)
