"""R22: the expected start of every waiting job is when it really starts, if jobs end at their limits and no new job comes."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.documents import model as d
from headrace.contracts.facts import GrowthRequestedV1, LeaseGrantedV1
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.domain.explain.explain import explain
from headrace.domain.model.job_states import JobState
from headrace.simulate.scenario import Expect, Moment, Nodes, Scenario, Submit
from headrace.simulate.virtual_system import START
from headrace.simulate.world import World
from tests.properties.campaign import histories

AT_ONCE = d.PreemptionTerms(callback_grace=0, term_grace=0)


def sizes(draw) -> tuple[d.Profile, ...]:
    """Profiles of one size, or of several, and gangs."""
    amounts = draw(
        st.sampled_from(
            [[GPU_UNITS // 2], [GPU_UNITS], [2 * GPU_UNITS], [GPU_UNITS, 2 * GPU_UNITS], [GPU_UNITS // 2, GPU_UNITS]]
        )
    )
    plain = [d.Profile(name=f"p{number}", request={GPU: size}, pools=("a",)) for number, size in enumerate(amounts)]
    gangs = [d.Profile(name="gang", request={GPU: GPU_UNITS}, replicas=2, pools=("a",))] if draw(st.booleans()) else []
    return (*plain, *gangs)


@st.composite
def crowds(draw) -> Scenario:
    """More jobs than there is room for, in a few policies; each runs until its time limit."""
    profiles = sizes(draw)
    nodes = Nodes(name="n", count=draw(st.integers(1, 2)), labels={"site": "a"}, gpus=2)
    policies = tuple(
        d.Policy(
            name=f"q{number}",
            profiles=tuple(d.PolicyProfile(name=profile.name) for profile in profiles),
            priority=draw(st.integers(0, 1)),
            weight=draw(st.integers(1, 2)),
            limit=draw(st.sampled_from([{}, {}, {GPU: 2 * GPU_UNITS}, {GPU: 3 * GPU_UNITS}])),
            preemption=AT_ONCE,
        )
        for number in range(draw(st.integers(1, 3)))
    )
    jobs = [
        Submit(
            name=f"j{number}",
            queue=f"{draw(st.sampled_from(policies)).name}/{draw(st.sampled_from(profiles)).name}",
            priority=draw(st.integers(0, 1)),
            time_limit=draw(st.integers(5, 60)) * SECOND,
        )
        for number in range(draw(st.integers(3, 12)))
    ]
    moments = [Moment(at=draw(st.integers(0, 4)) * SECOND, submit=job) for job in jobs]
    backfill = draw(st.sampled_from([0, 3 * SECOND, 20 * SECOND, HOUR]))
    return Scenario(
        documents=d.Documents(
            pools=(d.Pool(name="a", selector={"site": "a"}, backfill_for=backfill),), profiles=profiles, policies=policies
        ),
        nodes=(nodes,),
        timeline=(*moments, Moment(at=4 * SECOND, expect=Expect()), Moment(at=HOUR, expect=Expect())),
    )


def foreseen_and_true(scenario: Scenario) -> tuple[dict[str, int | None], dict[str, int | None], World]:
    """The expected starts of those who wait at the first moment that expects something, and when they started."""
    world = World(scenario)
    moments = world.run()
    next(moments)
    waiting = [job.key for job in world.state.jobs.values() if job.state is JobState.PENDING]
    expected = {key: explain(world.state, world.state.jobs[key], world.now).expected_start for key in waiting}
    for _ in moments:
        pass
    granted = {
        fact.job: START + stated.at for stated in world.history for fact in stated.facts if isinstance(fact, LeaseGrantedV1)
    }
    return expected, {key: granted.get(key) for key in waiting}, world


@histories()
@given(crowds())
def test_every_job_starts_when_it_was_expected_to(scenario) -> None:
    expected, started, _ = foreseen_and_true(scenario)
    assert started == expected


@st.composite
def growing(draw) -> Scenario:
    """More jobs than the hall has room for, before a pool that grows by nodes of two GPUs."""
    node = d.BurstNode(gpus=2, gpu_model="GPU", cpus=8, memory=1024)
    burst = d.Burst(provider="x", node=node, max_nodes=draw(st.integers(1, 3)), boot=draw(st.integers(5, 30)) * SECOND)
    pools = (d.Pool(name="a", selector={"site": "a"}), d.Pool(name="b", selector={"site": "b"}, burst=burst))
    profiles = tuple(
        d.Profile(name=f"p{count}", request={GPU: count * GPU_UNITS}, pools=("a", "b"))
        for count in draw(st.sampled_from([[1], [2]]))
    )
    links = tuple(d.PolicyProfile(name=profile.name) for profile in profiles)
    jobs = [
        Submit(
            name=f"j{number}", queue=f"q/{draw(st.sampled_from(profiles)).name}", time_limit=draw(st.integers(5, 60)) * SECOND
        )
        for number in range(draw(st.integers(2, 9)))
    ]
    moments = [Moment(at=draw(st.integers(0, 4)) * SECOND, submit=job) for job in jobs]
    return Scenario(
        documents=d.Documents(
            pools=pools, profiles=profiles, policies=(d.Policy(name="q", profiles=links, preemption=AT_ONCE),)
        ),
        nodes=(Nodes(name="n", count=1, labels={"site": "a"}, gpus=2),),
        timeline=(*moments, Moment(at=4 * SECOND, expect=Expect()), Moment(at=HOUR, expect=Expect())),
    )


def with_nodes(scenario: Scenario, world: World) -> Scenario:
    """The scenario with the nodes that were asked for, each there when it has booted."""
    burst = world.state.pools["b"].document.burst
    asked = [
        (stated.at, fact.nodes) for stated in world.history for fact in stated.facts if isinstance(fact, GrowthRequestedV1)
    ]
    joins = tuple(
        Moment(
            at=at + burst.boot,
            node_joins=Nodes(name=f"b{number}", count=count, labels={"site": "b"}, gpus=2, cpus=8, memory=1024),
        )
        for number, (at, count) in enumerate(asked)
    )
    own = tuple(moment for moment in scenario.timeline if moment.node_joins is None)
    return msgspec.structs.replace(scenario, timeline=tuple(sorted((*joins, *own), key=lambda moment: moment.at)))


@histories(one_in=2)
@given(growing())
def test_where_pools_grow_every_job_starts_when_it_was_expected_to(scenario) -> None:  # R38
    for _ in range(12):
        expected, started, world = foreseen_and_true(scenario)
        after = with_nodes(scenario, world)
        if after == scenario:
            break
        scenario = after
    assert (after, started) == (scenario, expected)
