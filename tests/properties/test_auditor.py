"""The auditor sees what it is there to see: good ledgers pass, and each sort of damage is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest

from headrace.bus.log import Message
from headrace.contracts.documents.yaml_text import read_tree
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World
from tests.properties.auditor import SERVICES, Auditor

STORY = """
nodes: [{name: n, count: 2, labels: {site: a}, gpus: 2}]
pools: [{name: a, selector: {site: a}}]
profiles:
  - {name: one, request: {gpu: 1}, pools: [a]}
  - {name: half, request: {gpu: 0.5}, pools: [a]}
  - {name: gang, request: {gpu: 1}, replicas: 2, pools: [a]}
policies:
  - {name: lend, profiles: [one, half], reservation: {gpu: 1}, limit: {gpu: 3}}
  - {name: own, profiles: [one, gang], reservation: {gpu: 3}}
timeline:
  - {at: 0s, submit: {name: firm, queue: lend/one, preemptible: false}}
  - {at: 0s, submit: {name: soft, queue: lend/one, count: 2}}
  - {at: 0s, submit: {name: more, queue: lend/half}}
  - {at: 60s, submit: {name: g, queue: own/gang, duration: 60s}}
  - {at: 60s, submit: {name: o, queue: own/one, duration: 60s}}
  - {at: 299s, requeue: firm}
  - {at: 300s, cancel: firm}
  - {at: 300s, expect: {preemptions: 2}}
"""
OF_SLICES = """
nodes: [{name: n, labels: {site: a}, gpus: 1, gpu_model: H100-80GB, mig: true}]
pools: [{name: a, selector: {site: a}}]
profiles: [{name: four, mig: 4g.40gb, pools: [a]}, {name: three, mig: 3g.40gb, pools: [a]}]
policies: [{name: q, profiles: [four, three]}]
timeline:
  - {at: 0s, submit: {name: f, queue: q/four}}
  - {at: 0s, submit: {name: t, queue: q/three}}
  - {at: 1s, expect: {jobs: {f: running, t: running}}}
"""
OF_SUSPENSION = """
nodes: [{name: n, count: 2, labels: {site: a}, gpus: 1}]
pools: [{name: a, selector: {site: a}}]
profiles: [{name: one, request: {gpu: 1}, pools: [a]}]
policies:
  - {name: own, profiles: [one], reservation: {gpu: 1}, limit: {gpu: 1}, priority: 1}
  - {name: low, profiles: [one], preemption: {on_preempt: suspend}}
timeline:
  - {at: 0s, submit: {name: v, queue: low/one, count: 2}}
  - {at: 60s, submit: {name: o, queue: own/one, duration: 60s}}
  - {at: 90s, expect: {jobs: {v-1: running, v-2: suspended, o: running}}}
  - {at: 200s, expect: {jobs: {v-1: running, v-2: running, o: succeeded}}}
"""
SCENARIOS = sorted((Path(__file__).parent.parent / "scenarios").glob("*.yaml"))
Facts = list[dict[str, Any]]


@pytest.fixture(scope="module")
def ledger() -> list[Message]:
    return ledger_of(STORY)


@pytest.fixture(scope="module")
def ledger_of_slices() -> list[Message]:
    return ledger_of(OF_SLICES)


@pytest.fixture(scope="module")
def ledger_of_suspension() -> list[Message]:
    return ledger_of(OF_SUSPENSION)


def ledger_of(story: str) -> list[Message]:
    world = World(read_scenario(read_tree(story)))
    for _ in world.run():
        pass
    return world.log.messages_after(0)


def rewritten(ledger: list[Message], change: Callable[[Facts], Facts | None]) -> list[Message]:
    """The ledger with every record's facts passed through `change`, and chained anew, as a lying service would."""
    written, digests = [], dict.fromkeys(SERVICES, "")
    for message in ledger:
        record = json.loads(message.payload)
        record["facts"] = change(record["facts"])
        if record["by"] in SERVICES:
            record.pop("prev", None)
            if digests[record["by"]]:
                record["prev"] = digests[record["by"]]
        payload = json.dumps(record).encode()
        if record["by"] in SERVICES:
            digests[record["by"]] = blake2b(payload, digest_size=16).hexdigest()
        written.append(message._replace(payload=payload))
    return written


def every(kind: str, change: Callable[[dict[str, Any]], list[dict[str, Any]]]) -> Callable[[Facts], Facts]:
    """Apply `change` to all facts of a kind; it gives what stands in their place."""
    return lambda facts: [new for fact in facts for new in (change(fact) if fact["type"] == kind else [fact])]


def test_a_good_ledger_has_nothing_to_complain_of_written_anew_or_not(ledger) -> None:
    assert Auditor().read_all(ledger) == []
    assert Auditor().read_all(rewritten(ledger, lambda facts: facts)) == []


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_every_scenario_keeps_the_promises(path: Path) -> None:
    world = World(read_scenario(read_tree(path.read_text(encoding="utf-8"))))
    for _ in world.run():
        pass

    assert Auditor().read_all(world.log.messages_after(0)) == []


def test_a_missing_record_is_a_gap(ledger) -> None:
    found = Auditor().read_all([*ledger[:5], *ledger[6:]])

    assert found[0] == "5: sequence 7 follows 5"


def test_a_changed_record_breaks_the_chain_behind_it(ledger) -> None:
    place = next(number for number, message in enumerate(ledger) if message.subject == "hr.ledger.allocator")
    changed = ledger[place]._replace(payload=ledger[place].payload.replace(b'"engine":"simulate"', b'"engine":"simulatf"'))

    found = Auditor().read_all([*ledger[:place], changed, *ledger[place + 1 :]])

    assert [line.split(": ", 1)[1] for line in found] == ["the record of allocator does not name the one before it"]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(
            every("lease.granted.v1", lambda fact: [fact | {"devices": [{"device": "gpu0", "units": 126_000}], "node": "n-1"}]),
            "n-1/gpu0 is held by",
            id="a device is granted twice",
        ),
        pytest.param(
            every("lease.granted.v1", lambda fact: [fact | {"amounts": {**fact["amounts"], "gpu": 999_000}}]),
            "is granted {'gpu': 999000",
            id="more is charged than was asked for",
        ),
        pytest.param(
            every("lease.granted.v1", lambda fact: [] if fact.get("rank") else [fact]),
            "has 2 replicas, one record grants [0]",
            id="half a gang",
        ),
        pytest.param(
            every("policy.applied.v1", lambda fact: [fact | {"policy": {**fact["policy"], "limit": {"gpu": 63_000}}}]),
            "is granted default.sim.",
            id="beyond a limit",
        ),
        pytest.param(
            every("policy.applied.v1", lambda fact: [fact | {"policy": {**fact["policy"], "reservation": {"gpu": 0}}}]),
            "cannot take back 126000 gpu",
            id="not preemptible outside the reservation",
        ),
        pytest.param(
            every("policy.applied.v1", lambda fact: [fact | {"policy": {**fact["policy"], "reservation": {"gpu": 999_000}}}]),
            "yield to default.sim.",
            id="a victim inside its reservation",
        ),
        pytest.param(
            every("preemption.ordered.v1", lambda fact: [fact | {"cause": "priority"}]),
            "yields by priority to",
            id="a cause that is none",
        ),
        pytest.param(
            every(
                "policy.applied.v1", lambda fact: [fact | {"policy": {**fact["policy"], "preemption": {"min_runtime": 10**9}}}]
            ),
            "us, its minimum is 1000000000",
            id="a protected victim",
        ),
        pytest.param(
            every("job.requeue_requested.v1", lambda _fact: []), "its owner has not asked for it", id="requeued unasked"
        ),
        pytest.param(
            every("job.ended.v1", lambda fact: [fact, fact]), "is cancelled with 0 leases and ends as cancelled", id="two ends"
        ),
        pytest.param(
            every("job.requeued.v1", lambda fact: [fact, fact]), "is pending with 0 leases and is requeued", id="requeued twice"
        ),
        pytest.param(every("lease.ended.v1", lambda _fact: []), "leases and ends as succeeded", id="an end without a release"),
        pytest.param(every("job.admitted.v1", lambda fact: [fact, fact]), "is admitted twice", id="admitted twice"),
        pytest.param(
            every("node.registered.v1", lambda fact: [fact | {"cpu": -1}]),
            "has -1 cpu, less than its leases hold",
            id="cpu beyond a node",
        ),
        pytest.param(
            every("pool.applied.v1", lambda fact: [fact | {"pool": {**fact["pool"], "capacity": {"gpu": 126_000}}}]),
            "pool a has 126000 gpu, its leases hold 252000",
            id="beyond a pool",
        ),
        pytest.param(
            every("pool.applied.v1", lambda fact: [fact | {"pool": {**fact["pool"], "selector": {"site": "b"}}}]),
            "which is not in service in pool a",
            id="a node of no pool",
        ),
    ],
)
def test_every_broken_promise_is_told(ledger, change, complaint) -> None:
    found = Auditor().read_all(rewritten(ledger, change))

    assert any(complaint in line for line in found), found[:5]


def with_device(**changed: object) -> Callable[[dict[str, Any]], list[dict[str, Any]]]:
    """Every grant of a 3g names this of its device instead."""

    def change(fact: dict[str, Any]) -> list[dict[str, Any]]:
        device = fact["devices"][0] | (changed if fact["devices"][0]["mig"] == "3g.40gb" else {})
        return [fact | {"devices": [{key: value for key, value in device.items() if value is not None}]}]

    return change


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(every("lease.granted.v1", with_device(start=3)), "n/gpu0 is cut into", id="slices overlap"),
        pytest.param(every("lease.granted.v1", with_device(start=5)), "n/gpu0 is cut into", id="a slice sticks out"),
        pytest.param(every("lease.granted.v1", with_device(mig="4g.40gb")), "n/gpu0 is cut into", id="too many compute slices"),
        pytest.param(every("lease.granted.v1", with_device(mig="2g.20gb")), "is charged 63000 for", id="the charge of another"),
        pytest.param(every("lease.granted.v1", with_device(mig=None)), "where ['gpu0'] are cut", id="no slice of a cut device"),
        pytest.param(
            every("pool.applied.v1", lambda fact: [fact | {"pool": {**fact["pool"], "dedicated_to": {"tenant": "acme"}}}]),
            "is granted n, which is dedicated to {'tenant': 'acme'}",
            id="another's node",
        ),
    ],
)
def test_every_broken_promise_about_slices_and_owners_is_told(ledger_of_slices, change, complaint) -> None:  # R4, R21
    assert Auditor().read_all(ledger_of_slices) == []
    found = Auditor().read_all(rewritten(ledger_of_slices, change))
    assert any(complaint in line for line in found), found[:5]


def behind(kind: str, /, **forged: Any) -> Callable[[Facts], Facts]:
    """Behind every fact of a kind stands one more, of the same job where it does not say whose."""
    return every(kind, lambda fact: [fact, {"job": fact["job"], "attempt": fact.get("attempt", 0), **forged}])


def policies_say(**fields: Any) -> Callable[[Facts], Facts]:
    return every("policy.applied.v1", lambda fact: [fact | {"policy": {**fact["policy"], **fields}}])


def both(first: Callable[[Facts], Facts], second: Callable[[Facts], Facts]) -> Callable[[Facts], Facts]:
    return lambda facts: second(first(facts))


def preempts(**fields: Any) -> dict[str, Any]:
    """An order without a proposal."""
    order = {"type": "preemption.ordered.v1", "preemption": "x", "pool": "a", "cause": "reclaim", "victims": [], "places": []}
    return order | fields


def lease_of(fact: dict[str, Any], node: str) -> dict[str, Any]:
    """The next attempt, on the first device of a node."""
    devices, amounts = [{"device": "gpu0", "units": 126_000}], {"gpu": 126_000, "job": 1}
    return {"type": "lease.granted.v1", "attempt": 2, "pool": "a", "node": node, "devices": devices, "amounts": amounts} | {
        "job": fact["job"]
    }


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(
            every("lease.granted.v1", lambda fact: [fact, fact]), "is holding and is granted a lease", id="granted twice"
        ),
        pytest.param(
            every("lease.granted.v1", lambda fact: [fact | {"attempt": 7}]), "is granted attempt 7 rank 0", id="another attempt"
        ),
        pytest.param(
            every("lease.granted.v1", lambda fact: [fact | {"devices": [{"device": "gpu9", "units": 126_000}]}]),
            "n-1 has no gpu9",
            id="a device that is not there",
        ),
        pytest.param(
            every("lease.granted.v1", lambda fact: [fact | {"devices": [{"device": "gpu0", "units": 63_000}]}]),
            "holds other devices than it is charged for",
            id="less than is charged",
        ),
        pytest.param(
            behind("job.admitted.v1", type="policy.gated.v1", tenant="default", policy="low", shut=True),
            "starts outside its window",
            id="outside a window",
        ),
        pytest.param(
            policies_say(budgets=[{"key": "gpu", "hours": 0, "per": "week"}]),
            "starts although a budget is used up",
            id="beyond a budget",
        ),
        pytest.param(
            behind("job.admitted.v1", type="object.closed.v1", kind="policy", tenant="default", name="low"),
            "where nothing is to be granted (R11)",
            id="in a closed policy",
        ),
        pytest.param(
            behind("job.admitted.v1", type="object.closed.v1", kind="pool", tenant="", name="a"),
            "where nothing is to be granted (R11)",
            id="in a closed pool",
        ),
        pytest.param(
            behind("lease.granted.v1", type="job.dismissed.v1"), "is holding and is dismissed", id="dismissed while it runs"
        ),
        pytest.param(
            every("lease.suspended.v1", lambda _fact: []), "is to go on and is not suspended", id="resumed while it runs"
        ),
        pytest.param(
            behind("lease.suspended.v1", type="resume.ordered.v1"),
            "goes on in pool a before the job it yielded to has started",
            id="resumed before its preemptor starts",
        ),
        pytest.param(
            behind("lease.granted.v1", **preempts()), "is holding and preempts", id="a preemptor that holds what it needs"
        ),
        pytest.param(
            every("preemption.ordered.v1", lambda _fact: []),
            "is told that it is preempted, and by nobody that may",
            id="told without an order",
        ),
        pytest.param(
            behind("lease.suspended.v1", type="stop.ordered.v1", ladder={"cause": "preempted", "preemptor": "x"}),
            "is told that it is preempted, and by nobody that may",
            id="told again when it is suspended",
        ),
        pytest.param(policies_say(limit={"gpu": 63_000}), "takes back for default.sim.", id="reclaiming beyond its own limit"),
        pytest.param(
            every(
                "preemption.ordered.v1",
                lambda fact: [fact | {"places": [place | {"node": "n-1"} for place in fact["places"]]}],
            ),
            "n-1/gpu0 is kept for default.sim.",
            id="kept where others stay",
        ),
        pytest.param(
            every("preemption.ordered.v1", lambda fact: [fact | {"places": fact["places"] * 2}]),
            "n-2/gpu0 is kept for default.sim.",
            id="kept twice",
        ),
        pytest.param(
            every("lease.suspended.v1", lambda fact: [fact, preempts(job=fact["job"], victims=[{"job": fact["job"]}])]),
            "is suspended, and has nothing to yield",
            id="a suspended victim",
        ),
        pytest.param(
            both(
                every("job.admitted.v1", lambda fact: [fact | {"preemptible": False}]),
                behind("job.admitted.v1", **preempts(places=[{"node": "n-1", "amounts": {"gpu": 999_000, "job": 1}}])),
            ),
            "cannot take back 999000 gpu",
            id="kept for what is not preemptible, outside its reservation",
        ),
        pytest.param(
            policies_say(profiles=[{"name": name, "borrow": False} for name in ("one", "half", "gang")]),
            "does not borrow for it and uses",
            id="granted outside the reservation of a queue that does not borrow",
        ),
        pytest.param(
            both(
                policies_say(profiles=[{"name": name, "borrow": False} for name in ("one", "half", "gang")]),
                behind("job.admitted.v1", **preempts(places=[{"node": "n-1", "amounts": {"gpu": 999_000, "job": 1}}])),
            ),
            "does not borrow for it and uses 999000 gpu",
            id="kept outside the reservation of a queue that does not borrow",
        ),
        pytest.param(
            every("job.admitted.v1", lambda fact: [fact | {"preemptible": False}]),
            "is no job that could yield in pool a",
            id="a victim that is not preemptible",
        ),
        pytest.param(
            policies_say(reservation={"gpu": 63_000}), "reclaims gpu beyond the reservation of", id="reclaiming what it borrows"
        ),
        pytest.param(
            both(
                policies_say(reservation={"gpu": 252_000}),
                every("preemption.ordered.v1", lambda fact: [fact | {"cause": "priority"}]),
            ),
            "and could reclaim what it held",
            id="by priority from one that could take it back",
        ),
    ],
)
def test_every_broken_promise_about_going_on_and_going_first_is_told(ledger_of_suspension, change, complaint) -> None:
    assert Auditor().read_all(ledger_of_suspension) == []
    found = Auditor().read_all(rewritten(ledger_of_suspension, change))
    assert any(complaint in line for line in found), found[:5]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(
            every("job.requeued.v1", lambda fact: [fact, lease_of(fact, "n-1")]),
            "is back in pool a before the job it yielded to has started",
            id="back before its preemptor",
        ),
        pytest.param(
            every("job.requeued.v1", lambda fact: [fact | {"avoid": ["n-1", "n-2"], "avoid_until": 10**18}]),
            "which has just refused it",
            id="back where it was refused",
        ),
    ],
)
def test_every_broken_promise_about_coming_back_is_told(ledger, change, complaint) -> None:  # R27, R36
    found = Auditor().read_all(rewritten(ledger, change))
    assert any(complaint in line for line in found), found[:5]


def test_what_is_left_of_a_gang_that_was_to_be_suspended_yields_until_it_has_gone() -> None:  # R27, R29, R35
    path = next(path for path in SCENARIOS if path.stem == "R29_a_gang_is_suspended_as_a_whole_or_requeued")
    ledger = ledger_of(path.read_text(encoding="utf-8"))
    facts = [fact for message in ledger for fact in json.loads(message.payload)["facts"]]
    ladders = [fact["ladder"] for fact in facts if fact["type"] == "stop.ordered.v1"]
    preempted_by = {"job": ladders[0]["preemptor"], "preemption": "x"}
    ends = both(
        behind("lease.suspended.v1", type="nomination.ended.v1", **preempted_by), every("lease.started.v1", lambda _fact: [])
    )
    change = both(ends, every("job.requeued.v1", lambda fact: [fact, lease_of(fact, "m")]))

    assert [(ladder["cause"], ladder.get("then", "")) for ladder in ladders] == [("preempted", "suspend"), ("preempted", "")]
    found = Auditor().read_all(rewritten(ledger, change))
    assert any("is back in pool a before the job it yielded to has started" in line for line in found), found[:5]


OF_BUDGETS = """
pools: [{name: a, selector: {site: a}}]
profiles: [{name: one, request: {gpu: 1}, pools: [a]}]
policies: [{name: p, profiles: [one]}]
nodes: [{name: m, count: 1, labels: {site: a}, gpus: 1}]
timeline:
  - {at: 0s, stall_starts: m}
  - {at: 0s, submit: {name: never, queue: p/one, duration: 1h}}
  - {at: 150m, cancel: never}
  - {at: 150m, allow_starts: m}
  - {at: 160m, submit: {name: first, queue: p/one, duration: 1h}}
  - {at: 221m, submit: {name: second, queue: p/one, duration: 1h}}
  - {at: 300m, expect: {jobs: {never: cancelled, first: succeeded, second: succeeded}}}
"""


@pytest.mark.parametrize(
    ("hours", "complaints"),
    [(1, ["default.sim.01kdvt9z700000000000000003 starts although a budget is used up (R33)"]), (2, [])],
)
def test_a_budget_is_used_by_what_runs_and_not_by_what_never_starts(hours, complaints) -> None:  # R33, R37
    ledger = rewritten(ledger_of(OF_BUDGETS), policies_say(budgets=[{"key": "gpu", "hours": hours, "per": "week"}]))

    assert [line.partition(": ")[2] for line in Auditor().read_all(ledger)] == complaints


OF_MODELS = """
nodes: [{name: h, labels: {site: a}, gpus: 2, gpu_model: H100-80GB}, {name: l, labels: {site: a}, gpus: 1, gpu_model: A100-40GB},
  {name: e, labels: {site: b}, gpus: 2, gpu_model: H100-80GB}]
pools: [{name: a, selector: {site: a}, capacity: {"gpu:H100-80GB": 2, "gpu:A100-40GB": 1}}, {name: b, selector: {site: b}}]
profiles: [{name: two, request: {gpu: 2}, gpu_models: [H100-80GB], pools: [b, a]}, {name: some, request: {gpu_memory: 20GiB}, pools: [a]}]
policies: [{name: p, profiles: [two, some], limit: {"gpu:H100-80GB": 1}}]
timeline:
  - {at: 0s, submit: {name: beyond, queue: p/two}}
  - {at: 60s, submit: {name: other, queue: p/some}}
  - {at: 61s, expect: {jobs: {beyond: running, other: running}, job_nodes: {beyond: e, other: l}}}
"""


def test_a_limit_of_one_model_says_nothing_of_a_grant_of_another() -> None:  # R42, R43
    assert Auditor().read_all(ledger_of(OF_MODELS)) == []


OF_GROWTH = """
pools: [{name: sky, selector: {site: sky}, burst: {provider: local, max_nodes: 2, node: {gpus: 2, gpu_model: GPU}}}]
profiles: [{name: two, request: {gpu: 2}, pools: [sky]}]
policies: [{name: p, profiles: [two]}]
timeline:
  - {at: 0s, submit: {name: j, queue: p/two, count: 2}}
  - {at: 60s, node_joins: {name: c, count: 2, labels: {site: sky}, gpus: 2}}
  - {at: 61s, expect: {jobs: {j-1: running, j-2: running}}}
"""


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(
            every("growth.requested.v1", lambda fact: [fact | {"nodes": 3}]), "beyond what it may create", id="too many nodes"
        ),
        pytest.param(
            every("pool.applied.v1", lambda fact: [fact | {"pool": {**fact["pool"], "burst": None}}]),
            "beyond what it may create",
            id="a pool that cannot",
        ),
        pytest.param(
            every("growth.requested.v1", lambda fact: [fact, fact]), "is asked for nodes while it grows", id="asked twice"
        ),
        pytest.param(every("growth.requested.v1", lambda _fact: []), "has grown unasked", id="nobody asked"),
        pytest.param(
            every(
                "lease.granted.v1",
                lambda fact: [fact, {"type": "growth.requested.v1", "pool": "sky", "nodes": 0, "jobs": [fact["job"]]}],
            ),
            "for somebody who does not wait",
            id="for one that runs",
        ),
    ],
)
def test_every_broken_promise_about_growth_is_told(change, complaint) -> None:  # R38
    ledger = ledger_of(OF_GROWTH)
    assert Auditor().read_all(ledger) == []
    found = Auditor().read_all(rewritten(ledger, change))
    assert any(complaint in line for line in found), found[:5]


def test_a_node_whose_instance_has_ended_or_that_was_removed_makes_room_for_another_one() -> None:  # R38
    asked = {"type": "growth.requested.v1", "pool": "sky", "nodes": 1, "jobs": []}
    complaints = [
        [line for line in Auditor().read_all(rewritten(ledger_of(OF_GROWTH), change)) if "beyond what it may create" in line]
        for change in (
            every("growth.ended.v1", lambda fact, gone=gone: [fact, *gone, asked])
            for gone in ([], [{"type": "instance.ended.v1", "instance": "c-1"}], [{"type": "node.removed.v1", "node": "c-2"}])
        )
    ]
    assert [len(lines) for lines in complaints] == [1, 0, 0]


def test_a_record_on_the_subject_of_another_or_from_before_is_told(ledger) -> None:  # R34
    place = next(number for number, message in enumerate(ledger) if message.subject.startswith("hr.ledger.node.") and number)
    record = json.loads(ledger[place].payload)
    writer = record["by"]
    moved = ledger[place]._replace(subject="hr.ledger.node.other")
    older = ledger[place]._replace(payload=json.dumps(record | {"now": 1}).encode())

    assert Auditor().read_all([*ledger[:place], moved, *ledger[place + 1 :]]) == [
        f"{place + 1}: {writer} wrote on hr.ledger.node.other"
    ]
    assert Auditor().read_all([*ledger[:place], older, *ledger[place + 1 :]]) == [
        f"{place + 1}: a record is older than the one before it"
    ]
