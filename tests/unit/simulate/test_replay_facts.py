"""What was really stated, in a world that is another."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, Pool
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.values.amounts import CPU, CPU_UNITS, GPU, GPU_UNITS
from headrace.governance.objects import ObjectName
from headrace.simulate.changes import read_changes
from headrace.simulate.replay_facts import object_of, restate
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World

HALF = {GPU: GPU_UNITS // 2, CPU: CPU_UNITS}


@pytest.fixture
def world():
    """A GPU, and a policy that may take half of it at a time."""
    made = World(
        read_scenario(
            read_tree("""
groups: [{name: all, members: [ann]}]
pools: [{name: hall, selector: {site: a}}]
profiles: [{name: half, request: {gpu: 0.5, cpu: 1}, pools: [hall]}]
nodes: [{name: n, labels: {site: a}, gpus: 1}]
policies: [{name: dev, group: all, profiles: [half], max_pending: 2}]
timeline: [{at: 0s, submit: {name: first, queue: dev/half}}]
""")
        ),
        long=True,
    )
    made.begin()
    list(made.play())
    return made


def change(world, text):
    world.change(read_changes(read_tree(text)))


def admitted(name="a", request=HALF, policy="dev", profile="half"):
    return f.JobAdmittedV1(job=f"default.ann.{name}", policy=policy, profile=profile, request=request)


def listen_to(world):
    """What is stated from now on."""
    stated = []
    world.listeners.append(lambda fact, _: stated.append(fact))
    return stated


def test_a_job_comes_as_it_came(world):
    stated = listen_to(world)
    restate(world, (admitted(),), "")
    assert stated == [admitted()]


@pytest.mark.parametrize(
    ("changes", "fact", "reason"),
    [
        pytest.param(
            "delete: [{kind: policy, name: dev, mode: cancel}]", admitted(policy="ops"), "UNKNOWN_QUEUE", id="no policy"
        ),
        pytest.param("", admitted(profile="full"), "UNKNOWN_QUEUE", id="no profile"),
        pytest.param(
            "policies: [{name: dev, group: all, profiles: [half], limit: {gpu: 0.25}}]",
            admitted(),
            "EXCEEDS_POLICY_LIMIT",
            id="beyond a limit that is new",
        ),
    ],
)
def test_a_job_that_could_never_run_there_is_refused(world, changes, fact, reason):  # R13
    if changes:
        change(world, changes)
    stated = listen_to(world)
    restate(world, (fact,), "admission")
    assert [(type(one), one.reason) for one in stated] == [(f.JobRejectedV1, reason)]


def test_no_more_wait_than_may(world):  # R14
    for name in "abc":
        restate(world, (admitted(name),), "")
    stated = listen_to(world)
    restate(world, (admitted("d"),), "")
    assert [one.reason for one in stated] == ["TOO_MANY_PENDING"]


def test_a_job_that_asked_for_its_profile_asks_for_what_that_is_now(world):
    change(world, "profiles: [{name: half, request: {gpu: 0.25, cpu: 2}, pools: [hall]}]")
    stated = listen_to(world)
    restate(world, (admitted(), admitted("b", {GPU: GPU_UNITS // 8, CPU: CPU_UNITS})), "")
    assert [one.request for one in stated] == [
        {GPU: GPU_UNITS // 4, CPU: 2 * CPU_UNITS},
        {GPU: GPU_UNITS // 8, CPU: CPU_UNITS},
    ]


def test_what_was_written_about_a_changed_object_is_passed_over(world):
    change(world, "policies: [{name: dev, group: all, profiles: [half], weight: 3}]")
    old = f.PolicyAppliedV1(author="a.b", policy=Policy(tenant="default", name="dev", group="all", profiles=()))
    other = f.PolicyAppliedV1(author="a.b", policy=Policy(tenant="default", name="ops", group="all", profiles=()))
    stated = listen_to(world)
    restate(world, (old, other), "governance")
    assert stated == [other]
    assert world.state.policies["default", "dev"].document.weight == 3


def test_a_request_about_an_attempt_is_about_the_one_that_is_under_way(world):
    running = world.names["first"]
    stated = listen_to(world)
    requeue = f.JobRequeueRequestedV1(job=running, attempt=7, by="ann")
    restate(world, (requeue, f.JobRequeueRequestedV1(job="default.ann.gone", attempt=1, by="ann")), "admission")
    assert [(one.job, one.attempt) for one in stated] == [(running, 1)]


def test_what_ran_on_a_node_that_went_away_is_gone_when_it_comes_back(world):
    restate(world, (f.NodeLostV1(node="n", silent_for=0),), "preemption")
    assert (world.machines.runs, len(world.machines.lost["n"])) == ({}, 1)
    back = f.NodeRegisteredV1(node="n", labels={"site": "a"}, cpu=1, memory=1, at=0, holding=("x",))
    stated = listen_to(world)
    restate(world, (back,), "node.n")
    assert (stated[0].holding, world.machines.lost) == ((), {})


def test_every_fact_of_governance_names_its_object():
    pool = Pool(name="hall", selector={})
    assert object_of(f.PoolAppliedV1(author="a", pool=pool)) == ObjectName("pool", "", "hall")
    assert object_of(f.UserDeletedV1(author="a", tenant="t", handle="ann")) == ObjectName("user", "t", "ann")
    assert object_of(f.ObjectClosedV1(author="a", kind="pool", name="hall", mode="freeze")) == ObjectName("pool", "", "hall")
    assert object_of(admitted()) is None
