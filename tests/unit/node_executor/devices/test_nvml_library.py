"""NVML in our words, against the mock, through the real binding."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from headrace.contracts.values.mig import FAMILIES
from headrace.node_executor.devices import nvml_library as nl
from headrace.node_executor.devices.nvml_library import Nvml, NvmlError
from headrace.node_executor.devices.nvml_values import Gpu, Happened, HealthReport, Instance, OnGpu
from tests.mock_nvml import DOUBLE_BIT, XID, Machine


@pytest.fixture
def nvml(machine: Machine) -> Iterator[Nvml]:
    begun = Nvml()
    yield begun
    begun.close()


def test_a_gpu_is_described(nvml: Nvml) -> None:
    first, second = nvml.uuids
    assert first != second
    assert nvml.gpu(second) == Gpu(second, "NVIDIA H100 80GB HBM3", 81_559, False, 1, "00000000:03:00.0")
    assert (nvml.driver, nvml.cuda) == ("580.95.05", "13.0")


def test_one_that_cannot_be_cut_says_so(machine: Machine) -> None:
    machine.reset(1, "Tesla T4", 15_360, mig=False)
    nvml = Nvml()
    assert (nvml.gpu(nvml.uuids[0]).mig, nvml.kinds(nvml.uuids[0])) == (None, ())
    nvml.close()


def test_without_a_gpu_or_a_driver_it_is_told(machine: Machine) -> None:
    machine.reset(0, driver="")
    with pytest.raises(NvmlError, match="Driver Not Loaded"):
        Nvml()


def test_a_process_that_holds_memory_is_listed_until_it_is_dead(nvml: Nvml, machine: Machine) -> None:
    uuid = nvml.uuids[0]
    assert nvml.processes(uuid) == []
    machine.process(os.getpid(), 4_096, sm=70)
    machine.process(2**22 + 7, 9_000)
    assert nvml.processes(uuid) == [OnGpu(os.getpid(), 4_096, None)]
    assert (nvml.used(uuid), nvml.busy_processes(uuid, 0)) == (4_096, {os.getpid(): 70})
    machine.gone(os.getpid())
    assert (nvml.processes(uuid), nvml.busy_processes(uuid, 0)) == ([], {})


def test_the_load_of_a_gpu_in_mig_mode_is_unknown(nvml: Nvml, machine: Machine) -> None:
    machine.set("gpu_util", 80)
    machine.set("mem_util", 30)
    assert nvml.busy(nvml.uuids[0]) == (80, 30)
    machine.set("mig", 1)
    assert (nvml.busy(nvml.uuids[0]), nvml.busy_processes(nvml.uuids[0], 0)) == (None, {})


def test_what_ails_it_is_told(nvml: Nvml, machine: Machine) -> None:
    assert nvml.health_report(nvml.uuids[0]) == HealthReport(0, False, False, 0)
    for name, value in (("recovery", 4), ("remap_pending", 1), ("remap_failure", 1), ("ecc", 3)):
        machine.set(name, value)
    assert nvml.health_report(nvml.uuids[0]) == HealthReport(4, True, True, 3)
    machine.set("lost", 1)
    with pytest.raises(NvmlError, match="lost") as caught:
        nvml.health_report(nvml.uuids[0])
    assert caught.value.code == nl.LOST


def test_events_are_heard_in_order_and_a_lost_gpu_has_no_name(nvml: Nvml, machine: Machine) -> None:
    events = nvml.listen()
    assert nvml.wait(events, 1) is None
    machine.event(XID, 79, gpu=1)
    machine.event(DOUBLE_BIT)
    assert nvml.wait(events, 1000) == Happened(nvml.uuids[1], nl.XID, 79)
    assert nvml.wait(events, 1000) == Happened(nvml.uuids[0], nl.DOUBLE_BIT_ECC, 0)
    machine.set("lost", 1)
    assert nvml.wait(events, 1000) == Happened("", 0, 0)


def test_its_slices_are_those_of_the_tables(nvml: Nvml, machine: Machine) -> None:  # R4
    machine.set("mig", 1)
    found = {kind.name: (kind.compute, kind.size) for kind in nvml.kinds(nvml.uuids[0])}
    assert found == {name: (kind.compute, kind.memory) for name, kind in FAMILIES["H100-80GB"].slices.items()}


def test_a_slice_is_made_found_and_destroyed(nvml: Nvml, machine: Machine) -> None:
    machine.set("mig", 1)
    uuid = nvml.uuids[0]
    kinds = {kind.name: kind for kind in nvml.kinds(uuid)}
    made = nvml.make_instance(uuid, kinds["3g.40gb"], 4)
    assert nvml.instances(uuid) == [Instance(made, kinds["3g.40gb"].id, 4, 4)]
    assert nvml.slice_name(uuid, made).startswith("MIG-")
    machine.process(os.getpid(), 100, instance=made)
    with pytest.raises(NvmlError) as caught:
        nvml.destroy_instance(uuid, made)
    assert caught.value.code == nl.IN_USE
    machine.gone(os.getpid())
    nvml.destroy_instance(uuid, made)
    nvml.destroy_instance(uuid, made)
    assert nvml.instances(uuid) == []


@pytest.mark.parametrize(
    ("start", "knob", "code"),
    [
        pytest.param(0, "refuse_create", nl.INSUFFICIENT_RESOURCES, id="the driver has no room"),
        pytest.param(2, "", nl.INSUFFICIENT_RESOURCES, id="nothing can begin there"),
        pytest.param(0, "no_permission", nl.NO_PERMISSION, id="we may not"),
    ],
)
def test_a_slice_that_cannot_be_made_leaves_nothing(nvml: Nvml, machine: Machine, start: int, knob: str, code: int) -> None:
    machine.set("mig", 1)
    kind = next(kind for kind in nvml.kinds(nvml.uuids[0]) if kind.name == "3g.40gb")
    if knob:
        machine.set(knob, 1)
    with pytest.raises(NvmlError) as caught:
        nvml.make_instance(nvml.uuids[0], kind, start)
    machine.set("no_permission", 0)
    assert (caught.value.code, nvml.instances(nvml.uuids[0])) == (code, [])


def test_memory_limits_of_cgroups_are_there_from_r615_on(machine: Machine, tmp_path: object) -> None:
    nvml = Nvml()
    assert not nvml.limits_group(nvml.uuids[0], str(tmp_path))
    nvml.close()
    machine.reset(driver="615.71.09")
    nvml = Nvml()
    assert nvml.limits_group(nvml.uuids[0], str(tmp_path))
    nvml.limit_group(nvml.uuids[0], str(tmp_path), 1_000)
    assert nvml.limits_group(nvml.uuids[0], str(tmp_path))
    nvml.limit_group(nvml.uuids[0], str(tmp_path), None)
    with pytest.raises(NvmlError, match="Invalid"):
        nvml.limit_group(nvml.uuids[0], f"{tmp_path}/nowhere", 1_000)
    nvml.close()


def test_whether_one_process_alone_may_use_it_is_told(nvml: Nvml, machine: Machine) -> None:
    machine.set("compute_mode", 3)
    assert [nvml.is_exclusive(uuid) for uuid in nvml.uuids] == [True, False]
