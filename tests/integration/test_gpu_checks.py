"""The checks for real GPUs, played against the mock: a person who has a GPU for an hour should not find them broken."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import mock_cuda
from tests.mock_nvml import Machine


def play(machine: Machine, *what: str, **more: str) -> str:
    """What pytest says of some of the checks; they have passed."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *what]
    env = os.environ | machine.environment | {"HEADRACE_CHECK_THE_CHECKS": "1"} | more
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4_000:]
    return done.stdout


def test_the_checks_for_real_gpus_pass_where_a_mock_can_tell(machine: Machine) -> None:
    machine.reset(1, "NVIDIA H200", 143_771)
    assert " passed" in play(machine, "tests/gpu")


def test_the_check_of_suspension_passes_with_a_driver_that_can_move_processes(machine: Machine, tmp_path: Path) -> None:
    machine.reset(1, "NVIDIA H200", 143_771)
    libraries = f"{mock_cuda.build(tmp_path)}:{machine.libraries}"
    output = play(
        machine, "tests/gpu/test_suspending.py", "-k", "1024", LD_LIBRARY_PATH=libraries, MOCK_CUDA_STATE=str(tmp_path)
    )
    assert "1 passed" in output
