"""What drivers do that the first mock does not show: indices that change, errors of one call, two lost GPUs, reports that do not heal.

Run by `test_same_suite`, in a process that has only the second mock.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices import OnDevice
from headrace.node_executor.devices.health import QUIET, Trouble
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import Nvml, NvmlError
from headrace.node_executor.devices.nvml_values import Happened, OnGpu
from headrace.node_executor.enforcement import EnforcementRequest
from headrace.node_executor.enforcement.mig import MigJournal, MigMechanism, Reconciled
from tests.mock_nvml import XID
from tests.second_nvml import UUID, SecondMachine

FIRST, SECOND = "GPU-a1b2c300", "GPU-a1b2c301"
HOUR = 3_600_000_000


@pytest.fixture
def devices(machine: SecondMachine) -> Iterator[NvmlDevices]:
    found = NvmlDevices(Nvml(), lambda: 0)
    yield found
    found.close()


@pytest.fixture
def second(machine: SecondMachine) -> SecondMachine:
    """The machine, which has to be of the second mock: on the first these cases do not hold."""
    assert isinstance(machine, SecondMachine)
    return machine


def test_after_a_boot_that_numbers_gpus_otherwise_each_has_its_name_and_its_node(second: SecondMachine) -> None:
    second.process(os.getpid(), 300, gpu=0)
    before = NvmlDevices(Nvml(), lambda: 0)
    assert before.on_devices() == {FIRST: [OnDevice(os.getpid(), 300, None)], SECOND: []}
    second.reboot((1, 0))
    after = NvmlDevices(Nvml(), lambda: 0)
    assert after.names == (SECOND, FIRST)
    share = DeviceShare(device=FIRST, units=GPU_UNITS)
    assert after.environment((share,))["CUDA_VISIBLE_DEVICES"] == UUID.format(0)
    assert after.nodes((share,))[0] == "/dev/nvidia0"
    assert after.on_devices() == {SECOND: [], FIRST: []}
    after.close()


def test_gpus_are_linked_through_others_as_by_bridges(second: SecondMachine) -> None:  # R40
    second.reset(count=4)
    for gpu, bridges in enumerate((1, 3, 2, 0)):
        second.set("nvlink", bridges, gpu)
    found = NvmlDevices(Nvml(), lambda: 0)
    assert [device.nvlink for device in found.inventory()] == ["0", "0", "0", ""]
    found.close()


def test_of_two_lost_gpus_the_one_that_is_back_is_found_while_the_other_is_lost(
    devices: NvmlDevices, second: SecondMachine
) -> None:
    for gpu in (0, 1):
        second.set("lost", 1, gpu=gpu)
    lost = Trouble("lost", 0, "the driver has lost it")
    assert devices.check_health(2) == {FIRST: lost, SECOND: lost}
    second.set("lost", 0, gpu=1)
    assert (devices.check_health(3), list(devices.on_devices())) == ({}, [SECOND])
    assert devices.check_health(3 + QUIET) == {SECOND: None}
    second.set("lost", 0, gpu=0)
    assert devices.check_health(4 + QUIET) == {}
    assert devices.check_health(4 + 2 * QUIET) == {FIRST: None}


def test_the_report_of_a_gpu_that_is_lost_by_then_names_it(second: SecondMachine) -> None:
    nvml = Nvml()
    events = nvml.listen()
    second.event(XID, 79, gpu=1)
    second.set("lost", 1, gpu=1)
    assert nvml.wait(events, 1000) == Happened(UUID.format(1), XID, 79)
    assert nvml.wait(events, 1000) == Happened("", 0, 0)
    nvml.close_events(events)
    nvml.close()


def test_a_report_that_only_a_reset_mends_keeps_the_gpu_drained_until_one_is_seen(
    devices: NvmlDevices, second: SecondMachine
) -> None:
    events: queue.Queue[tuple[str, Trouble]] = queue.Queue()
    devices.listen(lambda name, trouble: events.put((name, trouble)))
    while events.empty():  # events are only heard by who listens already
        second.event(XID, 119, gpu=1)
        try:
            assert events.get(timeout=0.2) == (SECOND, Trouble("xid", 119, "XID 119: its system processor does not answer"))
            break
        except queue.Empty:
            continue
    assert [devices.check_health(at) for at in (HOUR, 2 * HOUR, 24 * HOUR)] == [{}, {}, {}]
    assert [device.unfit for device in devices.inventory()] == ["", "XID 119: its system processor does not answer"]
    second.set("recovery", 1, gpu=1)  # the driver wants it reset
    assert devices.check_health(25 * HOUR) == {}
    second.set("recovery", 0, gpu=1)  # and it has been
    assert (devices.check_health(25 * HOUR + 1), devices.check_health(25 * HOUR + QUIET)) == ({}, {SECOND: None})


def test_the_health_report_of_a_gpu_whose_every_call_fails_raises(devices: NvmlDevices, second: SecondMachine) -> None:
    second.set("unanswered", 1, gpu=1)
    assert devices.check_health(1) == {}
    assert (list(devices.on_devices()), list(devices.samples())) == ([FIRST], [FIRST])
    with pytest.raises(NvmlError, match="Unknown Error"):
        devices.nvml.health_report(UUID.format(1))


def test_a_process_whose_memory_the_driver_does_not_say_is_listed(devices: NvmlDevices, second: SecondMachine) -> None:
    second.process(os.getpid(), 300)
    second.set("hidden_memory", 1)
    assert devices.nvml.processes(UUID.format(0)) == [OnGpu(os.getpid(), 0, None)]


def test_slices_do_not_outlive_a_boot_and_those_of_the_journal_are_forgotten(second: SecondMachine, tmp_path: Path) -> None:
    second.set("mig", 1)
    path = str(tmp_path / "slices")
    before = NvmlDevices(Nvml(), lambda: 0)
    mechanism = MigMechanism(before, MigJournal(path), lambda device, trouble: None)
    share = DeviceShare(device=FIRST, units=GPU_UNITS // 2, mig="3g.40gb", start=4)
    mechanism.enclose(EnforcementRequest("acme.alice.j/1/0", (share,), str(tmp_path), ""))
    assert [one.start for one in before.nvml.instances(UUID.format(0))] == [4]
    second.reboot((1, 0))
    after = NvmlDevices(Nvml(), lambda: 0)
    journal = MigJournal(path)
    mechanism = MigMechanism(after, journal, lambda device, trouble: None)
    assert (mechanism.reconcile([]), journal.ours) == (Reconciled(0, {}), {})
    assert mechanism.prove() == "hardware"
    after.close()


def test_a_gpu_in_mig_mode_has_no_compute_mode_of_its_own(second: SecondMachine) -> None:
    second.set("mig", 1)
    nvml = Nvml()
    assert [nvml.is_exclusive(uuid) for uuid in nvml.uuids] == [False, False]
    nvml.close()
