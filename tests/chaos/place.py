"""The installation under attack: a whole real one, started by the `headrace` command, with three NATS servers and standbys."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

from headrace.bus.nats.connection import connect as connect_bus
from headrace.bus.nats.permissions import SERVICES
from headrace.client.endpoint import read_login
from headrace.nats_client.connection import Connection
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import RunningInstallation, read_running

HOST = "chaos"
NODES, GPUS = 3, 8
SERVERS = ("nats-server-1", "nats-server-2", "nats-server-3")
STANDBYS = ("allocator-standby", "preemption-standby", "feed-standby", "provisioner-standby")
DOORS = ("callout-1", "callout-2")
EXECUTORS = tuple(f"node-{HOST}" if number == 1 else f"node-{HOST}-{number}" for number in range(1, NODES + 1))
PARTS = (*SERVERS, "postgres", "gateway", *SERVICES, *STANDBYS, *DOORS, *EXECUTORS)

DOCUMENTS = """
groups:
  - {name: batch, members: [ann]}
  - {name: prod, members: [bob]}
  - {name: lab, members: [eve]}
pools: [{name: onprem, selector: {site: hq}, price: {gpu: 2.5}}]
profiles:
  - {name: one, request: {gpu: 1}, pools: [onprem]}
  - {name: half, request: {gpu: 0.5}, pools: [onprem]}
  - {name: four, request: {gpu: 4}, pools: [onprem]}
policies:
  - {name: batch, group: batch, profiles: [one, four], preemption: {on_preempt: requeue, callback_grace: 1s, term_grace: 1s}}
  - {name: prod, group: prod, profiles: [one, four], reservation: {gpu: 14}, priority: 5, preemption: {term_grace: 1s}}
  - {name: lab, group: lab, profiles: [half, one], reservation: {gpu: 4}, limit: {gpu: 8}, preemption: {term_grace: 1s}}
"""

JOB = """#!/bin/bash
# A job of SECONDS that ends with EXIT. It says where two of it ran, and where a device that it was given is held by another.
node=${HEADRACE_CONTROL_DIR#*/nodes/}; node=${node%%/*}
mkdir "$WITNESS/ran/$HEADRACE_JOB_ID.$HEADRACE_ATTEMPT" 2>/dev/null || echo "$HEADRACE_JOB_ID $HEADRACE_ATTEMPT" >> "$WITNESS/ran-twice"
IFS=, read -ra devices <<< "$HEADRACE_DEVICES"
for device in "${devices[@]}"; do
    case $device in *:*) continue ;; esac
    exec {held}> "$WITNESS/held/$node.$device"
    flock -n "$held" || echo "$node $device $HEADRACE_JOB_ID $HEADRACE_ATTEMPT" >> "$WITNESS/held-twice"
done
[ "$2" = 0 ] || exit "$2"
exec sleep "$1"
"""


class Place:
    """The data directory `data` in `folder`, and everything that runs on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.witness = folder / "witness"
        self.job = folder / "job.sh"
        self.api = ""
        self.token = ""

    def prepare(self) -> None:
        """Everything that has to lie there before the first start."""
        self.data.mkdir(mode=0o711)
        (self.data / "installation.json").write_text(json.dumps({"host": HOST, "labels": {"site": "hq"}}))
        for part in ("ran", "held"):
            (self.witness / part).mkdir(parents=True)
        self.job.write_text(JOB)
        self.job.chmod(0o755)

    def headrace(self, *words: str, within: float = 180.0) -> str:
        """The output of a command that has to succeed."""
        done = self.tried(*words, within=within)
        if done.returncode:
            raise RuntimeError(f"headrace {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def tried(self, *words: str, within: float = 180.0) -> subprocess.CompletedProcess[str]:
        """A command on this installation."""
        command = (sys.executable, "-m", "headrace.cli.main", *words, "--data", str(self.data))
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=within)

    def up(self, *more: str) -> None:
        """Start everything, until it is ready."""
        size = ("--nodes", str(NODES), "--gpus", str(GPUS))
        self.headrace("up", "--detach", "--standby", "--nats-servers", "3", *size, *more)

    def govern(self) -> None:
        """The policies, and a token for the API."""
        documents = self.folder / "documents.yaml"
        documents.write_text(DOCUMENTS)
        self.headrace("apply", "-f", str(documents))
        self.token = self.headrace("token", "create", "--admin", "chaos").split()[0]
        self.api = json.loads(self.tried("status", "--json").stdout)["api"]

    def down(self) -> None:
        """Stop everything."""
        self.tried("down", "--now")

    def running(self) -> RunningInstallation | None:
        """What the supervisor says."""
        return read_running(Installation(self.data))

    def pid(self, part: str) -> int:
        """The process of a part; 0 if it does not run now."""
        running = self.running()
        child = running.child(part) if running is not None else None
        return child.pid if child is not None and child.state == "running" else 0

    def signal(self, part: str, number: int) -> int:
        """Send it a signal; its process, 0 where it has none."""
        pid = self.pid(part)
        if pid:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                return 0
        return pid

    def endpoint(self) -> str:
        """Where NATS is."""
        return str(json.loads((self.data / "endpoint.json").read_text())["url"])

    async def operator(self) -> Connection:
        """A connection that may see everything."""
        login = read_login(self.data / "credentials" / "operator.json")
        return await connect_bus(self.endpoint(), login.name, login.password, name="chaos")

    async def is_well(self) -> bool:
        """Whether the gateway answers."""

        def ask() -> bool:
            try:
                with urllib.request.urlopen(f"{self.api}/healthz", timeout=1.0) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        return await asyncio.to_thread(ask)

    def end(self, *, keep: bool) -> None:
        """Leave nothing running."""
        running = self.running()
        self.down()
        if running is not None:
            for child in running.children:
                if child.pid:
                    try:
                        os.kill(child.pid, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


def as_json(text: str) -> Any:
    """What a command printed."""
    return json.loads(text)
