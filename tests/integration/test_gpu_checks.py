"""The checks for real GPUs, played against the mock: whoever has a GPU for an hour should not find them broken."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.mock_nvml import Machine


def test_the_checks_for_real_gpus_pass_where_a_mock_can_tell(machine: Machine) -> None:
    machine.reset(1, "NVIDIA H200", 143_771)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/gpu"]
    env = os.environ | machine.environment | {"HEADRACE_CHECK_THE_CHECKS": "1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4_000:]
    assert " passed" in done.stdout
