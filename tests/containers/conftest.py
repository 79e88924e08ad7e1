"""A real Podman, a real executor of root on a real bus, and NVIDIA GPUs of the mock, which containers find by CDI like real ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headrace.contracts.facts import NodeRegisteredV1
from headrace.node_executor.system import orphans
from tests.integration.conftest import feed, login, nats_server
from tests.integration.nodes import Executor, until
from tests.mock_nvml import STATE, Machine, build_program, compiler
from tests.patience import PATIENCE
from tests.real_engine import NotHere, Podman, podman

__all__ = ["feed", "login", "nats_server"]

CDI = Path("/var/run/cdi/nvidia.json")
PROC = "/machine/proc"
"""Where containers find the machine's list of processes, so that the mock knows them as a driver does."""
HERE = Path(__file__).parent
PIDS = 64
"""Processes that a job may have."""


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A directory that accounts of jobs may pass through."""
    with tempfile.TemporaryDirectory(prefix="hr-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


@pytest.fixture(scope="session")
def engine(place: Path) -> Iterator[Podman]:
    """Podman, where it works."""
    (place / "engine").mkdir(mode=0o700)
    trying = podman(place / "engine")
    try:
        one = next(trying)
    except NotHere as reason:
        pytest.skip(f"no container engine works here: {reason}")
    yield one
    next(trying, None)


@pytest.fixture(scope="session")
def take(place: Path) -> Path:
    """The program that takes memory of a GPU."""
    if compiler() is None:
        pytest.skip("it is built by a C compiler, and there is none")
    return build_program(HERE / "take.c", place / "take")


@pytest.fixture
def gpus(machine: Machine, take: Path, place: Path) -> Iterator[Machine]:
    """Two H100 of the mock, described for containers as NVIDIA's toolkit describes real ones."""
    if CDI.exists():
        pytest.skip(f"{CDI} exists: this machine has GPUs of its own")
    libraries = place / "lib"
    shutil.copytree(machine.libraries, libraries, dirs_exist_ok=True)
    libraries.chmod(0o755)
    machine.state.chmod(0o666)
    for folder in (machine.libraries, *machine.libraries.parents[:-2], *machine.state.parents[:-2]):
        os.chmod(folder, os.stat(folder).st_mode | 0o011)
    mounts = {str(libraries): str(libraries), str(machine.state): str(machine.state), "/proc": PROC, str(take): "/bin/take"}
    edits = {
        "env": [f"{STATE}={machine.state}", f"LD_LIBRARY_PATH={libraries}", f"MOCK_NVML_PROC={PROC}"],
        "mounts": [
            {"hostPath": source, "containerPath": target, "options": ["rbind" if target == PROC else "bind"]}
            for source, target in mounts.items()
        ],
    }
    names = [f"GPU-a1b2c30{number}-0000-4000-8000-000000000000" for number in range(2)]
    devices = [{"name": name, "containerEdits": {"env": [f"SEEN_{number}=yes"]}} for number, name in enumerate(names)]
    CDI.parent.mkdir(parents=True, exist_ok=True)
    CDI.write_text(json.dumps({"cdiVersion": "0.3.0", "kind": "nvidia.com/gpu", "devices": devices, "containerEdits": edits}))
    yield machine
    CDI.unlink()
    for left in CDI.parent.glob("headrace-acme.alice.*.json"):
        left.unlink()


class Site(Executor):
    """An executor that uses the engine; `again` is the next one on the same directory."""

    def __init__(self, directory: Path, server: object, socket: str, devices: str) -> None:
        super().__init__(directory, server)
        self._words = ("--containers", socket, "--devices", devices, "--run-as", "own", "--pids", str(PIDS))
        self._file = directory / "executor.log"

    def begin(self) -> None:
        self.start(*self._words)

    @property
    def log(self) -> str:
        return self._file.read_text()


@pytest.fixture
def devices() -> str:
    """What the node has: simulated GPUs, or those of the mock (`nvml`)."""
    return "sim:2xH100-80GB"


@pytest.fixture
async def site(feed, nats_server, engine: Podman, devices: str, place: Path) -> AsyncIterator[Site]:
    with tempfile.TemporaryDirectory(prefix="site-", dir=place, ignore_cleanup_errors=True) as folder:
        os.chmod(folder, 0o755)
        one = Site(Path(folder), nats_server, engine.socket, devices)
        one.begin()
        try:
            await until(lambda: feed.count(NodeRegisteredV1))
            yield one
        finally:
            sys.stderr.write(one.log + "".join(path.read_text() for path in (one.data / "logs").glob("*.log")))  # if it failed
            if one.process is not None:
                one.process.kill()
                await asyncio.to_thread(one.process.wait, PATIENCE)
            with contextlib.suppress(NotHere):  # what is still busy goes with the engine
                await asyncio.to_thread(engine.call, "rm", "--all", "--force", "--time=0")
            await asyncio.to_thread(orphans.sweep, f"{one.data}/leases")
