"""Many nodes in one process: each with the executor's own core, journal, ledger and link, and a connection of its own; jobs are made up.

A job whose command is `sleep SECONDS` runs for so long, any other ends at once with exit code 0; told to stop, it leaves at SIGTERM. A node
has as many devices as it is said to have, and finds them free when a job has left. So what is measured is everything but the start and the
end of processes.

`python -m bench.fleet DATA GROUP=COUNTxGPUS ...` runs until SIGTERM, or the end of its input: nodes GROUP-1, GROUP-2 ... with the
label `site=GROUP`, whose logins are in the installation's data directory. It says `ready` once every node has been told what it should run.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import structlog
import uvloop

from bench.options import options
from headrace.client.endpoint import read_login
from headrace.contracts.facts import AnyFact, NodeRegisteredV1
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.nodes import Device
from headrace.contracts.messages.orders import StartOrder
from headrace.contracts.messages.queries import LogsAnswer
from headrace.contracts.transport.subjects import node_writer
from headrace.contracts.values.amounts import CPU_UNITS
from headrace.nats_client.connection import Address
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.inbox import Inbox
from headrace.node_executor.core.node import Node
from headrace.node_executor.reporting.journal import Journal
from headrace.node_executor.reporting.ledger import FactWriter
from headrace.node_executor.reporting.link import BusListener, Link, LinkTimings
from headrace.node_executor.system.clock import clock
from headrace.supervisor.installation import Installation

ENGINE = "headrace-node/fleet"
PACE = LinkTimings(heartbeat=10.0, ask=60.0, silence=40.0)
"""Slower than a node's own: 500 nodes are not to spend what is measured on signs of life."""
GPU_MODEL, GPU_MEMORY = "H100-80GB", 80 * 1024
CPUS_PER_GPU, GIB_PER_GPU = 16, 256
TERMINATED, KILLED = 128 + 15, 128 + 9
READY = "ready"
READY_WITHIN, READY_EACH = 180.0, 0.2
"""Seconds within which a fleet is ready, and for each of its nodes."""
CONNECT_AT_ONCE = 50
FILES_EACH, FILES_BESIDE = 2, 100
"""Open files of each node, its connection and its journal, and those of the process."""


class Group(NamedTuple):
    """Nodes alike: `name`-1 to `name`-`count` with the label `site=name`."""

    name: str
    count: int
    gpus: int

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(f"{self.name}-{number}" for number in range(1, self.count + 1))


def group(text: str) -> Group:
    """`hq=500x8`: 500 nodes with 8 GPUs each. Raises `ValueError`."""
    match = re.fullmatch(r"([a-z][a-z0-9-]{0,30})=([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if match is None:
        raise ValueError(f"{text!r} is no group of nodes; write name=COUNTxGPUS, as in hq=500x8")
    return Group(match[1], int(match[2]), int(match[3]))


class Hands:
    """Does what the core of one node asks for, without processes."""

    def __init__(self, node: Node, journal: Journal, state: Callable[[AnyFact], None]) -> None:
        self._node, self._journal, self._state = node, journal, state
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox(node, lambda action: self._performs[type(action)](action))
        self._ends: dict[str, asyncio.TimerHandle] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._performs: dict[type[v.Action], Callable[[Any], None]] = {
            v.Spawn: self._spawn,
            v.Unspawn: lambda _action: None,
            v.Notify: self._notify,
            v.RunCallback: lambda action: self.handle(v.CallbackEnded(clock(), action.lease, "exit 0")),
            v.StopCallback: lambda _action: None,
            v.Suspend: lambda action: self.handle(v.CannotSuspend(clock(), action.lease, "this node cannot")),
            v.Resume: lambda _action: None,
            v.Terminate: lambda action: self._exited(action.lease, TERMINATED),
            v.Kill: lambda action: self._exited(action.lease, KILLED),
            v.Verify: lambda action: self.handle(v.DevicesFree(clock(), action.lease)),
            v.SetTimer: self._set_timer,
            v.State: lambda action: self._state(action.fact),
            v.Release: self._release,
        }

    def handle(self, event: v.Event) -> None:
        """Something happened."""
        self._inbox.handle(event)

    def _spawn(self, action: v.Spawn) -> None:
        order = action.order
        self._journal.began(order)
        self.handle(v.Started(clock(), order.lease, "simulated"))
        lasts = duration(order)
        if lasts > 0:
            self._ends[order.lease] = self._loop.call_later(lasts, self._exited, order.lease, 0)
        else:
            self._exited(order.lease, 0)

    def _exited(self, lease: str, code: int) -> None:
        ends = self._ends.pop(lease, None)
        if ends is not None:
            ends.cancel()
        now = clock()
        self.handle(v.Exited(now, lease, code, seen=now))

    def _notify(self, action: v.Notify) -> None:
        lease = self._node.leases[action.lease]
        if lease.ladder is not None:
            self._journal.note_stop_order(action.lease, lease.ladder, clock())
        self.handle(v.Notified(clock(), action.lease, hooked=False))

    def _set_timer(self, action: v.SetTimer) -> None:
        if action.lease in self._timers:
            self._timers[action.lease].cancel()
        delay = max(0, action.deadline - clock()) / 1e6
        self._timers[action.lease] = self._loop.call_later(delay, self._timer_fired, action)

    def _timer_fired(self, action: v.SetTimer) -> None:
        self.handle(v.TimerFired(max(clock(), action.deadline), action.lease, action.deadline))

    def _release(self, action: v.Release) -> None:
        timer = self._timers.pop(action.lease, None)
        if timer is not None:
            timer.cancel()


def duration(order: StartOrder) -> float:
    """How long a job runs, seconds."""
    if len(order.command) == 2 and order.command[0] == "sleep":
        return float(order.command[1])
    return 0.0


def registration(name: str, site: str, gpus: int) -> NodeRegisteredV1:
    """What a node of the fleet states about itself."""
    return NodeRegisteredV1(
        node=name,
        labels={"site": site},
        devices=tuple(Device(device=f"gpu{number}", model=GPU_MODEL, memory=GPU_MEMORY) for number in range(gpus)),
        cpu=CPUS_PER_GPU * gpus * CPU_UNITS,
        memory=GIB_PER_GPU * gpus * 1024,
        executor=ENGINE,
        isolation="simulated",
        reads=LEVEL,
        at=clock(),
    )


async def serve(name: str, group: Group, address: Address, folder: str, ready: asyncio.Event) -> None:
    """One node, until cancelled."""
    journal = Journal(f"{folder}/{name}")
    link = Link(name, address, PACE, clock)
    ledger = FactWriter(link, node_writer(name), ENGINE, clock, journal)
    node = Node(registration(name, group.name, group.gpus))
    hands = Hands(node, journal, ledger.state)

    def answered(answer: Any) -> None:
        hands.handle(v.Answered(clock(), answer))
        ready.set()

    listener = BusListener(
        pushed=lambda orders: hands.handle(v.Pushed(clock(), orders)),
        answered=answered,
        returned=lambda: hands.handle(v.Returned(clock())),
        logs=lambda _request: LogsAnswer(ended=True),
    )
    try:
        await link.run(listener, ledger, lambda: len(node.leases))
    finally:
        journal.close()


async def run(data: Path, groups: Sequence[Group]) -> None:
    """All nodes, until SIGTERM."""
    home = Installation(data)
    url = json.loads(home.endpoint.read_text("utf-8"))["url"]
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    loop.add_reader(sys.stdin.fileno(), stop.set)  # nothing is ever said there: it ends with who started us
    nodes = [(name, group) for group in groups for name in group.nodes]
    tasks = []
    with tempfile.TemporaryDirectory(prefix="headrace-fleet-") as folder:
        for start in range(0, len(nodes), CONNECT_AT_ONCE):
            waiting = []
            for name, group in nodes[start : start + CONNECT_AT_ONCE]:
                login = read_login(home.credentials / f"node-{name}.json")
                waiting.append(ready := asyncio.Event())
                tasks.append(asyncio.create_task(serve(name, group, Address(url, login.name, login.password), folder, ready)))
            await asyncio.gather(*(ready.wait() for ready in waiting))
        print(READY, flush=True)
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([stopping, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in (stopping, *tasks):
            task.cancel()
        await asyncio.gather(stopping, *tasks, return_exceptions=True)


@contextmanager
def fleet(folder: Path, groups: Sequence[Group]) -> Iterator[int]:
    """The process id of a running fleet in the installation in `folder`, whose logins it must have had when it was started."""
    arguments = [f"{group.name}={group.count}x{group.gpus}" for group in groups]
    log = folder / "logs" / "fleet.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.fleet", str(folder), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
    try:
        os.set_blocking(process.stdout.fileno(), False)  # type: ignore[union-attr]
        _await_ready(process, log, READY_WITHIN + READY_EACH * sum(group.count for group in groups))
        yield process.pid
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10.0)
        process.kill()
        process.wait()


def _await_ready(process: subprocess.Popen[bytes], log: Path, within: float) -> None:
    deadline, output = time.monotonic() + within, b""
    while READY.encode() not in output:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the fleet is not there: {log.read_text('utf-8', 'replace')[-500:]}")
        output += process.stdout.read() or b""  # type: ignore[union-attr]
        time.sleep(0.05)


def main() -> int:
    """Be a fleet."""
    parser = options("bench.fleet", __doc__, "as long as it is left running")
    parser.add_argument("data", type=Path, help="the data directory of the installation")
    parser.add_argument(
        "groups", nargs="+", type=group, metavar="GROUP=COUNTxGPUS", help="so many nodes and GPUs, labelled site=GROUP"
    )
    arguments = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))  # standard output is read until `ready` only
    wanted = FILES_EACH * sum(one.count for one in arguments.groups) + FILES_BESIDE
    if most < wanted:
        parser.error(
            f"so many nodes need {wanted:,} open files, and the limit is {most:,}: raise it (ulimit -Hn), or take fewer"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run(arguments.data, arguments.groups))
    return 0


if __name__ == "__main__":
    sys.exit(main())
