"""What nodes say of themselves and of the leases on them."""

import pytest

from headrace.contracts import facts as f
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.isolation import Ranks
from headrace.domain.model.job_states import JobState
from headrace.domain.placement.placement import find_places
from tests.unit.domain.hall import START, Hall


def test_a_node_that_registers_again_keeps_what_its_leases_hold():
    hall = Hall(devices=4)
    hall.policy("p")
    hall.run("p", "j", ("n1", 1, 2))
    hall.node("n1", devices=6, cpu=32_000)
    node = hall.state.nodes["n1"]
    assert [device.free // GPU_UNITS for device in node.devices] == [1, 0, 0, 1, 1, 1]
    assert (node.cpu, node.cpu_free, hall.pool.known[GPU]) == (32_000, 32_000, 6 * GPU_UNITS)


def test_a_node_of_several_models_is_called_by_all_of_them():
    hall = Hall(nodes=0)
    devices = tuple(f.nodes.Device(device=f"g{number}", model=model, memory=1) for number, model in enumerate(("B", "A")))
    hall.append_facts("node.n1", f.NodeRegisteredV1(node="n1", devices=devices, cpu=1, memory=1, at=START))
    assert hall.state.nodes["n1"].model == "A+B"


def test_a_stopped_node_counts_no_more_and_its_leases_need_an_answer():
    hall = Hall()
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    hall.append_facts("node.n1", f.NodeStoppedV1(node="n1", at=START))
    assert (hall.pool.usable[GPU], hall.pool.known[GPU], hall.state.unsettled) == (0, 8 * GPU_UNITS, {job.key: job})


def test_a_checkpoint_counts_for_the_attempt_that_made_it():
    hall = Hall()
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    hall.append_facts("node.n1", f.CheckpointRegisteredV1(job=job.key, attempt=1, uri="one", at=START))
    hall.append_facts("node.n1", f.CheckpointRegisteredV1(job=job.key, attempt=7, uri="other", at=START))
    assert (job.checkpoint, job.checkpoint_attempt, job.checkpoint_at) == ("one", 1, hall.now)


def test_news_of_a_superseded_attempt_changes_nothing():
    hall = Hall()
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    late = {"job": job.key, "attempt": 0, "at": START}
    hall.append_facts("node.n1", f.LeaseEndedV1(outcome="exited", exited_at=START, **late), f.LeaseStartedV1(**late))
    assert (job.state, sorted(job.leases)) == (JobState.RUNNING, [0])


def test_a_victims_parts_of_time_are_noted_when_it_is_told_exits_and_is_released():
    hall = Hall(devices=2)
    hall.policy("lender", size=2)
    hall.policy("owner", reservation=2, size=2)
    victim = hall.run("lender", "v", ("n1", 0, 2))
    preemption = hall.state.preemptions[hall.order(hall.admit("owner", "o"), [victim], ("n1", 0, 2))]
    hall.later(1)
    fact = f.LeaseRungV1(job=victim.key, attempt=1, rung="told", at=hall.now, took=0, result="ok")
    hall.append_facts("node.n1", fact)
    hall.later(5)
    hall.end(victim, exited_at=hall.now - 2_000_000)
    moments = (preemption.signalled_at, preemption.exited_at, preemption.released_at, preemption.all_left_at)
    assert [(moment - START) // 1_000_000 for moment in moments] == [1, 4, 6, 6]
    assert preemption.leaving == set()


def test_devices_beyond_the_approved_number_count_nowhere_and_come_as_they_are_now_when_it_is_raised():
    hall = Hall(nodes=0)
    hall.append_facts("governance", f.NodeApprovedV1(author="a.b", node="n1", labels={"site": "hq"}, gpus=1, isolation="none"))
    hall.node("n1", devices=3)
    hall.append_facts("node.n1", drained("g2"))
    assert (hall.pool.known[GPU], [device.name for device in hall.state.nodes["n1"].devices]) == (GPU_UNITS, ["g0"])
    hall.append_facts("governance", f.NodeApprovedV1(author="a.b", node="n1", labels={"site": "hq"}, gpus=3, isolation="none"))
    assert (hall.pool.known[GPU], hall.pool.usable[GPU]) == (3 * GPU_UNITS, 2 * GPU_UNITS)
    assert [device.unfit for device in hall.state.nodes["n1"].devices] == ["", "", "XID 79"]


def test_a_lease_on_devices_that_are_approved_no_more_stays_and_is_given_back():
    hall = Hall(nodes=0)
    hall.node("n1", devices=4)
    hall.policy("p", size=2)
    job = hall.run("p", "j", ("n1", 2, 2))
    hall.append_facts("governance", f.NodeApprovedV1(author="a.b", node="n1", labels={"site": "hq"}, gpus=2, isolation="none"))
    assert (hall.pool.known[GPU], hall.pool.leased[GPU]) == (2 * GPU_UNITS, 2 * GPU_UNITS)
    hall.end(job)
    assert (hall.pool.leased.get(GPU, 0), [device.free for device in hall.state.nodes["n1"].devices]) == (0, [GPU_UNITS] * 2)


def drained(device, message="XID 79"):
    return f.DeviceDrainedV1(node="n1", device=device, cause="xid", code=79, message=message, at=START)


def test_of_a_device_that_its_node_has_drained_nothing_is_granted_until_it_returns():
    hall = Hall(devices=2)
    hall.policy("p", size=2)
    hall.append_facts("node.n1", drained("g1"))
    node, job = hall.state.nodes["n1"], hall.admit("p", "j")
    assert ([device.open for device in node.devices], node.devices[1].unfit) == ([GPU_UNITS, 0], "XID 79")
    assert (hall.pool.known[GPU], hall.pool.usable[GPU]) == (2 * GPU_UNITS, GPU_UNITS)
    assert find_places(hall.state, job, hall.pool) is None
    hall.append_facts("node.n1", f.DeviceReturnedV1(node="n1", device="g1", at=START))
    assert [share.device for share in find_places(hall.state, job, hall.pool)[0].devices] == ["g0", "g1"]
    assert hall.pool.usable[GPU] == 2 * GPU_UNITS


def test_what_runs_on_a_device_that_is_drained_keeps_its_lease():
    hall = Hall(devices=1)
    hall.policy("p")
    job = hall.run("p", "j", ("n1", 0, 1))
    hall.append_facts("node.n1", drained("g0"))
    assert (job.state, sorted(job.leases), hall.state.nodes["n1"].devices[0].idle) == (JobState.RUNNING, [0], 0)
    hall.end(job)
    assert hall.state.nodes["n1"].devices[0].free == GPU_UNITS


def test_news_of_an_unknown_device_change_nothing():
    hall = Hall(devices=1)
    hall.append_facts("node.n1", drained("g7"), f.DeviceDrainedV1(node="n7", device="g0", cause="lost", at=START))
    hall.append_facts("node.n1", f.DeviceReturnedV1(node="n1", device="g0", at=START))
    assert (hall.state.nodes["n1"].devices[0].unfit, hall.pool.usable[GPU]) == ("", GPU_UNITS)


def test_a_node_may_register_with_a_device_that_is_in_no_order_and_says_how_well_it_isolates():
    hall = Hall(nodes=0)
    devices = (f.nodes.Device(device="g0", model="A", memory=1, unfit="lost"), f.nodes.Device(device="g1", model="A", memory=1))
    levels = {"whole": "hardware", "slice": "none"}
    hall.append_facts(
        "node.n1", f.NodeRegisteredV1(node="n1", devices=devices, cpu=1, memory=1, isolation="driver", levels=levels, at=START)
    )
    node = hall.state.nodes["n1"]
    assert ([device.open for device in node.devices], node.levels) == ([0, GPU_UNITS], Ranks(6, 4, 0, 0, 6, 4, 0))


def test_a_node_that_stops_speaks_of_what_it_had_read_and_of_everything_below_the_level():
    """R36: release 0.1.0 named no order."""
    hall = Hall()
    hall.state.terms.level = 2
    hall.append_facts("node.n1", f.NodeStoppedV1(node="n1", through=7, at=START))
    assert hall.state.nodes["n1"].stopped_through == 7
    hall.state.terms.level = 1
    hall.append_facts("node.n1", f.NodeStoppedV1(node="n1", through=9, at=START))
    assert hall.state.nodes["n1"].stopped_through == 0


@pytest.mark.parametrize(("level", "outcome", "refusals"), [(2, "disputed", []), (1, "refused", ["j"])])
def test_a_start_that_is_refused_for_another_lease_is_a_disagreement_and_counts_against_no_job(level, outcome, refusals):
    """R36: until the level was raised it counted."""
    hall = Hall()
    hall.policy("p")
    hall.state.terms.level = level
    job = hall.grant(hall.admit("p", "j"), ("n1", 0, 1))
    ended = {"job": job.key, "attempt": 1, "outcome": "refused", "held_by": "x/1/0", "exited_at": START, "at": START}
    hall.append_facts("node.n1", f.LeaseEndedV1(**ended))
    assert [ending.outcome for ending in job.endings] == [outcome]
    assert [key.rpartition(".")[2] for key in hall.state.nodes["n1"].refusals] == [job.key.rpartition(".")[2]] * len(refusals)


def set_aside(until: int = START + 600) -> Hall:
    hall = Hall()
    hall.policy("p")
    hall.append_facts("allocator", f.NodeSetAsideV1(node="n1", reason="it refuses", until=until))
    return hall


def test_a_node_that_was_set_aside_and_has_checked_itself_is_given_one_job_and_is_free_once_that_runs():
    """R36."""
    hall = set_aside()
    node = hall.state.nodes["n1"]
    assert (node.grantable, node.probation) != (True, None)
    hall.append_facts("allocator", f.NodeCheckOrderedV1(node="n1"))
    hall.append_facts("node.n1", f.NodeCheckedV1(node="n1", ordered=hall.state.sequence, passed=True, at=START))
    assert (node.cordoned, node.grantable) == ("", True)
    job = hall.grant(hall.admit("p", "j"), ("n1", 0, 1))
    assert (node.grantable, node.probation.job) == (False, job.key)
    hall.append_facts("node.n1", f.LeaseStartedV1(job=job.key, attempt=1, at=START))
    assert (node.grantable, node.probation, hall.state.set_aside) == (True, None, {})


def test_a_job_that_never_ran_on_a_node_on_probation_leaves_it_to_the_next():
    hall = set_aside()
    node = hall.state.nodes["n1"]
    hall.append_facts("allocator", f.NodeCheckOrderedV1(node="n1"))
    hall.append_facts("node.n1", f.NodeCheckedV1(node="n1", ordered=hall.state.sequence, passed=True, at=START))
    job = hall.grant(hall.admit("p", "j"), ("n1", 0, 1))
    ended = {"job": job.key, "attempt": 1, "outcome": "never_started", "exited_at": START, "at": START}
    hall.append_facts("node.n1", f.LeaseEndedV1(**ended))
    assert (node.grantable, node.probation.stage) == (True, "tries")


@pytest.mark.parametrize(
    "word",
    [
        f.NodeUncordonedV1(author="default.admin", node="n1"),
        f.NodeCordonedV1(author="default.admin", node="n1"),
        f.NodeDrainOrderedV1(author="default.admin", node="n1"),
    ],
)
def test_an_operators_word_ends_a_probation(word):
    hall = set_aside()
    hall.append_facts("governance", word)
    assert (hall.state.nodes["n1"].probation, hall.state.set_aside) == (None, {})


def test_a_check_that_was_not_ordered_changes_nothing_and_one_that_fails_keeps_the_node_aside():
    hall = set_aside()
    node = hall.state.nodes["n1"]
    hall.append_facts("node.n1", f.NodeCheckedV1(node="n1", ordered=0, passed=True, at=START))
    assert (node.cordoned, node.probation.stage) == ("it refuses", "waits")
    hall.append_facts("allocator", f.NodeCheckOrderedV1(node="n1"))
    hall.append_facts("node.n1", f.NodeCheckedV1(node="n1", ordered=1, passed=False, message="no disk", at=START))
    assert (node.cordoned, node.probation.stage, node.probation.message) == ("it refuses", "failed", "no disk")


@pytest.mark.parametrize(("level", "groups"), [(2, ["", ""]), (3, ["0", ""])])
def test_groups_of_nvlink_are_read_from_level_3_on(level, groups):  # R40
    hall = Hall(nodes=0)
    hall.state.terms.level = level
    devices = tuple(
        f.nodes.Device(device=f"g{number}", model="A", memory=1, nvlink=group) for number, group in enumerate(("0", ""))
    )
    hall.append_facts("node.n1", f.NodeRegisteredV1(node="n1", devices=devices, cpu=1, memory=1, at=START))
    node = hall.state.nodes["n1"]
    assert ([device.nvlink for device in node.devices], node.has_nvlink) == (groups, level == 3)
