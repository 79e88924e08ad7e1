"""A pool whose nodes are machines that one owns: real services, a real SSH server, and real node executors behind it."""

from __future__ import annotations

import getpass
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.machine import new_machine
from tests.unit.provisioner.providers.ssh_server import SSHD, SshServer

pytestmark = pytest.mark.skipif(not SSHD.exists(), reason=f"{SSHD} is missing")

DOCUMENTS = """
groups: [{name: rnd, members: [alice]}]
pools:
  - name: owned
    selector: {site: cellar}
    burst:
      provider: ssh
      offers: [{name: h100, type: h100, price: "0.40"}]
      max_nodes: 2
      boot: 60s
      idle: 2s
      node: {gpus: 2, gpu_model: H100-80GB, cpus: 8, memory: 16GiB}
profiles: [{name: one, request: {gpu: 1}, pools: [owned]}]
policies: [{name: rnd, group: rnd, profiles: [one]}]
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    made = SshServer(tmp_path / "sshd")
    made.start()
    yield made
    made.stop()


def test_a_machine_is_taken_for_a_job_and_sleeps_when_it_is_idle(server: SshServer, tmp_path: Path) -> None:
    with new_machine() as made:
        made.up("--jobs-are-trusted")
        made.until(lambda: json.loads(made.done("status", "--json"))["level"]["stated"] == 3)
        machine = {"name": "gpu-1", "address": "127.0.0.1", "port": server.port, "type": "h100"}
        machines = {
            "key": str(server.key),
            "known_hosts": str(server.known_hosts),
            "user": getpass.getuser(),
            "directory": str(tmp_path / "gpu-1"),
            "program": f"{sys.executable} -P -m headrace.node_executor",
            "arguments": "--devices sim:2xH100-80GB --run-as self --limits off",
            "sleep": f"touch {tmp_path / 'asleep'}",
            "machines": [machine],
        }
        place = made.data / "burst/ssh"
        place.mkdir(parents=True)
        (place / "machines.yaml").write_text(json.dumps(machines))
        (made.data.parent / "documents.yaml").write_text(DOCUMENTS)
        made.done("apply", "-f", made.documents)
        checked = json.loads(made.done("burst", "offers", "--check", "--json"))
        assert [(one["offer"], one["check"]) for one in checked] == [("h100", "ok")]

        job = made.submit(made.goes_on_until_released)
        made.until_state(job, "running")
        (mine,) = json.loads(made.done("burst", "list", "--json"))
        assert (mine["stage"], mine["provider_id"], mine["price"]) == ("joined", "ssh/gpu-1", "0.40")
        assert made.job(job)["attempts"][0]["nodes"] == [mine["instance"]]

        made.released.write_text("")
        made.until_state(job, "succeeded")
        made.until((tmp_path / "asleep").exists)
        made.until(lambda: [one["cause"] for one in json.loads(made.done("burst", "list", "--json"))] == ["idle"])

        server.stop()
        refused = made.run("burst", "offers", "--check")
        assert (refused.returncode, "gpu-1 does not answer" in refused.stdout) == (1, True)
