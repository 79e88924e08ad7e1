"""What `headrace top` takes of one core while jobs come and go on 8,000 GPUs, and while nothing happens.

The command runs in a terminal of its own (a pseudo-terminal, true colours), and watches a gateway that gives the answers of the API: 1,000
nodes of 8 GPUs, full, 200 queues of 50 tenants, one GPU of a hundred idle. They are computed before anything is timed: jobs end, jobs like
them are admitted, the allocator grants; each answer has the whole installation and the events since the one before it, as JSON in chunks of
16 KiB. Four answers a second are as many as are ever drawn; the API waits longer between two of them (what it would wait is printed). Timed
is the CPU time of the command's process.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import struct
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from google.protobuf.json_format import MessageToDict

from bench import calibrate
from bench.allocator_core import Core
from bench.options import options
from headrace.contracts import facts as f
from headrace.contracts.api import overview_pb2 as pb
from headrace.contracts.facts.records import Record
from headrace.contracts.values.durations import format_time
from headrace.governance.api.overview import PAUSE, PAUSE_FACTOR, overview_of
from headrace.views.audit_lines import lines_of
from headrace.views.job_index import queue_counts
from headrace.views.visibility import ALL_TENANTS

NODES, PENDING, SHAPES = 1_000, 2_000, 5
ANSWERS_A_SECOND = 4
IDLE = 100
"""One GPU of so many is held and idle."""
CHUNK = 16 * 1024
SETTLE = 5.0
"""Seconds from the first answer until the time is taken."""
GOAL = 10.0
"""Percent of one core while events come."""


class _Played(Core):
    """The core, whose records are kept as events."""

    def __post_init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        super().__post_init__()

    def fold(self, by: str, facts: tuple[f.AnyFact, ...]) -> None:
        super().fold(by, facts)
        record = Record(by=by, now=self.now, engine="bench", as_of=self.sequence - 1, facts=facts)
        for line in lines_of(record, self.sequence, ALL_TENANTS, self.state):
            event = {"sequence": str(line.sequence), "time": format_time(line.at), "by": line.by, "type": line.type}
            self.events.append(event | {"about": line.about, "text": line.text, "rule": line.rule})


class Answers(NamedTuple):
    """JSON of the first answer and of those that follow it; seconds that the API would wait between two; events in all of them."""

    first: bytes
    more: list[bytes]
    pause: float
    events: int


def prepare(seconds: float, events_a_second: float, nodes: int = NODES, seed: int = 1) -> Answers:
    """Enough answers for this long."""
    core = _Played(nodes, PENDING, SHAPES, at_once=1, seed=seed)
    core.events.clear()
    first, more, events, took = _answer(core, [])[0], [], 0, []
    for number in range(1, int(seconds * ANSWERS_A_SECOND) + 1):
        wanted = int(number * events_a_second / ANSWERS_A_SECOND) - events
        while len(core.events) < wanted:
            core.step()
        sent, core.events = core.events[:wanted], core.events[wanted:]
        events += len(sent)
        answer, spent = _answer(core, sent)
        more.append(answer)
        took.append(spent)
    return Answers(first, more, max(PAUSE, PAUSE_FACTOR * sorted(took)[len(took) // 2]), events)


def _answer(core: _Played, events: list[dict[str, Any]]) -> tuple[bytes, float]:
    """A line of the stream, and the seconds that its overview took to compute."""
    began = time.perf_counter()
    overview = overview_of(core.state, queue_counts(core.state), ALL_TENANTS, core.now)
    took = time.perf_counter() - began
    change = MessageToDict(pb.OverviewChange(sequence=overview.sequence, overview=overview), preserving_proto_field_name=True)
    return json.dumps(change | {"events": events}, separators=(",", ":")).encode() + b"\n", took


class _Gateway:
    """Answers `/v1/overview`, and plays the answers to the first that watches."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.began = asyncio.Event()
        self.go_on = asyncio.Event()
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):  # the command has ended
            await self._answer(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if b"overview:watch" in head:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
            await self._play(writer)
        else:
            body = json.dumps(json.loads(self._answers.first)["overview"]).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            await self._answer(reader, writer)

    async def _play(self, writer: asyncio.StreamWriter) -> None:
        await _send(writer, self._answers.first)
        self.began.set()
        await self.go_on.wait()
        clock = asyncio.get_running_loop()
        due = clock.time()
        for answer in self._answers.more:
            due += 1 / ANSWERS_A_SECOND
            await asyncio.sleep(due - clock.time())
            await _send(writer, answer)
        self.ended.set()


async def _send(writer: asyncio.StreamWriter, line: bytes) -> None:
    for start in range(0, len(line), CHUNK):
        piece = line[start : start + CHUNK]
        writer.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
        await writer.drain()


def _start(port: int, columns: int, rows: int) -> tuple[int, int]:
    """Process and terminal of the command."""
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        environment |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "HEADRACE_TOKEN": "none"}
        program = [sys.executable, "-m", "headrace.cli.main", "top", "--server", f"http://127.0.0.1:{port}"]
        os.execve(sys.executable, program, environment)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.set_blocking(terminal, False)
    return pid, terminal


async def watched(answers: Answers, seconds: float, columns: int = 200, rows: int = 50) -> dict[str, float]:
    """Percent of one core while nothing happens and while events come, and what is drawn then: bytes and updates a second."""
    gateway, drawn = _Gateway(answers), bytearray()
    server = await asyncio.start_server(gateway.serve, "127.0.0.1", 0)
    pid, terminal = _start(server.sockets[0].getsockname()[1], columns, rows)
    loop = asyncio.get_running_loop()

    def read() -> None:
        with suppress(OSError):  # the terminal of a command that has ended
            drawn.extend(os.read(terminal, 1 << 20))

    loop.add_reader(terminal, read)
    process = psutil.Process(pid)
    try:
        async with asyncio.timeout(60):
            await gateway.began.wait()
        await asyncio.sleep(SETTLE)
        calm = await _share(process, seconds / 3)
        gateway.go_on.set()
        await asyncio.sleep(SETTLE)
        before = len(drawn)
        busy = await _share(process, seconds)
        since = bytes(drawn[before:])
        figures = {"calm": calm, "busy": busy, "bytes": len(since) / seconds, "draws": since.count(b"live, record") / seconds}
        os.write(terminal, b"q")
        async with asyncio.timeout(30):
            await asyncio.to_thread(os.waitpid, pid, 0)
    finally:
        loop.remove_reader(terminal)
        if process.is_running():
            process.kill()
        os.close(terminal)
        server.close()
    if gateway.ended.is_set():
        raise RuntimeError("the answers ended before the time was over")
    return figures


async def _share(process: psutil.Process, seconds: float) -> float:
    """Percent of one core that a process takes over the next seconds."""
    began, spent = time.perf_counter(), sum(process.cpu_times()[:2])
    await asyncio.sleep(seconds)
    return float(100 * (sum(process.cpu_times()[:2]) - spent) / (time.perf_counter() - began))


def main() -> None:
    parser = options("bench.top", __doc__, "two minutes")
    parser.add_argument("--seconds", type=float, default=30.0, help="that are timed while events come")
    parser.add_argument("--events", type=float, default=40.0, help="a second")
    parser.add_argument("--columns", type=int, default=200, help="of the terminal")
    parser.add_argument("--rows", type=int, default=50, help="of the terminal")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    asked = parser.parse_args()
    answers = prepare(asked.seconds + 2 * SETTLE, asked.events)
    print(f"this machine: {calibrate.known()}, load {os.getloadavg()[0]:.1f}")
    print(
        f"{len(answers.first) / 1e6:.2f} MB an answer, {ANSWERS_A_SECOND} a second; the API would wait {answers.pause:.2f} s between two"
    )
    found = asyncio.run(watched(answers, asked.seconds, asked.columns, asked.rows))
    verdict = "met" if found["busy"] <= GOAL else "missed"
    print(f"nothing happens       {found['calm']:5.1f} % of one core")
    print(f"{asked.events:3.0f} events a second  {found['busy']:5.1f} % of one core (goal {GOAL:.0f} %, {verdict})")
    print(f"drawn then            {found['draws']:5.1f} times and {found['bytes'] / 1_000:.1f} KB a second")
    if asked.json:
        asked.json.write_text(json.dumps({"speed": str(calibrate.known()), **found}) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
