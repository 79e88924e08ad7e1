"""R22: the expected start of every waiting job is when it really starts, where jobs end at their limits and nobody new comes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import documents as d
from headrace.contracts.amounts import GPU, GPU_UNITS
from headrace.contracts.durations import HOUR, SECOND
from headrace.contracts.facts import LeaseGrantedV1
from headrace.domain.state import JobState
from headrace.domain.why.explain import explain
from headrace.simulate.scenario import Expect, Moment, Nodes, Scenario, Submit
from headrace.simulate.world import START, World
from tests.properties.campaign import histories

AT_ONCE = d.PreemptionTerms(callback_grace=0, term_grace=0)


@st.composite
def crowds(draw) -> Scenario:
    """More jobs of one size than there is room for, in a few policies; each runs until its time limit."""
    size = draw(st.sampled_from([GPU_UNITS // 2, GPU_UNITS, 2 * GPU_UNITS]))
    nodes = Nodes(name="n", count=draw(st.integers(1, 2)), labels={"site": "a"}, gpus=2)
    room = nodes.count * nodes.gpus * GPU_UNITS // size
    policies = tuple(
        d.Policy(
            name=f"q{number}",
            profiles=(d.PolicyProfile(name="p"),),
            priority=draw(st.integers(0, 1)),
            weight=draw(st.integers(1, 2)),
            limit=draw(st.sampled_from([{}, {}, {GPU: size}, {GPU: 2 * size}])),
            preemption=AT_ONCE,
        )
        for number in range(draw(st.integers(1, 3)))
    )
    jobs = [
        Submit(
            name=f"j{number}",
            queue=f"{draw(st.sampled_from(policies)).name}/p",
            priority=draw(st.integers(0, 1)),
            time_limit=draw(st.integers(5, 60)) * SECOND,
        )
        for number in range(room + draw(st.integers(1, 8)))
    ]
    moments = [Moment(at=draw(st.integers(0, 4)) * SECOND, submit=job) for job in jobs]
    return Scenario(
        documents=d.Documents(
            pools=(d.Pool(name="a", selector={"site": "a"}),),
            profiles=(d.Profile(name="p", request={GPU: size}, pools=("a",)),),
            policies=policies,
        ),
        nodes=(nodes,),
        timeline=(*moments, Moment(at=4 * SECOND, expect=Expect()), Moment(at=HOUR, expect=Expect())),
    )


@histories()
@given(crowds())
def test_every_job_starts_when_it_was_expected_to(scenario) -> None:
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
    assert {key: granted.get(key) for key in waiting} == expected
