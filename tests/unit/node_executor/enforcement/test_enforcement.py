"""All mechanisms together, as a lease meets them: on the mock's GPUs, in real cgroups."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.simulated import simulated
from headrace.node_executor.enforcement import CannotEnclose, Enclosure, EnforcementRequest, Entered, mig
from headrace.node_executor.enforcement.device_isolation import CgroupDeviceList
from headrace.node_executor.enforcement.enforcement import Enforcement, Mechanisms, kind_of
from headrace.node_executor.enforcement.mig import MigJournal, MigMechanism
from headrace.node_executor.enforcement.owners import LeaseOwners
from headrace.node_executor.enforcement.parts import part_of
from headrace.node_executor.enforcement.preload import PreloadMechanism
from headrace.node_executor.enforcement.probe_run import ProbeRun
from headrace.node_executor.enforcement.watchdog import Overrun
from tests.mock_nvml import Machine
from tests.unit.node_executor.enforcement.conftest import FIRST, HALF, SECOND, SLICE, WHOLE

LEASE = "acme.alice.j/1/0"
send = ProbeRun().send


class Fake:
    """A mechanism that proves what it is told to, and remembers what it was asked."""

    def __init__(self, name: str, level: str, stuck: str = "") -> None:
        self.name, self.level, self.stuck = name, level, stuck
        self.asked: list[tuple[str, str]] = []

    def prove(self) -> str:
        return self.level

    def enclose(self, case: EnforcementRequest) -> Enclosure:
        self.asked.append(("enclose", case.lease))
        return Enclosure(self.level, {self.name: case.lease})

    def adopt(self, case: EnforcementRequest) -> Enclosure:
        self.asked.append(("adopt", case.lease))
        return Enclosure(self.level, {self.name: case.lease})

    def open(self, lease: str) -> str:
        self.asked.append(("open", lease))
        return self.stuck


@pytest.fixture
def make(tmp_path: Path):
    """Mechanisms for devices, proved; they are closed at the end. What they report is in `overruns`."""
    made: list[Enforcement] = []

    def enforcement(devices, *mechanisms, slices=None, parts=()) -> Enforcement:
        overruns: queue.Queue[Overrun] = queue.Queue()
        found = Enforcement(devices, Mechanisms(mechanisms, slices, parts), LeaseOwners(str(tmp_path)), overruns.put)
        found.prove()
        found.overruns = overruns
        made.append(found)
        return found

    yield enforcement
    for one in made:
        one.close()


@pytest.mark.parametrize(("shares", "kind"), [((SLICE,), "slice"), ((HALF,), "fraction"), ((WHOLE, WHOLE), "whole"), ((), "")])
def test_what_is_taken_of_a_gpu_is_of_one_kind(shares, kind: str) -> None:
    assert kind_of(shares) == kind


def test_simulated_devices_are_what_they_are(make, case) -> None:
    enforcement = make(simulated("1xH100-80GB"))
    share = DeviceShare(device="gpu0", units=GPU_UNITS // 2)
    assert (enforcement.quick, enforcement.overall) == (True, "simulated")
    assert enforcement.enter(case(share)) == Entered("simulated", {"CUDA_VISIBLE_DEVICES": "0"})
    assert (enforcement.enter(case()).level, enforcement.leave(LEASE)) == ("none", "")
    assert make(simulated("1xL4")).levels == dict.fromkeys(("whole", "fraction", "slice"), "simulated")


def test_the_best_that_proves_itself_is_used_and_of_equal_ones_the_first(
    make, devices: NvmlDevices, case, unified: str, as_a_job: ProbeRun
) -> None:
    parts = (Fake("none", ""), Fake("weak", "cooperative"), Fake("good", "driver"), Fake("late", "driver"))
    enforcement = make(devices, CgroupDeviceList(unified, as_a_job), parts=parts)
    assert enforcement.levels == {"whole": "hardware", "fraction": "driver", "slice": "none"}
    entered = enforcement.enter(case(HALF))
    assert (entered.level, entered.env["good"], "late" in entered.env) == ("driver", LEASE, False)
    assert (enforcement.leave(LEASE), parts[2].asked) == ("", [("enclose", LEASE), ("open", LEASE)])


def test_mps_has_a_cap_from_within_beside_it(make, devices: NvmlDevices, case, unified: str, as_a_job: ProbeRun) -> None:
    enforcement = make(
        devices, CgroupDeviceList(unified, as_a_job), parts=(Fake("MPS", "driver"), Fake("preloaded cap", "cooperative"))
    )
    entered = enforcement.enter(case(HALF))
    assert (entered.level, {"MPS", "preloaded cap"} <= entered.env.keys()) == ("driver", True)
    enforcement.leave(LEASE)


def test_without_a_wall_good_manners_are_all_there_is(make, devices: NvmlDevices, case) -> None:
    enforcement = make(devices, parts=(Fake("good", "kernel"),))
    assert enforcement.levels == {"whole": "cooperative", "fraction": "cooperative", "slice": "none"}
    assert [enforcement.enter(case(share)).level for share in (WHOLE, HALF)] == ["cooperative", "cooperative"]
    assert enforcement.overall == "none"


def test_without_any_fence_there_is_the_watchdog(make, devices: NvmlDevices, case, unified: str, as_a_job: ProbeRun) -> None:
    enforcement = make(devices, CgroupDeviceList(unified, as_a_job))
    assert (enforcement.levels["fraction"], enforcement.enter(case(HALF)).level) == ("watchdog", "watchdog")
    enforcement.leave(LEASE)


def test_of_a_part_in_a_container_there_is_the_watchdog_whatever_holds_for_processes(
    make, devices: NvmlDevices, case, unified: str, as_a_job: ProbeRun
) -> None:
    good = Fake("good", "kernel")
    enforcement = make(devices, CgroupDeviceList(unified, as_a_job), parts=(good,))
    entered = enforcement.enter(case(HALF)._replace(contained=True))
    assert (entered.level, entered.group, entered.prefix, good.asked) == ("watchdog", "", (), [])
    assert not any(name.startswith("acme") for name in os.listdir(unified))
    assert (enforcement.shared, enforcement.leave(LEASE)) == (True, "")


def test_where_only_clients_of_mps_can_use_a_gpu_containers_get_no_part_of_it(
    make, devices: NvmlDevices, case, unified: str, as_a_job: ProbeRun
) -> None:
    enforcement = make(devices, CgroupDeviceList(unified, as_a_job), parts=(Fake("MPS", "driver"),))
    assert not enforcement.shared
    with pytest.raises(CannotEnclose, match="in exclusive mode and shared by MPS, and containers are not clients of MPS"):
        enforcement.enter(case(HALF)._replace(contained=True))
    assert enforcement.enter(case(WHOLE)._replace(contained=True)).level == "hardware"
    enforcement.leave(LEASE)


def test_the_device_nodes_of_a_slice_are_told_to_its_container(
    make, cut: NvmlDevices, case, unified: str, as_a_job: ProbeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mig, "capability_nodes", lambda gpu, instance: [f"/dev/nvidia-caps/nvidia-cap{gpu}"])
    slices = MigMechanism(cut, MigJournal(str(tmp_path / "journal")), lambda *_: None)
    enforcement = make(cut, CgroupDeviceList(unified, as_a_job), slices=slices)
    assert enforcement.enter(case(SLICE)._replace(contained=True)).nodes == ("/dev/nvidia-caps/nvidia-cap0",)
    enforcement.leave(LEASE)


def test_a_job_opens_the_nodes_of_its_devices_only_and_one_without_any_none(
    make, devices: NvmlDevices, case, unified: str, as_a_job: ProbeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "nodes", lambda shares: ("/dev/full",) if shares else ())
    enforcement = make(devices, CgroupDeviceList(unified, as_a_job))
    seen = []
    for shares in ((WHOLE,), ()):
        entered = enforcement.enter(case(*shares))
        seen.append((entered.level, send(("open", "/dev/null", "/dev/full"), {}, entered.group)))
        assert enforcement.leave(LEASE) == ""
    assert seen == [("hardware", [1, 1]), ("none", [1, 0])]
    assert os.path.basename(entered.group) not in os.listdir(unified)


def test_a_slice_is_made_before_and_destroyed_after(
    make, cut: NvmlDevices, case, unified: str, as_a_job: ProbeRun, tmp_path: Path
) -> None:
    slices = MigMechanism(cut, MigJournal(str(tmp_path / "journal")), lambda *_: None)
    enforcement = make(cut, CgroupDeviceList(unified, as_a_job), slices=slices)
    entered = enforcement.enter(case(SLICE))
    assert (entered.level, entered.env["CUDA_VISIBLE_DEVICES"].startswith("MIG-")) == ("hardware", True)
    assert (enforcement.leave(LEASE), cut.nvml.instances(cut.gpu(FIRST).uuid)) == ("", [])


def test_where_slices_cannot_be_made_a_lease_of_one_is_refused(make, devices: NvmlDevices, case) -> None:
    with pytest.raises(CannotEnclose, match="cannot make slices"):
        make(devices).enter(case(SLICE))


def test_a_device_is_free_when_no_process_of_the_lease_is_on_it(
    make, devices: NvmlDevices, case, machine: Machine, sleeper: int
) -> None:
    enforcement = make(devices)
    one, other = case(HALF), case(HALF, lease="acme.bob.k/1/0")
    enforcement.enter(one)
    enforcement.enter(other)
    enforcement.started(other.lease, other.control, sleeper)
    machine.process(sleeper, 700)
    assert enforcement.leave(one.lease) == ""
    assert enforcement.leave(other.lease) == f"process {sleeper} on {FIRST}: 700 MiB"
    machine.gone(sleeper)
    assert [enforcement.leave(other.lease) for _ in range(2)] == ["", ""]


def test_a_whole_gpu_is_free_when_no_process_at_all_is_on_it(
    make, devices: NvmlDevices, case, machine: Machine, sleeper: int
) -> None:
    enforcement = make(devices)
    enforcement.enter(case(WHOLE))
    machine.process(sleeper, 50, gpu=1)
    assert enforcement.leave(LEASE) == f"process {sleeper} on {SECOND}: 50 MiB"


def test_what_is_in_the_way_of_a_fence_is_told(make, devices: NvmlDevices, case) -> None:
    stuck = Fake("stuck", "driver", stuck="it does not let go")
    enforcement = make(devices, parts=(stuck,))
    enforcement.enter(case(HALF))
    assert enforcement.leave(LEASE) == "it does not let go"
    stuck.stuck = ""
    assert enforcement.leave(LEASE) == ""


def test_a_lease_that_was_adopted_is_watched_and_taken_down(
    make, devices: NvmlDevices, case, machine: Machine, sleeper: int
) -> None:
    fake = Fake("good", "driver")
    enforcement = make(devices, parts=(fake,))
    assert enforcement.adopt(case(HALF)).env["good"] == LEASE
    enforcement.started(LEASE, case(HALF).control, sleeper)
    machine.process(sleeper, 60_000)
    assert enforcement.overruns.get(timeout=2).used == 60_000
    machine.gone(sleeper)
    assert (enforcement.leave(LEASE), fake.asked) == ("", [("adopt", LEASE), ("open", LEASE)])


def test_two_halves_side_by_side_who_overruns_is_told_of_and_its_neighbour_is_not(
    make, devices: NvmlDevices, case, machine: Machine, cap_library: str, tmp_path: Path
) -> None:
    enforcement = make(devices, parts=(PreloadMechanism(devices, cap_library, str(tmp_path)),))
    script = """
import ctypes, os, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, at = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)
print(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(int(sys.argv[1]) << 20)), flush=True)
time.sleep(600)
"""
    running = []
    for lease, mib, stripped in (("a.b.good/1/0", 39_000, False), ("a.b.bad/1/0", 41_500, True)):
        mine = case(HALF, lease=lease)
        env = machine.environment | enforcement.enter(mine).env
        if stripped:
            del env["LD_PRELOAD"]  # as a program could that wants to be rid of it
        process = subprocess.Popen([sys.executable, "-c", script, str(mib)], env=env, stdout=subprocess.PIPE, text=True)
        enforcement.started(lease, mine.control, process.pid)
        running.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
    part = part_of(81_559, HALF.units)
    assert enforcement.overruns.get(timeout=2) == Overrun("a.b.bad/1/0", FIRST, part, 42_000)
    assert enforcement.overruns.empty()
    assert running[0].poll() is None
    for process in running:
        process.kill()
        process.communicate()


def test_after_a_restart_a_job_and_what_goes_with_it_are_enclosed_as_before(
    make, cut: NvmlDevices, case, unified: str, as_a_job: ProbeRun, tmp_path: Path
) -> None:
    slices = MigMechanism(cut, MigJournal(str(tmp_path / "journal")), lambda *_: None)
    mine = case(SLICE)
    entered = make(cut, CgroupDeviceList(unified, as_a_job), slices=slices).enter(mine)
    heir = make(
        cut,
        CgroupDeviceList(unified, as_a_job),
        slices=MigMechanism(cut, MigJournal(str(tmp_path / "journal")), lambda *_: None),
    )
    heir.reconcile([mine.lease])
    again = heir.adopt(mine)
    assert (again.level, again.group, again.prefix) == ("hardware", entered.group, ())
    assert again.env["CUDA_VISIBLE_DEVICES"] == entered.env["CUDA_VISIBLE_DEVICES"]
    assert (heir.leave(mine.lease), os.path.exists(entered.group)) == ("", False)


def test_a_lease_of_a_former_executor_on_a_device_that_is_gone_is_adopted_and_ends(
    make, devices: NvmlDevices, case, cap_library: str, tmp_path: Path
) -> None:
    enforcement = make(devices, parts=(PreloadMechanism(devices, cap_library, str(tmp_path)),))
    gone = DeviceShare(device="GPU-ffffffff", units=GPU_UNITS // 2)
    assert enforcement.adopt(case(gone)).env["CUDA_VISIBLE_DEVICES"] == ""
    assert enforcement.leave(LEASE) == ""


def test_a_lease_that_is_over_is_forgotten_even_with_others_on_its_devices(
    make, devices: NvmlDevices, case, machine: Machine, sleeper: int, unified: str, as_a_job: ProbeRun
) -> None:
    enforcement = make(devices, CgroupDeviceList(unified, as_a_job))
    group = enforcement.enter(case(WHOLE)).group
    machine.process(sleeper, 50, gpu=1)
    enforcement.forget(LEASE)
    enforcement.forget(LEASE)
    assert (enforcement.leave(LEASE), os.path.exists(group)) == ("", False)
