"""A real executor on an instance ends by itself, so that nothing is paid for because the control plane is gone (R38)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE


def test_an_executor_that_cannot_join_ends_by_itself_and_powers_its_machine_off(tmp_path: Path) -> None:
    off = tmp_path / "off"
    command = [sys.executable, "-m", "headrace.node_executor", "run", "--name", "cloud-1", "--data", str(tmp_path / "node")]
    limits = ["--devices", "sim:1xH100-80GB", "--run-as", "self", "--join-within", "1s", "--power-off", f"touch {off}"]
    nowhere = {"HEADRACE_NATS_URL": "nats://127.0.0.1:1", "HEADRACE_NATS_USER": "node_cloud-1", "HEADRACE_NATS_PASSWORD": "x"}
    done = subprocess.run(
        [*command, *limits], env=os.environ | nowhere, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, off.exists()) == (0, True), done.stderr
    assert "it has not joined within 1 s" in done.stderr
