"""A whole installation for a test, and the `headrace` command on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.patience import PATIENCE

Headrace = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment in which the installation is started and used."""
    return {**os.environ, "HEADRACE_DATA": str(tmp_path / "data")}


@pytest.fixture
def headrace(environment: dict[str, str]) -> Iterator[Headrace]:
    """Run `headrace` with arguments; whatever it has started is stopped at the end."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "headrace.cli", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=5 * PATIENCE, check=False)

    yield run
    run("down")
