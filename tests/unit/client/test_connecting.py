"""What a command that asks one question imports: it answers at once only without what services, NATS and an event loop need."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading

import pytest

from headrace.contracts.facts.levels import LEVEL
from headrace.supervisor.installation import Installation
from headrace.supervisor.processes.pidfile import ChildView, Lock, RunningInstallation, write_running

JOB = "01jd3v8k5w2m4x6z8b0c2e4g6h"
HEAVY = frozenset(
    {
        *("aiohttp", "asyncio", "asyncpg", "cryptography", "google", "grpc", "jwt", "nats", "numpy", "opentelemetry", "psutil"),
        *("pyarrow", "rich", "ssl", "structlog", "textual", "uvloop"),
    }
)
"""Each of these takes 5 to 500 ms of CPU time."""
OURS = ("headrace.contracts.facts", "headrace.domain", "headrace.nats_client", "headrace.supervisor.installation")
"""Ours that take as long."""
PROGRAM = """
import json, sys
from headrace.cli.main import main
code = main(sys.argv[1:])
sys.stdout.flush()
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""
ANSWERS = {
    "/v1/me": {"tenant": "default", "handle": "root"},
    f"/v1/tenants/default/jobs/{JOB}": {"name": f"tenants/default/jobs/{JOB}", "user": "root", "state": "succeeded"},
    f"/v1/tenants/default/jobs/{JOB}:explain": {"name": f"tenants/default/jobs/{JOB}", "user": "root", "state": "succeeded"},
    "/v1/status": {"tip": "7", "services": [{"name": "feed", "answered": True, "sequence": "7", "reads": LEVEL}]},
    "/v1/tenants/default/statement": {
        "text": json.dumps(
            {"tenant": "default", "month": "2026-11", "timezone": "UTC", "final": False, "reaches": "", "currency": "EUR"}
            | {"lines": [], "by_kind": {}, "total": "0", "lost_to_preemption": "0"}
        )
    },
    "/v1/audit/state": {"sequence": "7", "tip": "7"},
    "/v1/audit/state:diff": {"before": "1", "after": "7"},
    "/v1/nodes/gpu01:cordon": {"changes": [{"kind": "node", "name": "gpu01", "action": "update"}], "applied": True},
}
"""Of each path; others are answered with an empty object."""


def serve(listening: socket.socket) -> None:
    """Answer calls one after the other until the socket is closed."""
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection, connection.makefile("rb") as reading:
            while line := reading.readline():
                path = line.split()[1].decode().partition("?")[0]
                length = 0
                while (header := reading.readline()) not in (b"\r\n", b""):
                    name, _, value = header.decode().partition(":")
                    length = int(value) if name.lower() == "content-length" else length
                reading.read(length)
                body = json.dumps(ANSWERS.get(path, {})).encode()
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """The data directory of an installation whose API is played by a thread of the test."""
    folder = tmp_path_factory.mktemp("data")
    installation = Installation(folder)
    installation.prepare()
    installation.owner()
    local = str(folder / "l.sock")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(local)
    listening.listen()
    installation.write_endpoint("nats://127.0.0.1:1", "http://127.0.0.1:1", local)
    playing = threading.Thread(target=serve, args=(listening,), daemon=True)
    playing.start()
    children = (ChildView(name="feed", state="running", pid=os.getpid()),)
    with Lock(installation):
        write_running(installation, RunningInstallation(pid=os.getpid(), since=1, ready=True, children=children))
        yield folder
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


def ran(data, line):
    """Exit code of a command, and the names of the modules that it has imported."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "COVERAGE_"))}
    argv = [sys.executable, "-c", PROGRAM, *line.split()]
    done = subprocess.run(
        argv, env=environment | {"HEADRACE_DATA": str(data)}, capture_output=True, text=True, check=False, timeout=60
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0, done.stderr
    return set(modules)


@pytest.mark.parametrize(
    "line",
    [
        *("status", "jobs", "jobs --json", f"job {JOB}", f"why {JOB}", f"logs {JOB}", "queues", "pools", "nodes"),
        *(
            "token list",
            "usage",
            "statement",
            "audit log",
            "audit replay --at 7",
            "audit diff 1 7",
            "burst list",
            "burst offers",
        ),
        *("node cordon gpu01", "context list"),
    ],
)
def test_a_command_that_asks_imports_neither_nats_nor_an_event_loop_nor_facts(data, line):
    modules = ran(data, line)
    heavy = {name for name in modules if name.partition(".")[0] in HEAVY}
    assert heavy | {name for name in modules if name.startswith(OURS)} == set()
