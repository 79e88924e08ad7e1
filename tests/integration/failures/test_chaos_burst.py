"""A short run of `make chaos-burst`: what creates nodes is killed, and nothing leaks, is made twice or ends under a job (R38)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE


def test_a_few_kills_and_notices_leave_no_instance_and_lose_no_checkpoint(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    words = (
        "--kills",
        "6",
        "--notices",
        "1",
        "--minutes",
        "3",
        "--seed",
        "1",
        "--cancel",
        "--no-cap",
        "--no-end",
        "--json",
        str(found),
    )
    done = subprocess.run(
        [sys.executable, "-m", "tests.chaos.burst", *words], capture_output=True, text=True, timeout=6 * PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(found.read_text())
    assert (figures["violations"], figures["notices"]["saved_before_the_deadline"]) == ([], 1)
    assert sum(figures["kills"].values()) >= 6
