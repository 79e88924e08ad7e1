"""A whole installation with a real GPU: the parts of two jobs, and a job that leaves the GPU for another one and comes back."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.enforcement.parts import part_of
from tests.gpu.programs import COUNT, FILL
from tests.integration.machine import HEADRACE, Machine

DOCUMENTS = """
groups: [{name: rnd, members: [alice]}, {name: ops, members: [carol]}]
pools: [{name: hall, selector: {site: check}}]
profiles:
  - {name: half, request: {gpu: 0.5}, pools: [hall]}
  - {name: whole, request: {gpu: 1}, pools: [hall]}
policies:
  - {name: rnd, group: rnd, profiles: [half, whole], limit: {gpu: 1}, preemption: {on_preempt: suspend, min_runtime: 1s}}
  - {name: ops, group: ops, profiles: [whole], reservation: {gpu: 1}, limit: {gpu: 1}}
"""


@pytest.fixture(scope="module")
def machine(devices: NvmlDevices, gpu: str) -> Iterator[Machine]:
    """An installation whose only node is this machine; its directory is one that accounts of jobs may pass through."""
    if "HEADRACE_CHECK_THE_CHECKS" in os.environ:
        pytest.skip("jobs do not load the mock of libcuda")
    if len(devices.names) != 1:
        pytest.skip("it takes a machine with one GPU, or a job would go to another one")
    folder = Path(tempfile.mkdtemp(prefix="headrace-gpu-"))
    machine = Machine(folder / "data")
    Path(machine.documents).write_text(DOCUMENTS)
    machine.data.mkdir(mode=0o700)
    machine.done("up", "--detach", "--nodes", "0")
    command = [*HEADRACE, "node", "run", "--name", "check", "--labels", "site=check", "--data", str(folder / "node")]
    with (folder / "node.log").open("w") as log:
        node = subprocess.Popen(command, env=os.environ | {"HEADRACE_DATA": str(machine.data)}, stderr=log)
    try:
        machine.until(lambda: '"check"' in machine.done("nodes", "--json"))
        machine.done("apply", "-f", machine.documents)
        yield machine
    finally:
        node.terminate()
        node.wait()
        machine.run("down", "--now")
        shutil.rmtree(folder, ignore_errors=True)


def submit(machine: Machine, user: str, queue: str, *command: str, workdir: str = "") -> str:
    words = ("--queue", queue, "--user", user, "--workdir", workdir, "--", sys.executable, "-c", *command)
    return machine.done("submit", *words).strip()


def printed(machine: Machine, job: str) -> str:
    machine.until(lambda: machine.run("logs", job).stdout.strip() != "")
    return machine.done("logs", job).strip()


def test_two_jobs_fill_a_half_each_and_the_third_waits_for_one_of_them(machine: Machine, devices, gpu: str, figure) -> None:
    part = part_of(devices.gpu(gpu).memory, GPU_UNITS // 2)
    left, right = submit(machine, "alice", "rnd/half", FILL), submit(machine, "alice", "rnd/half", FILL)
    filled = [int(printed(machine, job)) for job in (left, right)]
    figure("MiB: of a half, filled by each", (part, *filled))
    assert all(part // 2 < size <= part for size in filled)
    third = submit(machine, "alice", "rnd/half", "print('third')")
    machine.until(lambda: machine.job(third)["reason"] == "AT_POLICY_LIMIT")
    machine.done("cancel", left)
    machine.until_state(third, "succeeded")
    machine.done("cancel", right)
    machine.until_state(right, "cancelled")


def test_a_job_leaves_the_gpu_for_its_owner_and_goes_on_with_its_memory_as_it_was(
    machine: Machine, devices: NvmlDevices, gpu: str, figure, tmp_path: Path
) -> None:
    if devices.labels["gpu.checkpoint"] != "yes":
        pytest.skip(f"driver {devices.labels['gpu.driver']} cannot move processes off a GPU; 570 and newer can")
    place = Path(tempfile.mkdtemp(prefix="headrace-count-"))
    place.chmod(0o777)
    step = place / "step"
    count = submit(machine, "alice", "rnd/whole", COUNT, "4096", workdir=str(place))
    machine.until(step.exists)
    began = time.monotonic()
    owner = submit(machine, "carol", "ops/whole", FILL)
    filled = int(printed(machine, owner))
    figure("MiB filled by the owner, s from its submit", (filled, round(time.monotonic() - began, 1)))
    assert filled > devices.gpu(gpu).memory * 9 // 10
    assert machine.job(count)["state"] == "suspended"
    before = int(step.read_text())
    began = time.monotonic()
    machine.done("cancel", owner)
    machine.until(lambda: int(step.read_text()) > before + 2)
    figure("s from the cancel until it counts again", round(time.monotonic() - began, 1))
    assert not (place / "broken").exists()
    assert (machine.job(count)["state"], machine.job(count)["preemptions"]) == ("running", 1)
    machine.done("cancel", count)
    machine.until_state(count, "cancelled")
    shutil.rmtree(place, ignore_errors=True)
