"""What a job can reach of the installation that it runs under, on the machine of the user who started it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from headrace.contracts.own_accounts import mapped
from headrace.contracts.values.account_numbers import COUNT, FIRST
from headrace.supervisor.installation import allow_traversal
from tests.patience import PATIENCE

KNOCKS = """
import os, socket
GET = "GET {} HTTP/1.1\\r\\nHost: localhost\\r\\nConnection: close\\r\\n\\r\\n"
TRIES = (GET.format("/metrics"), GET.format("/v1/jobs"), GET.format("/v1/status"), 'CONNECT {"verbose":false}\\r\\nPING\\r\\n')
def answer(port, tried):
    said = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            connection.sendall(tried.encode())
            while len(said) < 65536 and (piece := connection.recv(4096)):
                said += piece
    except OSError:
        pass
    return said
for port in map(int, os.environ["PORTS"].split()):
    for tried in TRIES:
        said = answer(port, tried)
        for sign in (b" 200 OK", b"PONG", b"+OK"):
            if sign in said:
                print("lets in", port, tried.split("\\r")[0])
        if b"Authorization Violation" in said:
            print("asks for a login")
        if b" 401 " in said.split(b"\\r")[0]:
            print("asks for a token")
"""
"""Asks everything that listens, without a login, and says what let it in, and how it was refused."""

NOBODY = 65_534
HEADRACE = (sys.executable, "-m", "headrace.cli")
DOCUMENTS = """
pools: [{name: hq, selector: {site: hq}}]
profiles: [{name: one, request: {gpu: 1}, pools: [hq]}]
groups: [{name: rnd, members: [alice, bob]}]
policies: [{name: rnd, group: rnd, profiles: [one], limit: {gpu: 8}}]
"""

LOOK = """
echo "uid $(id -u) $(id -g) $(id -G)"
echo "capabilities $(grep CapEff /proc/self/status | cut -f2)"
for file in $(find "$DATA" -type f -not -path "*/leases/$HEADRACE_JOB_ID*" 2>/dev/null); do
  [ -r "$file" ] && echo "reads $file"
done
for known in credentials/owner.json credentials/operator.json installation.json keys seals/key.pem identity logs nats/server.conf; do
  [ -r "$DATA/$known" ] && echo "reads $known"
done
for process in /proc/[0-9]*; do
  { tr '\\0' '\\n' < "$process/environ" | grep -q '^HEADRACE_NATS_PASSWORD='; } 2>/dev/null && echo "sees $process"
done
"$PYTHON" -m headrace.cli token create --admin --data "$DATA" >/dev/null 2>&1 && echo "has made itself an administrator"
for name in local.sock api.sock; do
  "$PYTHON" -c 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])' "$SOCKETS/$name" 2>/dev/null && echo "enters $name"
done
echo done
"""


class Machine:
    """One installation, and the commands of its owner."""

    def __init__(self, folder: Path, *, root: bool = True) -> None:
        self.data = folder / "data"
        self._who = {} if root or os.geteuid() != 0 else {"user": NOBODY, "group": NOBODY, "extra_groups": []}

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        env = os.environ | {"HEADRACE_DATA": str(self.data)} | more
        return subprocess.run(
            [*HEADRACE, *words], capture_output=True, text=True, timeout=PATIENCE, check=False, env=env, **self._who
        )  # type: ignore[call-overload,no-any-return]

    def done(self, *words: str) -> str:
        ran = self.run(*words)
        assert ran.returncode == 0, (words, ran.stdout, ran.stderr)
        return ran.stdout

    def ports(self) -> list[int]:
        """Where processes of the installation listen."""
        top = psutil.Process(json.loads((self.data / "running.json").read_text())["pid"])
        found = {
            at.laddr.port
            for process in (top, *top.children(recursive=True))
            for at in process.net_connections("tcp")
            if at.status == psutil.CONN_LISTEN
        }
        return sorted(found)

    def up(self, *words: str) -> None:
        self.done("up", "--detach", "--gpus", "2", "--labels", "site=hq", *words)
        (self.data.parent / "documents.yaml").write_text(DOCUMENTS)
        self.done("apply", "-f", str(self.data.parent / "documents.yaml"))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    try:
        yield made
    finally:
        made.run("down", "--now")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs jobs as others")
def test_a_job_of_an_installation_that_root_started_is_unknown_there(machine: Machine) -> None:
    if not mapped():
        pytest.skip("the numbers of users' own accounts are not mapped into this user namespace")
    machine.up()
    python = shutil.which("python3", path=os.defpath) or sys.executable
    assert json.loads(machine.done("status", "--json"))["jobs"] == "each user's run as an account of their own"
    local = Path(json.loads((machine.data / "endpoint.json").read_text())["local"])
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (local, local.parent)]
    assert modes == [0o600, 0o700]
    output = {}
    for user in ("alice", "bob"):
        job = machine.done(
            *("submit", "--queue", "rnd/one", "--user", user, "--env", f"DATA={machine.data}"),
            *("--env", f"SOCKETS={local.parent}"),
            *("--env", f"PYTHON={sys.executable}", "--wait", "--", "sh", "-c", LOOK),
        ).split()[0]
        output[user] = machine.done("logs", "--user", user, job).splitlines()
    uids = {user: int(lines[0].split()[1]) for user, lines in output.items()}
    assert uids["alice"] != uids["bob"]
    assert all(FIRST <= uid < FIRST + COUNT for uid in uids.values())
    for user, lines in output.items():
        assert lines == [f"uid {uids[user]} {uids[user]} {uids[user]}", "capabilities 0000000000000000", "done"]
    token = machine.done("token", "create", "--user", "alice").strip()
    assert token.count(".") == 2
    ports = machine.ports()
    knocks = ("--env", f"PORTS={' '.join(map(str, ports))}", "--wait", "--", python, "-c", KNOCKS)
    job = machine.done("submit", "--queue", "rnd/one", "--user", "alice", *knocks).split()[0]
    answers = machine.done("logs", "--user", "alice", job).splitlines()
    assert (len(ports) > 2, set(answers)) == (True, {"asks for a login", "asks for a token"})


def test_where_jobs_can_read_what_the_owner_can_no_other_user_is_let_in() -> None:
    """As on a laptop."""
    folder = Path(tempfile.mkdtemp(prefix="headrace-laptop-"))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
        allow_traversal(Path(sys.executable).resolve())
    machine = Machine(folder, root=False)
    try:
        machine.up()
        assert "so only the owner and administrators can log in" in json.loads(machine.done("status", "--json"))["jobs"]
        assert "jobs: not kept apart (they run as " in machine.done("status")
        job = machine.done("submit", "--queue", "rnd/one", "--user", "alice", "--wait", "--", "echo", "hello").split()[0]
        assert machine.done("logs", "--user", "alice", job) == "hello\n"
        for whom in (("--user", "alice"), ("--viewer",)):
            refused = machine.run("token", "create", *whom)
            assert refused.returncode == 1
            assert "`headrace up --jobs-are-trusted` allows others" in refused.stderr
        assert machine.done("token", "create", "--admin").count(".") == 2
        machine.done("down")
        refused = machine.run("up", "--detach", "--listen", "0.0.0.0", "--dev-ca")
        assert refused.returncode == 1
        assert "--listen: jobs here are not kept apart" in refused.stderr + refused.stdout
        machine.done("up", "--detach", "--jobs-are-trusted")
        token = machine.done("token", "create", "--user", "alice").strip()
        assert token.count(".") == 2
        machine.done("down")
        machine.done("up", "--detach", "--no-jobs-are-trusted")
        asked = machine.run("jobs", HEADRACE_TOKEN=token)
        assert (asked.returncode, "so only the owner and administrators can log in" in asked.stderr) == (1, True)
    finally:
        machine.run("down", "--now")
        shutil.rmtree(folder, ignore_errors=True)
