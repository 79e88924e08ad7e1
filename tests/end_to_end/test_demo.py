"""The README's first command: the worked example with a real NATS, a real Postgres and real processes."""

from __future__ import annotations

import re
import subprocess
import sys

from tests.patience import PATIENCE


def test_the_demo_plays_the_vectors_and_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "demo"], capture_output=True, text=True, timeout=5 * PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    headlines = re.findall(r"^── (.*?) ─+$", done.stdout, flags=re.MULTILINE)
    assert headlines == [
        "Starting NATS, PostgreSQL, the services and a node with 10 simulated GPUs",
        "V1: R&D submits five jobs of 3 GPUs. Reservation 5, limit 9, and 10 GPUs are there",
        "V2: DevOps submits a job of 3. It is inside its reservation of 5, so it gets GPUs back",
        "V3: DevOps submits a job of 2 and rises to its reservation",
        "The jobs end, and those that yielded go on where they left off",
        "The books",
        "Overflow: the hall is full, so a node comes from the cloud, and leaves again",
        "All of it is what the vectors say",
    ]
