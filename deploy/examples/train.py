"""A minimal training loop: counts steps, saves when it has to stop, resumes where it left off.

Run it as `python train.py STEPS [SECONDS_PER_STEP]`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from headrace.client import job


def main(steps: int, pace: float) -> None:
    """Work until `steps` are done, or until a reservation needs the GPUs."""
    step = json.loads(Path(job.resumed_from).read_text())["step"] if job.resumed_from else 0
    print(f"attempt {job.attempt}: begins at step {step} of {steps}", flush=True)
    while step < steps:
        if job.preempting:
            saved = Path(job.checkpoint_dir) / "state.json"
            saved.write_text(json.dumps({"step": step}))
            job.checkpointed(str(saved), step)
            print(f"attempt {job.attempt}: saved at step {step}", flush=True)
            return
        time.sleep(pace)  # stands for a step of training
        step += 1
    job.finished()
    print(f"attempt {job.attempt}: done", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.1)
