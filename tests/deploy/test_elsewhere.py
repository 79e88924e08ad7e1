"""All services by the very commands of the systemd units, against a NATS and a PostgreSQL that `headrace up` did not start."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.supervisor.network.ports import free_port
from headrace.supervisor.processes import postgres

ROOT = Path(__file__).parents[2]
UNITS = ROOT / "deploy/systemd"
INSTALLED = "/opt/headrace/bin/"
DIRECTORY = "/var/lib/headrace"
WITHIN = 90.0
DOCUMENTS = """
groups: [{name: rnd, members: [alice]}]
pools: [{name: onprem, selector: {site: hq}}]
profiles: [{name: one, request: {gpu: 1}, pools: [onprem]}]
policies: [{name: rnd, group: rnd, profiles: [one], reservation: {gpu: 1}, limit: {gpu: 2}}]
"""


class Machine:
    """A machine without systemd: what the units say, with this checkout for /opt/headrace and DATA for /var/lib/headrace."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.nats, self.api = f"nats://127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.notes = folder / "notes"
        self.notes.mkdir()
        self.logs = folder / "logs"
        self.logs.mkdir()
        self.plain = {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}
        self.database = postgres.prepare(folder / "postgres", "books-password")

    def headrace(self, *words: str, check: bool = True) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli", *words],
            env=self.plain | {"HEADRACE_DATA": str(self.data)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or not check, (words, done.stdout, done.stderr)
        return done.stdout + done.stderr

    def start(self, unit: str) -> None:
        """Start `headrace-NAME` or `headrace-NAME@1` as its unit says."""
        name, at, instance = unit.partition("@")
        lines = (UNITS / f"{name}{at}.service").read_text("utf-8").splitlines()
        settings = dict(line.split("=", 1) for line in lines if line.startswith(("ExecStart=", "EnvironmentFile=")))
        environment = dict(self.plain)
        if "EnvironmentFile" in settings:
            file = self.here(settings["EnvironmentFile"].replace("%i", instance))
            environment |= dict(line.split("=", 1) for line in Path(file).read_text("utf-8").splitlines())
            environment |= {"HEADRACE_METRICS": "127.0.0.1:0", "HEADRACE_METRICS_TARGETS": str(self.notes)}
        for key, value in (line.split("=", 2)[1:] for line in lines if line.startswith("Environment=HEADRACE_ENVIRONMENT__")):
            service = key.removeprefix("HEADRACE_ENVIRONMENT")
            own = {"HEADRACE_METRICS": "127.0.0.1:0", "HEADRACE_METRICS_TARGETS": str(self.notes)}
            environment |= {key: self.here(value)} | {f"{name}{service}": value for name, value in own.items()}
        self.run(unit, [self.here(word) for word in shlex.split(settings["ExecStart"])], environment)

    def here(self, word: str) -> str:
        """A path of the units, on this machine."""
        word = word.replace(INSTALLED, f"{Path(sys.executable).parent}/").replace("/etc/nats", f"{self.data}/nats")
        return (
            word.replace("/etc/headrace", str(self.data))
            .replace(f"{DIRECTORY}-node", f"{self.data}-node")
            .replace(DIRECTORY, str(self.data))
        )

    def run(self, name: str, command: list[str], environment: dict[str, str], account: int | None = None) -> None:
        with (self.logs / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command,
                env=environment,
                stdout=log,
                stderr=log,
                cwd="/",
                user=account,
                extra_groups=None if account is None else [],
            )

    def until(self, what: str, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN
        while not holds():
            ended = {name: process.returncode for name, process in self.processes.items() if process.poll() is not None}
            logs = "\n".join(f"== {path.name}\n{path.read_text()[-1500:]}" for path in sorted(self.logs.iterdir()))
            assert not ended, f"{ended} while waiting until {what}\n{logs}"
            assert time.monotonic() < deadline, f"not within {WITHIN:g} s: {what}\n{logs}"
            time.sleep(0.1)

    def states(self) -> dict[str, str]:
        """Each service, and what it says of itself."""
        status = self.headrace("status", "--json", check=False)
        return {part["name"]: part["state"] for part in json.loads(status[: status.rindex("}") + 1])["parts"]}

    def is_ready(self, name: str) -> bool:
        try:
            address = json.loads((self.notes / f"{name}.json").read_bytes())[0]["targets"][0]
            with urllib.request.urlopen(f"http://{address}/readyz", timeout=2) as answer:
                return bool(json.load(answer)["ready"])
        except (OSError, ValueError):
            return False

    def end(self) -> None:
        for process in reversed(self.processes.values()):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes.values()):
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture
def machine() -> Iterator[Machine]:
    with tempfile.TemporaryDirectory(prefix="headrace-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o711)  # the database's account has to pass
        made = Machine(Path(folder))
        yield made
        made.end()


SERVICES = {
    **{f"headrace-{name}": name for name in ("admission", "governance", "accounting", "audit")},
    "headrace-allocator@1": "allocator",
    "headrace-allocator@2": "allocator-standby",
    "headrace-preemption@1": "preemption",
    "headrace-preemption@2": "preemption-standby",
    "headrace-feed@2": "feed-standby",
    "headrace-provisioner@1": "provisioner",
    "headrace-provisioner@2": "provisioner-standby",
    "headrace-callout@1": "callout-1",
    "headrace-callout@2": "callout-2",
}


def test_every_service_runs_by_its_unit_and_a_job_goes_through_and_a_standby_takes_over(machine: Machine) -> None:
    machine.headrace(
        *("config", "write", "--nats", machine.nats, "--postgres", machine.database.dsn, "--listen", machine.api),
        *("--nats-store", f"{machine.data}/store"),
    )
    machine.start("nats-server")
    machine.run("postgres", list(machine.database.argv), dict(machine.database.env), machine.database.user)
    machine.until("PostgreSQL accepts", lambda: asyncio.run(postgres.accepts(machine.database.dsn)))
    assert "ready, one copy of each message" in machine.headrace("config", "streams")
    for unit in SERVICES:
        machine.start(unit)
    machine.start("headrace-gateway")
    for name in (*SERVICES.values(), "feed"):  # which shares governance's process
        machine.until(f"{name} is ready", lambda name=name: machine.is_ready(name))  # type: ignore[misc]
    (machine.data.parent / "documents.yaml").write_text(DOCUMENTS)
    machine.headrace("apply", "-f", str(machine.data.parent / "documents.yaml"))

    approved = ("--node", "gpu01", "--labels", "site=hq", "--gpus", "2")
    output = ""

    def is_made() -> bool:  # refused until the installation has reached its level, some seconds after its first start
        nonlocal output
        output = machine.headrace("token", "create", *approved, check=False)
        return "claims of nodes are approved from level" not in output

    machine.until("a token approves labels", is_made)
    token = output.split(maxsplit=1)[0]
    (machine.data / "node.env").write_text(
        f"HEADRACE_NATS_URL={machine.nats}\nHEADRACE_NATS_USER=node_gpu01\nHEADRACE_NATS_PASSWORD={token}\n"
    )
    unit = (UNITS / "headrace-node.service").read_text("utf-8")
    assert "headrace node run --data /var/lib/headrace-node $HEADRACE_NODE_ARGUMENTS\n" in unit
    words = [
        "node",
        "run",
        "--name",
        "gpu01",
        "--labels",
        "site=hq",
        "--devices",
        "sim:2xH100-80GB",
        "--limits",
        "off",
        "--run-as",
        "self",
    ]
    environment = machine.plain | dict(line.split("=", 1) for line in (machine.data / "node.env").read_text().splitlines())
    environment |= {"HEADRACE_METRICS": "127.0.0.1:0", "HEADRACE_METRICS_TARGETS": str(machine.notes)}
    command = [sys.executable, "-m", "headrace.cli", *words, "--data", f"{machine.data}-node", "--on-stop", "end"]
    machine.run("headrace-node", command, environment)
    machine.until("the node is ready", lambda: machine.is_ready("node-gpu01"))

    output = machine.headrace("submit", "--user", "alice", "--queue", "rnd/one", "--wait", "--", "echo", "hello")
    job = output.split()[0]
    assert machine.headrace("logs", "--user", "alice", job) == "hello\n"

    bearer = machine.headrace("token", "create", "--user", "alice").split()[0]
    asked = urllib.request.Request(
        f"http://{machine.api}/v1/tenants/default/jobs/{job}", headers={"authorization": f"Bearer {bearer}"}
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:
        assert json.load(answer)["state"].lower().endswith("succeeded")

    states = machine.states()
    for name in ("allocator", "preemption", "feed", "provisioner"):
        assert sorted((states[name], states[f"{name}-standby"])) == ["running", "standby"]
    first_decides = states["allocator"] == "running"
    active = machine.processes.pop("headrace-allocator@1" if first_decides else "headrace-allocator@2")
    active.kill()
    active.wait()
    machine.headrace("submit", "--user", "alice", "--queue", "rnd/one", "--wait", "--", "true")
    assert machine.states()["allocator-standby" if first_decides else "allocator"] == "running"
    machine.until("the books have it", lambda: "rnd" in machine.headrace("usage", "--by", "policy"))
    machine.headrace("audit", "export")
    machine.headrace("archive", "check")
    machine.headrace("audit", "verify")
