"""The tests of GPUs, on the second mock: a process of their own, because a library of this name is loaded once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mock_nvml import compiler
from tests.second_nvml import CHOICE

ROOT = Path(__file__).parents[2]
UNITS = "tests/unit/node_executor"
SUITE = (
    f"{UNITS}/devices/test_nvml.py",
    f"{UNITS}/devices/test_nvml_library.py",
    f"{UNITS}/devices/test_discovery.py",
    f"{UNITS}/enforcement/test_mig.py",
    f"{UNITS}/enforcement/test_watchdog.py",
    f"{UNITS}/monitoring/test_monitors.py",
)


@pytest.mark.parametrize("files", [SUITE, ("tests/second_nvml/driver_cases.py",)], ids=["the same tests", "what drivers do"])
def test_devices_and_slices_hold_on_a_mock_that_was_written_without_reading_the_first(files: tuple[str, ...]) -> None:
    if compiler() is None:
        pytest.skip("the mock of NVML is built by a C compiler, and there is none")
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "MOCK_", "LD_LIBRARY"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", *files]
    done = subprocess.run(command, cwd=ROOT, env=own | {CHOICE: "second"}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " skipped" not in done.stdout.splitlines()[-1]
