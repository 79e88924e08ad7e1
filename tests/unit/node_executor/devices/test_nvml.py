"""NVIDIA's GPUs behind the face of all devices, against the mock."""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices import Devices, OnDevice, Sample
from headrace.node_executor.devices.health import QUIET, Trouble
from headrace.node_executor.devices.nvml import BEGIN_EVERY, NvmlDevices
from headrace.node_executor.devices.nvml_library import Nvml, NvmlError
from headrace.node_executor.devices.nvml_values import Gpu
from tests.mock_nvml import XID, Machine

FIRST, SECOND = "GPU-a1b2c300", "GPU-a1b2c301"


@pytest.fixture
def devices(machine: Machine) -> Iterator[NvmlDevices]:
    found = NvmlDevices(Nvml(), lambda: 0)
    yield found
    found.close()


def test_they_have_the_whole_face_of_devices() -> None:
    promised = {name for name in vars(Devices) if not name.startswith("_")}
    assert {name for name in promised if not hasattr(NvmlDevices, name)} == set()


def test_what_is_there_is_listed_by_names_that_stay(devices: NvmlDevices) -> None:
    assert devices.inventory() == (
        Device(device=FIRST, model="H100-80GB", memory=81_559),
        Device(device=SECOND, model="H100-80GB", memory=81_559),
    )
    assert devices.labels == {
        "gpu.vendor": "nvidia",
        "gpu.model": "H100-80GB",
        "gpu.driver": "580.95.05",
        "gpu.cuda": "13.0",
        "gpu.mig": "off",
        "gpu.checkpoint": "yes",
        "gpu.memory-limits": "no",
    }


def test_gpus_that_reach_each_other_by_nvlink_are_a_group(machine: Machine) -> None:  # R40
    machine.reset(count=5)
    for gpu, number in ((0, 1), (2, 1), (3, 2), (4, 2)):
        machine.set("nvlink", number, gpu)
    devices = NvmlDevices(Nvml(), lambda: 0)
    assert [device.nvlink for device in devices.inventory()] == ["0", "", "0", "1", "1"]
    devices.close()


def test_gpus_that_cannot_say_whether_they_are_linked_are_in_no_group(machine: Machine) -> None:  # R40
    machine.reset(count=3)
    for gpu in range(3):
        machine.set("nvlink", 1, gpu)
    machine.set("mig", 1, 0)
    devices = NvmlDevices(Nvml(), lambda: 0)
    assert [device.nvlink for device in devices.inventory()] == ["", "0", "0"]
    devices.close()


def test_a_job_sees_its_own_by_uuid_and_without_any_none(devices: NvmlDevices) -> None:
    share = DeviceShare(device=SECOND, units=GPU_UNITS)
    assert devices.environment((share,))["CUDA_VISIBLE_DEVICES"] == f"{SECOND}-0000-4000-8000-000000000000"
    assert devices.environment(()) == {
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }
    assert devices.nodes((share,)) == ("/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools")
    assert devices.nodes(()) == ()


def test_who_is_on_them_and_what_they_do_is_told_of_those_that_answer(devices: NvmlDevices, machine: Machine) -> None:
    machine.process(os.getpid(), 300, gpu=1, sm=40)
    machine.set("gpu_util", 55, gpu=1)
    assert devices.on_devices() == {FIRST: [], SECOND: [OnDevice(os.getpid(), 300, None)]}
    assert devices.samples() == {FIRST: Sample(0, 0), SECOND: Sample(55, 300)}
    assert devices.busy_of(0) == {os.getpid(): 40}
    machine.set("lost", 1)
    assert list(devices.on_devices()) == list(devices.samples()) == [SECOND]


def test_one_that_is_ill_at_the_start_is_listed_as_unfit(machine: Machine) -> None:
    machine.set("recovery", 2, gpu=1)
    found = NvmlDevices(Nvml(), lambda: 0)
    assert [device.unfit for device in found.inventory()] == ["", "the driver wants the node rebooted"]
    found.close()


def test_looking_tells_what_has_changed_and_recovery_takes_it_back(devices: NvmlDevices, machine: Machine) -> None:
    assert devices.check_health(1) == {}
    machine.set("lost", 1, gpu=1)
    assert devices.check_health(2) == {SECOND: Trouble("lost", 0, "the driver has lost it")}
    assert devices.check_health(3) == {}
    machine.set("lost", 0, gpu=1)
    assert (devices.check_health(4), devices.check_health(3 + QUIET)) == ({}, {SECOND: None})


def test_one_that_was_lost_is_found_anew_when_it_is_back(devices: NvmlDevices, machine: Machine) -> None:
    machine.set("lost", 1, gpu=1)
    assert devices.check_health(2) == {SECOND: Trouble("lost", 0, "the driver has lost it")}
    machine.set("lost", 0, gpu=1)  # from now on it has another handle
    machine.process(os.getpid(), 300, gpu=1)
    assert list(devices.on_devices()) == [FIRST]
    devices.check_health(3)
    assert devices.on_devices() == {FIRST: [], SECOND: [OnDevice(os.getpid(), 300, None)]}


def test_one_that_only_a_new_beginning_finds_is_looked_for_so_now_and_then(devices: NvmlDevices, machine: Machine) -> None:
    machine.set("lost", 1, gpu=1)
    machine.set("sunk", 1, gpu=1)
    assert devices.check_health(BEGIN_EVERY - 2) == {SECOND: Trouble("lost", 0, "the driver has lost it")}
    machine.set("lost", 0, gpu=1)
    assert (devices.check_health(BEGIN_EVERY - 1), list(devices.on_devices())) == ({}, [FIRST])
    devices.check_health(BEGIN_EVERY)
    assert list(devices.on_devices()) == [FIRST, SECOND]
    assert devices.check_health(BEGIN_EVERY + QUIET) == {SECOND: None}


def test_one_that_is_back_is_heard_again(devices: NvmlDevices, machine: Machine) -> None:
    reported: queue.Queue[tuple[str, Trouble]] = queue.Queue()
    machine.set("lost", 1, gpu=1)
    devices.listen(lambda name, trouble: reported.put((name, trouble)))
    machine.set("lost", 0, gpu=1)
    devices.check_health(1)
    while reported.empty():  # whether the listener has begun already is unknown
        machine.event(XID, 79, gpu=1)
        try:
            assert reported.get(timeout=0.2) == (SECOND, Trouble("xid", 79, "XID 79: it has fallen off the bus"))
            break
        except queue.Empty:
            continue


def test_events_drain_at_once_and_those_of_programs_do_not(devices: NvmlDevices, machine: Machine) -> None:
    reported: queue.Queue[tuple[str, Trouble]] = queue.Queue()
    registered = machine.get("calls")
    assert registered == 0
    devices.listen(lambda name, trouble: reported.put((name, trouble)))
    while reported.empty():  # events are only heard by who listens already
        machine.event(XID, 31)
        machine.event(XID, 79, gpu=1)
        try:
            assert reported.get(timeout=0.2) == (SECOND, Trouble("xid", 79, "XID 79: it has fallen off the bus"))
            break
        except queue.Empty:
            continue
    assert [device.unfit for device in devices.inventory()] == ["", "XID 79: it has fallen off the bus"]
    machine.set("lost", 1)
    assert reported.get(timeout=5) == (FIRST, Trouble("lost", 0, "the driver has lost it"))


def test_one_that_has_fallen_off_the_bus_is_unfit_until_it_was_lost_and_is_back(devices: NvmlDevices, machine: Machine) -> None:
    reported: queue.Queue[tuple[str, Trouble]] = queue.Queue()
    devices.listen(lambda name, trouble: reported.put((name, trouble)))
    while reported.empty():  # events are only heard by who listens already
        machine.event(XID, 79, gpu=1)
        try:
            assert reported.get(timeout=0.2) == (SECOND, Trouble("xid", 79, "XID 79: it has fallen off the bus"))
        except queue.Empty:
            continue
        break
    hour = 3_600_000_000
    assert [devices.check_health(hours * hour) for hours in (1, 2, 24)] == [{}, {}, {}]  # it answers as if all were well
    assert [device.unfit for device in devices.inventory()] == ["", "XID 79: it has fallen off the bus"]
    machine.set("lost", 1, gpu=1)
    last = 48 * hour
    assert [devices.check_health(at) for at in (25 * hour, last)] == [{}, {}]
    assert [device.unfit for device in devices.inventory()] == ["", "the driver has lost it"]
    machine.set("lost", 0, gpu=1)
    assert [devices.check_health(at) for at in (last + 1, last + QUIET - 1)] == [{}, {}]
    assert devices.check_health(last + QUIET) == {SECOND: None}
    assert [device.unfit for device in devices.inventory()] == ["", ""]


def test_a_gpu_in_mig_mode_says_so(machine: Machine) -> None:
    machine.set("mig", 1)
    found = NvmlDevices(Nvml(), lambda: 0)
    assert [device.mig for device in found.inventory()] == [True, False]
    assert found.labels["gpu.mig"] == "on"
    assert found.samples()[FIRST] == Sample(None, 0)
    found.close()


def test_one_that_does_not_answer_at_the_start_is_left_out_and_the_others_are_there(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = Nvml()
    first, describe = nvml.uuids[0], nvml.gpu

    def gpu(uuid: str) -> Gpu:
        if uuid == first:
            raise NvmlError(999, "Unknown Error")
        return describe(uuid)

    monkeypatch.setattr(nvml, "gpu", gpu)
    found = NvmlDevices(nvml, lambda: 0)
    assert found.names == (SECOND,)
    gone = DeviceShare(device=FIRST, units=GPU_UNITS)
    assert found.environment((gone,))["CUDA_VISIBLE_DEVICES"] == ""
    assert "/dev/nvidia0" not in found.nodes((gone,))
    found.close()
