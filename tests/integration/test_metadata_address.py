"""A job cannot reach the metadata service of a cloud, on a node that stays and on an instance that a pool creates: a real installation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.machine import new_machine
from tests.patience import PATIENCE
from tests.private_network import REACHES, WHY_NOT, private_network

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)

DOCUMENTS = """
groups: [{name: rnd, members: [alice]}]
pools:
  - {name: onprem, selector: {site: hq}}
  - name: cloud
    selector: {site: cloud}
    burst: {provider: local, max_nodes: 1, boot: 60s, idle: 10m, node: {gpus: 2, gpu_model: H100-80GB}}
profiles: [{name: one, request: {gpu: 1}, pools: [onprem]}, {name: far, request: {gpu: 1}, pools: [cloud]}]
policies: [{name: rnd, group: rnd, profiles: [one, far]}]
"""


def test_a_job_finds_the_metadata_service_closed_wherever_it_runs(tmp_path: Path) -> None:
    program = tmp_path / "reaches.py"
    program.write_text(REACHES.replace("PORT", "80"))
    with private_network() as within, new_machine() as made:
        made.prefix = within
        made.up()
        made.until(lambda: json.loads(made.done("status", "--json"))["level"]["stated"] == 3)
        Path(made.documents).write_text(DOCUMENTS)
        made.done("apply", "-f", made.documents)
        by_root = subprocess.run(
            [*within, sys.executable, str(program)], capture_output=True, text=True, timeout=PATIENCE, check=True
        )
        assert by_root.stdout == "reached\n"
        found = {}
        for profile in ("one", "far"):
            words = ("--queue", f"rnd/{profile}", "--user", "alice", "--wait", "--", sys.executable, "-c", program.read_text())
            job = made.done("submit", *words).split()[0]
            (node,) = made.job(job)["attempts"][0]["nodes"]
            found[node.partition("-")[0]] = made.done("logs", "--user", "alice", job)
        assert found == {"box": "refused\n", "cloud": "refused\n"}
