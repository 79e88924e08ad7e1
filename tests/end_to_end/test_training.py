"""A training that was preempted three times has the losses of one without a disturbance: with PyTorch, on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT
from tests.patience import PATIENCE

STEPS = 120
pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed; pip install torch==2.13.0")


class Attempt:
    """One attempt of the job, told what a node would tell it."""

    def __init__(self, work: Path, number: int, resume_from: str = "") -> None:
        self.control = work / f"control-{number}"
        self.control.mkdir()
        self.notice = self.control / "preempt.json"
        environment = {
            "HEADRACE_ATTEMPT": str(number),
            "HEADRACE_CONTROL_DIR": str(self.control),
            "HEADRACE_CHECKPOINT_DIR": str(work / f"checkpoints-{number}"),
            "HEADRACE_RESUME_FROM": resume_from,
            "HEADRACE_PREEMPT_FILE": str(self.notice),
            "HEADRACE_FINISHED_FILE": str(self.control / "finished"),
        }
        script = str(ROOT / "deploy" / "examples" / "train_torch.py")
        command = [sys.executable, script, "--steps", str(STEPS), "--every", "10"]
        self.process = subprocess.Popen(command, cwd=work, env=os.environ | environment, stdout=subprocess.PIPE, text=True)

    def registered(self) -> list[dict[str, object]]:
        path = self.control / "checkpoints"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def preempt_after(self, checkpoints: int) -> str:
        """Tell it to yield once it has saved so often; the last checkpoint."""
        until = time.monotonic() + PATIENCE
        while len(self.registered()) < checkpoints:
            assert self.process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.001)
        self.notice.write_text('{"reason": "preempted"}')
        self.end()
        return str(self.registered()[-1]["uri"])

    def end(self) -> str:
        output, _ = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0
        return output


def test_three_preemptions_leave_no_trace_in_the_losses(tmp_path) -> None:
    (tmp_path / "alone").mkdir()
    assert "done" in Attempt(tmp_path / "alone", 1).end()
    (tmp_path / "shared").mkdir()
    last = ""
    for number, checkpoints in ((1, 1), (2, 2), (3, 1)):
        last = Attempt(tmp_path / "shared", number, last).preempt_after(checkpoints)
    attempt = Attempt(tmp_path / "shared", 4, last)
    assert "done" in attempt.end()
    assert (attempt.control / "finished").exists()
    alone, shared = (json.loads((tmp_path / name / "losses.json").read_text()) for name in ("alone", "shared"))
    assert len(alone) == STEPS
    assert shared == alone
    assert sum(alone[-10:]) < sum(alone[:10]) / 2
