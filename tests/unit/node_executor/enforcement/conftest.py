"""A machine with mock GPUs as the mechanisms meet it, and what they are built of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor import enforcement
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import Nvml
from headrace.node_executor.enforcement import EnforcementRequest
from headrace.node_executor.enforcement.probe_run import ProbeRun
from headrace.node_executor.system.accounts import TRIAL, UserAccount
from tests.mock_nvml import Machine, build_program, compiler

FIRST, SECOND = "GPU-a1b2c300", "GPU-a1b2c301"
NATIVE = Path(enforcement.__file__).parent / "native"
HALF = DeviceShare(device=FIRST, units=GPU_UNITS // 2)
WHOLE = DeviceShare(device=SECOND, units=GPU_UNITS)
SLICE = DeviceShare(device=FIRST, units=GPU_UNITS // 2, mig="3g.40gb", start=4)


@pytest.fixture
def devices(machine: Machine) -> Iterator[NvmlDevices]:
    """Two H100, not cut."""
    found = NvmlDevices(Nvml(), lambda: 0)
    yield found
    found.close()


@pytest.fixture
def cut(machine: Machine) -> Iterator[NvmlDevices]:
    """Two H100, the first in MIG mode."""
    machine.set("mig", 1)
    found = NvmlDevices(Nvml(), lambda: 0)
    yield found
    found.close()


@pytest.fixture(scope="session")
def cap_library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The library that caps memory from within."""
    if compiler() is None:
        pytest.skip("it is built by a C compiler, and there is none")
    target = tmp_path_factory.mktemp("native") / "memory_cap.so"
    flags = ("-shared", "-fPIC", "-fvisibility=hidden", "-ldl", "-lpthread")
    return str(build_program(NATIVE / "memory_cap.c", target, *flags))


@pytest.fixture(scope="session")
def private_dev(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program that makes a /dev of its own, where any user may run it."""
    if compiler() is None:
        pytest.skip("it is built by a C compiler, and there is none")
    return str(build_program(NATIVE / "private_dev.c", tmp_path_factory.mktemp("native") / "private_dev", "-static"))


@pytest.fixture
def as_a_job(tmp_path: Path, machine: Machine) -> ProbeRun:
    """Trials as an account like those of jobs, which may pass to the test's own files; skipped where only root could have that."""
    if os.geteuid() != 0:
        pytest.skip("only root can run programs under other accounts")
    for folder in (*tmp_path.parents[:-2], tmp_path, machine.libraries, machine.state.parent):
        if os.stat(folder).st_uid == 0 and not os.stat(folder).st_mode & 0o001:
            os.chmod(folder, 0o711)
    machine.state.chmod(0o666)
    return ProbeRun(UserAccount(TRIAL, TRIAL, "trial"))


@pytest.fixture
def case(tmp_path: Path):
    """Cases: of a lease with these shares, with a control directory of its own."""

    def make(*shares: DeviceShare, lease: str = "acme.alice.j/1/0", group: str = "") -> EnforcementRequest:
        control = tmp_path / lease.replace("/", ".")
        control.mkdir(exist_ok=True)
        return EnforcementRequest(lease, shares, str(control), group)

    return make


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that is there until the test is over."""
    program = shutil.which("sleep") or sys.executable
    with subprocess.Popen([program, "600"]) as process:
        yield process.pid
        process.kill()
