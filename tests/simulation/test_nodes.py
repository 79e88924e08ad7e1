"""What a simulated executor hears, and when it does not."""

from __future__ import annotations

from headrace.contracts import documents as d
from headrace.contracts.amounts import GPU, GPU_UNITS
from headrace.contracts.durations import SECOND
from headrace.simulate.scenario import Nodes, Submit
from tests.simulation.machines import Behaviour
from tests.simulation.plan import Fault, Job, Plan
from tests.simulation.world import play

HALL = d.Documents(
    pools=(d.Pool(name="hall", selector={"site": "hall"}),),
    profiles=(d.Profile(name="one", request={GPU: GPU_UNITS}, pools=("hall",)),),
    policies=(d.Policy(name="ml", tenant="default", profiles=(d.PolicyProfile(name="one"),)),),
)


def test_what_an_executor_was_told_while_it_was_stopped_is_never_heard_if_it_was_killed_then():
    outcome = play(
        Plan(
            seed="halted",
            until=40 * SECOND,
            documents=HALL,
            nodes=(Nodes(name="n1", gpus=1, gpu_model="H100-80GB", cpus=4, labels={"site": "hall"}),),
            jobs=(Job(2 * SECOND, Submit(name="j1", queue="ml/one", tenant="default", user="ann"), Behaviour()),),
            faults=(Fault(10 * SECOND, "stop", "n1", span=70 * SECOND), Fault(15 * SECOND, "halt", "n1", span=5 * SECOND)),
        )
    )

    assert outcome.violations == []
    assert (outcome.counts["fault: stop"], outcome.counts["fault: halt"]) == (1, 1)
