"""Every job that is admitted comes to exactly one end, once nothing new is wanted and what runs has run out; nothing is left over then."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from headrace.contracts.facts import JobAdmittedV1, JobDismissedV1, JobEndedV1
from headrace.contracts.transport.subjects import cancel
from headrace.contracts.values.durations import HOUR
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.explain.wait_reasons import pools_of, wait_in
from headrace.domain.model.job_states import FINAL, JobState
from headrace.domain.model.jobs import JobRecord
from headrace.simulate.scenario import Moment
from headrace.simulate.timeline_events import happen
from headrace.simulate.world import World
from tests.properties.campaign import histories
from tests.properties.histories import scenarios
from tests.unit.domain.snapshot import differences, kept, naive

NOT_FOR_CAPACITY = {
    WaitReason.FROZEN,
    WaitReason.MAINTENANCE,
    WaitReason.OUTSIDE_WINDOW,
    WaitReason.BUDGET_EXHAUSTED,
    WaitReason.RESERVED_SHARE_BUSY,
}


def mend(world: World) -> None:
    """Every node is in service again, and starts what it should."""
    for name, node in list(world.state.nodes.items()):
        happen(world, Moment(at=0, allow_starts=name))
        happen(world, Moment(at=0, uncordon=name))
        if not node.healthy:
            happen(world, Moment(at=0, node_back=name))
    world.run_until_stable()


def run_out(world: World) -> None:
    """Whatever runs ends, and what starts in its place in its turn, until nothing does any more."""
    for _ in range(4 * len(world.state.jobs) + 1):
        holding = [job for job in world.state.jobs.values() if job.leases]
        if not holding:
            return
        for job in holding:
            world.machines.finish(job.key, world.now, 0)
        world.pass_to(world.now + HOUR)
    raise AssertionError(f"still there: {[(job.key, job.state) for job in holding]}")


def may_need_growth(world: World, job: JobRecord, grown: set[str]) -> bool:
    """Whether it may fit only on a node that would have to be created (R38)."""
    return any(pool.document.name in grown for pool in pools_of(world.state, job))


def reasons(world: World, job: JobRecord) -> set[WaitReason | None]:
    """Why it does not run in each of its pools: it may be too large for one, and have to wait in another. None: nothing is in its way."""
    waits = (wait_in(world.state, job, pool, world.now) for pool in pools_of(world.state, job))
    return {None if wait is None else wait.reason for wait in waits}


@histories()
@given(scenarios())
def test_every_admitted_job_ends_once_and_nothing_is_left_over(scenario) -> None:
    world = World(scenario, judged=False)
    for _ in world.run():
        pass
    mend(world)
    run_out(world)

    left = [job for job in world.state.jobs.values() if job.state not in FINAL]
    assert {job.state for job in left} <= {JobState.PENDING}
    grown = {name for name, pool in world.state.pools.items() if pool.document.burst is not None}
    why = {job.key: reasons(world, job) for job in left if not may_need_growth(world, job, grown)}
    assert {key: found for key, found in why.items() if None in found or found.isdisjoint(NOT_FOR_CAPACITY)} == {}

    for job in left:
        world.publish(cancel(*job.key.split(".")), b"{}")
    world.run_until_stable()
    facts = [fact for stated in world.history for fact in stated.facts]
    ends = Counter(fact.job for fact in facts if isinstance(fact, JobEndedV1 | JobDismissedV1))
    assert ends == Counter(fact.job for fact in facts if isinstance(fact, JobAdmittedV1))
    assert (world.state.preemptions, world.state.holds, world.state.suspended, world.state.barred) == ({}, {}, {}, {})
    assert [pool.use for pool in world.state.pools.values() if pool.use] == []
    assert differences(kept(world.state), naive(world.state)) == []
