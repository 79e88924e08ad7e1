"""`compose.yaml` and the real Dockerfile on a real Podman: one command, a first job on the simulated node, and an executor that joins.

Podman's command starts what Compose says, by `podman-compose` in an environment of its own. Podman 4 does not resolve a chain of
`depends_on`, so what comes first is started first, and the rest without that key; nothing else is changed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.supervisor.network.ports import free_port
from tests.deploy.images import ROOT, STORE, Engine, missing

FIRST = ("write", "postgres", "nats", "streams")
WITHIN = 180.0
PROJECT = "headrace-test"


class Composed:
    """What Compose has started. `ports`: those of the API and of NATS on this machine."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine, self.folder = engine, folder
        self.api, self.nats = free_port(), free_port()
        variables = {"POSTGRES_PASSWORD": "of-a-test", "HEADRACE_REACHED_AS": "localhost,127.0.0.1"}
        ports = {"HEADRACE_API_PORT": str(self.api), "HEADRACE_NATS_PORT": str(self.nats)}
        self._environment = engine.environment | variables | ports
        self._file = folder / "compose.yaml"

    def compose(self, whole: dict[str, Any], *words: str) -> None:
        self._file.write_text(yaml.safe_dump(whole))
        command = [str(STORE / "compose/bin/podman-compose"), "--project-name", PROJECT, "--file", str(self._file), *words]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    def up(self) -> None:
        whole = yaml.safe_load((ROOT / "deploy/compose.yaml").read_text("utf-8"))
        for name, part in whole["services"].items():
            if name not in FIRST:
                del part["depends_on"]
            part.pop("build", None)  # it is built already
        self.compose(whole, "up", "--detach", *FIRST)
        self.compose(whole, "up", "--detach")

    def end(self) -> None:
        """Remove all of it, also what an interrupted test left: a ledger of today beside seals of yesterday looks forged."""
        for kind in ("container", "volume", "network"):
            listed = ("ls", "--quiet", *(("--all",) if kind == "container" else ()), "--filter", f"name={PROJECT}_")
            names = self.engine.call(kind, *listed).split()
            forced = ("--force", "--time=0", "--volumes", "--depend", "--ignore") if kind == "container" else ("--force",)
            _ = names and self.engine.call(kind, "rm", *forced, *names)

    def headrace(self, *words: str, stdin: str | None = None, check: bool = True) -> str:
        """As the README says: the command line, in the container of *governance*."""
        return self.engine.call(
            "exec", "--interactive", f"{PROJECT}_governance_1", "headrace", *words, stdin=stdin, within=WITHIN, check=check
        )

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN
        while not holds():
            assert time.monotonic() < deadline, f"not within {WITHIN:g} s: {what}\n{self.logs()}"
            time.sleep(0.5)

    def logs(self) -> str:
        names = self.engine.call("ps", "--all", "--format", "{{.Names}}").split()
        return "\n".join(f"== {name}\n{self.engine.call('logs', '--tail=15', name, check=False)}" for name in names)

    def states(self) -> dict[str, str]:
        output = self.headrace("status", "--json", check=False)
        try:
            return {part["name"]: part["state"] for part in json.loads(output[: output.rindex("}") + 1])["parts"]}
        except ValueError:
            return {}

    def nodes(self) -> dict[str, str]:
        output = self.headrace("nodes", "--json", check=False)
        try:
            return {node["name"]: node["state"] for node in json.loads(output)}
        except ValueError:
            return {}


@pytest.fixture(scope="module")
def composed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    if reason := missing():
        pytest.fail(reason)
    engine = Engine()
    engine.headrace()
    engine.postgres()
    if not (STORE / "compose/bin/podman-compose").exists():
        subprocess.run([sys.executable, "-m", "venv", str(STORE / "compose")], check=True)
        pip = [str(STORE / "compose/bin/python"), "-m", "pip", "install", "--quiet", "--require-hashes", "--requirement"]
        subprocess.run([*pip, str(ROOT / "tests/deploy/compose.lock")], check=True, capture_output=True)
    made = Composed(engine, tmp_path_factory.mktemp("compose"))
    made.end()
    try:
        made.up()
        yield made
    finally:
        made.end()


def test_one_command_brings_a_whole_installation_that_runs_a_job(composed: Composed) -> None:
    composed.until("every part is well", lambda: sorted(set(composed.states().values())) == ["running", "standby"])
    composed.until("the simulated node is ready", lambda: composed.nodes() == {"sim": "ready"})
    composed.headrace("apply", "-f", "-", stdin=(ROOT / "deploy/examples/ai-dev.yaml").read_text("utf-8"))
    output = composed.headrace("submit", "--user", "alice", "--queue", "ai-dev/half", "--wait", "--", "echo", "in a container")
    assert composed.headrace("logs", "--user", "alice", output.split()[0]) == "in a container\n"
    assert "keepers_in_python" not in composed.engine.call("logs", f"{PROJECT}_node_1", check=False)
    composed.until("the books have it", lambda: "ai-dev" in composed.headrace("usage", "--by", "policy", check=False))
    bearer = composed.headrace("token", "create", "--user", "alice").split()[0]
    asked = urllib.request.Request(
        f"http://127.0.0.1:{composed.api}/v1/tenants/default/jobs/{output.split()[0]}",
        headers={"authorization": f"Bearer {bearer}"},
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:
        assert json.load(answer)["state"].lower().endswith("succeeded")
    assert composed.headrace("audit", "verify")


def test_an_executor_outside_joins_over_tls_with_a_token_and_the_authority(composed: Composed) -> None:
    composed.until("every part is well", lambda: sorted(set(composed.states().values())) == ["running", "standby"])
    token = composed.headrace("token", "create", "--node", "gpu01", "--labels", "site=hq", "--gpus", "2").split()[0]
    composed.engine.call("cp", f"{PROJECT}_governance_1:/var/lib/headrace/tls/ca.pem", str(composed.folder / "ca.pem"))
    own = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    own |= {"HEADRACE_CA": str(composed.folder / "ca.pem"), "HEADRACE_NATS_URL": f"tls://localhost:{composed.nats}"}
    own |= {"HEADRACE_NATS_USER": "node_gpu01", "HEADRACE_NATS_PASSWORD": token}
    words = ["--name", "gpu01", "--labels", "site=hq", "--devices", "sim:2xH100-80GB", "--data", str(composed.folder / "node")]
    more = ["--on-stop", "end", "--run-as", "self"]
    with (composed.folder / "node.log").open("wb") as log:
        command = [sys.executable, "-m", "headrace.cli", "node", "run", *words, *more]
        executor = subprocess.Popen(command, env=own, stdout=log, stderr=log)
    try:
        composed.until("the node has joined", lambda: composed.nodes().get("gpu01") == "ready")
    finally:
        executor.terminate()
        executor.wait(30)
