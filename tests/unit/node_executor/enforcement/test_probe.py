"""The small program that tries what should be refused; `test_trial` sends it."""

from __future__ import annotations

import subprocess
import sys

from headrace.node_executor.enforcement import probe
from tests.mock_nvml import Machine


def test_it_tells_which_nodes_it_could_open() -> None:
    assert [probe.openable(path) for path in ("/dev/null", "/dev/nothing")] == [True, False]


def test_it_tells_what_the_driver_answers_and_how_much_there_is(machine: Machine) -> None:
    machine.reset(1, mib=10_000)
    command = [sys.executable, "-I", "-S", probe.__file__, "take", "16", "20000", "1000"]
    done = subprocess.run(command, env=machine.environment, capture_output=True, text=True, check=True)
    assert done.stdout == "0 2 0 10000\n"


def test_without_a_gpu_it_tells_what_the_driver_says(machine: Machine) -> None:
    command = [sys.executable, "-I", "-S", probe.__file__, "take", "16"]
    done = subprocess.run(
        command, env=machine.environment | {"CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True, check=True
    )
    assert done.stdout == "100\n"
