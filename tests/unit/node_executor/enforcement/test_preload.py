"""The cap from within, in real processes, against the mock of libcuda: by symbol, by dlsym and by cuGetProcAddress."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.enforcement import CannotEnclose
from headrace.node_executor.enforcement.parts import CONTEXT, from_within, part_of
from headrace.node_executor.enforcement.preload import PreloadMechanism
from headrace.node_executor.enforcement.probe_run import ProbeRun
from headrace.node_executor.system import native
from headrace.node_executor.system.c_programs import LIBRARY, MEMORY_CAP
from tests.mock_nvml import Machine
from tests.unit.node_executor.enforcement.conftest import HALF

MIB = 1024 * 1024

PROGRAM = """
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
context, at, pitch, free, total = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_size_t()
cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)
def size(mib): return ctypes.c_size_t(mib << 20)
def by_table(name, flags=0):
    found = ctypes.c_void_p()
    assert cuda.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), 12000, ctypes.c_uint64(flags), None) == 0
    return ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)(found.value)
class Location(ctypes.Structure): _fields_ = [(name, ctypes.c_int) for name in ("kind", "handles", "type", "id")]
def take(mib, way):
    to = ctypes.byref(at)
    if way == "symbol": return cuda.cuMemAlloc_v2(to, size(mib))
    if way == "managed": return cuda.cuMemAllocManaged(to, size(mib), 1)
    if way == "async": return cuda.cuMemAllocAsync(to, size(mib), None)
    if way == "pool": return cuda.cuMemAllocFromPoolAsync(to, size(mib), None, None)
    if way == "pitch": return cuda.cuMemAllocPitch_v2(to, ctypes.byref(pitch), size(mib), ctypes.c_size_t(1), 4)
    if way == "virtual": return cuda.cuMemCreate(to, size(mib), ctypes.byref(Location(1, 0, 1, 0)), ctypes.c_uint64(0))
    if way == "host": return cuda.cuMemCreate(to, size(mib), ctypes.byref(Location(1, 0, 2, 0)), ctypes.c_uint64(0))
    if way == "table": return by_table("cuMemAlloc")(ctypes.addressof(at), mib << 20, None)
    if way == "per-thread": return by_table("cuMemAllocAsync", 2)(ctypes.addressof(at), mib << 20, None)
    raise AssertionError(way)
def told():
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    return free.value >> 20, total.value >> 20
"""


def run(fence_env: dict[str, str], machine: Machine, script: str) -> list[str]:
    """What a program prints that sees one GPU and is in the enclosure."""
    env = machine.environment | {"CUDA_VISIBLE_DEVICES": "0"} | fence_env
    done = subprocess.run([sys.executable, "-c", PROGRAM + script], env=env, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.fixture
def mechanism(devices: NvmlDevices, cap_library: str, tmp_path: Path) -> PreloadMechanism:
    return PreloadMechanism(devices, cap_library, str(tmp_path))


def test_it_proves_itself_and_leaves_nothing(mechanism: PreloadMechanism, tmp_path: Path) -> None:
    assert (mechanism.prove(), os.listdir(tmp_path)) == ("cooperative", [])


def test_without_the_library_or_where_that_does_nothing_it_does_not(devices: NvmlDevices, tmp_path: Path) -> None:
    assert PreloadMechanism(devices, "", str(tmp_path)).prove() == ""
    assert PreloadMechanism(devices, "/no/such/library.so", str(tmp_path)).prove() == ""


@pytest.mark.parametrize("way", ["symbol", "managed", "async", "pool", "pitch", "virtual", "table", "per-thread"])
def test_every_way_to_take_memory_ends_at_the_cap_and_giving_back_counts(
    mechanism: PreloadMechanism, case, machine: Machine, way: str
) -> None:
    cap = from_within(part_of(81_559, HALF.units))
    got = mechanism.enclose(case(HALF))
    free = "cuMemRelease" if way == "virtual" else "cuMemFree_v2"
    script = f"""
print(take({cap} - 100, {way!r}), take(200, {way!r}))
print(cuda.{free}(at), take({cap} - 100, {way!r}))
"""
    assert (got.level, run(got.env, machine, script)) == ("cooperative", ["0", "2", "0", "0"])


def test_a_program_is_shown_its_part_as_if_it_were_the_whole(mechanism: PreloadMechanism, case, machine: Machine) -> None:
    cap = from_within(part_of(81_559, HALF.units))
    script = """
print(*told()); take(1000, 'symbol'); print(*told())
cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0); print(total.value >> 20)
"""
    shown = run(mechanism.enclose(case(HALF)).env, machine, script)
    assert shown == [str(number) for number in (cap, cap, cap - 1000, cap, cap)]


def test_memory_of_the_host_is_not_counted(mechanism: PreloadMechanism, case, machine: Machine) -> None:
    assert run(mechanism.enclose(case(HALF)).env, machine, "print(take(70_000, 'host'), take(30_000, 'symbol'))") == ["0", "0"]


def test_all_processes_of_a_job_count_together_and_those_that_have_died_do_not(
    mechanism: PreloadMechanism, case, machine: Machine
) -> None:
    env = mechanism.enclose(case(HALF)).env
    script = """
import subprocess, os
print(take(30_000, 'symbol'), flush=True)
if os.environ.pop("AGAIN", ""):
    code = open('/proc/self/cmdline').read().split('\\0')[2]
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout, end="", flush=True)
"""
    assert run(env | {"AGAIN": "1"}, machine, script) == ["0", "2"]
    assert run(env, machine, script) == ["0"]


def test_every_process_that_takes_memory_leaves_room_for_what_it_needs_itself(
    mechanism: PreloadMechanism, case, machine: Machine
) -> None:
    cap = from_within(part_of(81_559, HALF.units))
    script = f"""
import subprocess, os
if os.environ.pop("AGAIN", ""):
    print(take(10_000, 'symbol'), flush=True)
    code = open('/proc/self/cmdline').read().split('\\0')[2]
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout, end="", flush=True)
else:
    print(take({cap} - 10_000, 'symbol'), take({cap} - 10_000 - {CONTEXT}, 'symbol'))
"""
    assert run(mechanism.enclose(case(HALF)).env | {"AGAIN": "1"}, machine, script) == ["0", "2", "0"]


def test_a_library_that_has_gone_is_noticed_before_it_is_ignored(devices: NvmlDevices, case, tmp_path: Path) -> None:
    with pytest.raises(CannotEnclose, match="is gone"):
        PreloadMechanism(devices, "/no/such/library.so", str(tmp_path)).enclose(case(HALF))


def test_it_is_proved_as_an_account_of_jobs_with_the_library_as_this_node_builds_it(
    devices: NvmlDevices, as_a_job: ProbeRun, cap_library: str, tmp_path: Path
) -> None:
    library = native.built(MEMORY_CAP, f"{tmp_path}/native", LIBRARY)
    assert PreloadMechanism(devices, library, str(tmp_path), as_a_job).prove() == "cooperative"
    assert os.listdir(tmp_path) == ["native"]


@pytest.mark.parametrize("closed", ["library", "directory"])
def test_a_library_that_accounts_of_jobs_cannot_load_proves_nothing_and_no_job_is_started_behind_it(
    devices: NvmlDevices, as_a_job: ProbeRun, cap_library: str, case, tmp_path: Path, closed: str
) -> None:
    library = Path(native.built(MEMORY_CAP, f"{tmp_path}/native", LIBRARY))
    (library if closed == "library" else library.parent).chmod(0o700)
    mechanism = PreloadMechanism(devices, str(library), str(tmp_path), as_a_job)
    with capture_logs() as logs:
        assert mechanism.prove() == ""
    [reason] = [entry["reason"] for entry in logs if entry["event"] == "no_preloaded_cap"]
    with pytest.raises(CannotEnclose) as error:
        mechanism.enclose(case(HALF))
    assert reason == error.value.args[0]
    means = {"library": f"read by accounts of jobs: {library}"}
    means["directory"] = f"reached by accounts of jobs: others cannot pass through {library.parent}"
    assert reason == f"the library that caps its memory cannot be {means[closed]}"


def test_a_library_that_the_loader_ignores_proves_nothing_and_what_the_loader_says_is_the_reason(
    devices: NvmlDevices, as_a_job: ProbeRun, tmp_path: Path
) -> None:
    library = tmp_path / "cap.so"
    library.write_text("no library")
    library.chmod(0o755)
    with capture_logs() as logs:
        assert PreloadMechanism(devices, str(library), str(tmp_path), as_a_job).prove() == ""
    [reason] = [entry["reason"] for entry in logs if entry["event"] == "no_preloaded_cap"]
    assert "cannot be preloaded" in reason
