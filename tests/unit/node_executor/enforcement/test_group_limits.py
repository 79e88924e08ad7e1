"""The driver's memory limits of cgroups, against the mock with a driver that has them."""

from __future__ import annotations

import os

import pytest

from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import Nvml
from headrace.node_executor.enforcement import CannotEnclose
from headrace.node_executor.enforcement.group_limits import GroupLimits
from headrace.node_executor.enforcement.parts import part_of
from headrace.node_executor.enforcement.probe_run import ProbeRun
from tests.mock_nvml import Machine
from tests.unit.node_executor.enforcement.conftest import HALF, WHOLE

send = ProbeRun().send
LEASE = "acme.alice.j/1/0"


class HoldsNothing(ProbeRun):
    """A trial of an enclosure that lets everything through."""

    def refuses_beyond(self, *_: object) -> bool:
        return False


@pytest.fixture
def newer(machine: Machine):
    machine.reset(driver="615.71.09")
    found = NvmlDevices(Nvml(), lambda: 0)
    yield found
    found.close()


def test_it_proves_itself_where_the_driver_refuses_the_probe(newer: NvmlDevices, unified: str, as_a_job: ProbeRun) -> None:
    assert GroupLimits(newer, unified, as_a_job).prove() == "kernel"
    assert os.listdir(unified) == [name for name in os.listdir(unified) if not name.startswith("probe")]


def test_an_older_driver_has_none_and_one_that_does_not_hold_is_not_believed(
    devices: NvmlDevices, newer: NvmlDevices, machine: Machine, unified: str
) -> None:
    assert GroupLimits(newer, unified, HoldsNothing()).prove() == ""
    assert GroupLimits(newer, "").prove() == ""
    machine.set("no_permission", 1)
    assert GroupLimits(newer, unified).prove() == ""
    machine.reset()
    assert GroupLimits(devices, unified).prove() == ""


def test_limits_that_do_not_reach_the_subgroup_of_a_job_are_not_claimed(
    newer: NvmlDevices, machine: Machine, unified: str, as_a_job: ProbeRun
) -> None:
    machine.set("flat_limits", 1)
    assert GroupLimits(newer, unified, as_a_job).prove() == ""
    assert not any(name.startswith("probe") for name in os.listdir(unified))


def test_a_job_in_its_cgroup_gets_its_part_and_no_more(newer: NvmlDevices, unified: str, case) -> None:
    group = f"{unified}/job"
    os.mkdir(group)
    mechanism = GroupLimits(newer, unified)
    part = part_of(81_559, HALF.units)
    assert mechanism.enclose(case(HALF, group=group)).level == "kernel"
    assert ProbeRun().refuses_beyond(part, {"CUDA_VISIBLE_DEVICES": "0"}, group)
    assert send(("take", "16", "1000"), {"CUDA_VISIBLE_DEVICES": "0"}, group) == [0, 0, part]
    assert mechanism.open(LEASE) == ""
    assert send(("take", "60000"), {"CUDA_VISIBLE_DEVICES": "0"}, group)[0] == 0
    os.rmdir(group)


def test_whole_gpus_need_none_and_without_a_cgroup_none_is_given(newer: NvmlDevices, unified: str, case) -> None:
    mechanism = GroupLimits(newer, unified)
    mechanism.enclose(case(WHOLE, group="/nowhere"))
    with pytest.raises(CannotEnclose, match="no cgroup"):
        mechanism.enclose(case(HALF))
    with pytest.raises(CannotEnclose, match="its memory cannot be limited: Invalid"):
        mechanism.enclose(case(HALF, group="/nowhere"))


def test_what_a_former_executor_set_is_lifted_too(newer: NvmlDevices, unified: str, case) -> None:
    group = f"{unified}/job"
    os.mkdir(group)
    GroupLimits(newer, unified).enclose(case(HALF, group=group))
    heir = GroupLimits(newer, unified)
    heir.adopt(case(HALF, group=group))
    heir.open(LEASE)
    assert send(("take", "60000"), {"CUDA_VISIBLE_DEVICES": "0"}, group)[0] == 0
    os.rmdir(group)
