"""A real executor with real jobs on a real bus; only the feed is played by the test."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headrace.bus.connection import Connection
from headrace.bus.jetstream import JetStreamLog
from headrace.bus.log import LogUnavailable
from headrace.bus.streams import ensure_streams
from headrace.contracts.codec import decode, decode_record, encode
from headrace.contracts.facts import (
    AnyFact,
    CheckpointRegisteredV1,
    LeaseEndedV1,
    LeaseRungV1,
    LeaseStartedV1,
    NodeRegisteredV1,
    NodeStoppedV1,
)
from headrace.contracts.facts.fact import DeviceShare, Ladder
from headrace.contracts.facts.nodes import Device
from headrace.contracts.orders import Heartbeat, LogsAnswer, LogsRequest, NodeAnswer, Orders, StartOrder, StopOrder
from headrace.contracts.records import digest
from headrace.node_executor import leftovers
from tests.patience import PATIENCE

NODE = "gpu01"
LADDER = Ladder(cause="preempted", callback_grace=10_000_000, term_grace=10_000_000, preemptor="acme.bob.x")


class Feed:
    """What the feed does for one node: keeps what it should run, tells it, answers it, and reads what it states."""

    def __init__(self, feed: Connection, operator: Connection) -> None:
        self._connection = feed
        self._log = JetStreamLog(operator, "LEDGER")
        self._numbers = count(1)
        self._sequences = count(100)
        self._last = (0, "")
        self.starts: dict[str, StartOrder] = {}
        self.stops: dict[str, StopOrder] = {}
        self.facts: list[AnyFact] = []
        self.heartbeats: list[Heartbeat] = []

    async def begin(self) -> None:
        await self._connection.subscribe("hr.query.orders.node.*", cb=self._answer)
        await self._connection.subscribe("hr.telemetry.gpu01.heartbeat", cb=self._beat)

    async def read(self) -> None:
        """Fold the ledger, through whatever befalls the server."""
        position = 0
        while True:
            try:
                reader = await self._log.read(position)
                while True:
                    for message in await reader.batch():
                        position = message.sequence
                        self._fold(message.sequence, message.payload)
            except LogUnavailable:
                await asyncio.sleep(0.05)

    async def start(self, number: int, *command: str, devices: tuple[str, ...] = (), **fields: Any) -> str:
        """Order a job; its key."""
        job = f"acme.alice.01j9z3k4m5n6p7q8r9s0t1v2{number:02d}"
        shares = tuple(DeviceShare(device=device, units=126_000) for device in devices)
        granted = next(self._sequences)
        order = StartOrder(
            lease=f"{job}/1/0", job=job, attempt=1, granted=granted, devices=shares, amounts={}, command=command, **fields
        )
        self.starts[order.lease] = order
        await self._push(starts=(order,))
        return job

    async def stop(self, job: str, ladder: Ladder = LADDER) -> None:
        lease = f"{job}/1/0"
        self.stops[lease] = StopOrder(lease=lease, ordered=next(self._sequences), ladder=ladder)
        await self._push(stops=(self.stops[lease],))

    async def read_log(self, job: str) -> LogsAnswer:
        message = await self._connection.ask("hr.logs.gpu01", encode(LogsRequest(job=job, attempt=1)))
        return decode(message.data, LogsAnswer)

    async def say(self, payload: bytes) -> None:
        await self._connection.publish("hr.orders.gpu01", payload)

    def of(self, job: str, kind: type[Any]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind) and fact.job == job]

    def count(self, kind: type[AnyFact]) -> int:
        return sum(isinstance(fact, kind) for fact in self.facts)

    async def started(self, job: str) -> LeaseStartedV1:
        await until(lambda: self.of(job, LeaseStartedV1))
        return self.of(job, LeaseStartedV1)[0]

    async def ended(self, job: str) -> LeaseEndedV1:
        await until(lambda: self.of(job, LeaseEndedV1))
        return self.of(job, LeaseEndedV1)[0]

    def rungs(self, job: str) -> list[tuple[str, str]]:
        return [(fact.rung, fact.result) for fact in self.of(job, LeaseRungV1)]

    async def _push(self, starts: tuple[StartOrder, ...] = (), stops: tuple[StopOrder, ...] = ()) -> None:
        orders = Orders(node=NODE, number=next(self._numbers), through=next(self._sequences), starts=starts, stops=stops)
        await self._connection.publish("hr.orders.gpu01", encode(orders))

    def _fold(self, sequence: int, payload: bytes) -> None:
        record = decode_record(payload)
        assert record.by == "node.gpu01"
        self._last = (sequence, digest(payload))
        self.facts.extend(record.facts)
        for fact in record.facts:
            if isinstance(fact, LeaseEndedV1):
                self.starts.pop(f"{fact.job}/1/0", None)
                self.stops.pop(f"{fact.job}/1/0", None)

    async def _answer(self, message: Any) -> None:
        starts = tuple(order for lease, order in self.starts.items() if lease not in self.stops)
        answer = NodeAnswer(
            node=NODE,
            through=next(self._sequences),
            last_record=self._last[0],
            last_digest=self._last[1],
            starts=starts,
            stops=tuple(self.stops.values()),
        )
        await message.respond(encode(answer))

    async def _beat(self, message: Any) -> None:
        self.heartbeats.append(decode(message.data, Heartbeat))


class Executor:
    """The process under test; it can be killed and started again on the same directory."""

    def __init__(self, directory: Path, server: Any) -> None:
        self.data = directory / "node"
        self._log = directory / "executor.log"
        self._server = server
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str) -> None:
        words = ["--name", NODE, "--data", str(self.data), "--labels", "site=hq", "--devices", "sim:2xH100-80GB"]
        pace = ["--cpus", "8", "--memory", "64GiB", "--heartbeat", "100ms", "--ask-every", "200ms", "--stop-grace", "5s"]
        login = {
            "HEADRACE_NATS_URL": self._server.url,
            "HEADRACE_NATS_USER": "node-gpu01",
            "HEADRACE_NATS_PASSWORD": "secret-gpu01",
        }
        with self._log.open("ab") as log:
            command = [sys.executable, "-m", "headrace.node_executor", "run", *words, *pace, *arguments]
            self.process = subprocess.Popen(command, env=os.environ | login, stderr=log)

    async def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        code = await asyncio.to_thread(self.process.wait, PATIENCE)
        self.process = None
        return code

    @property
    def jobs(self) -> list[int]:
        return leftovers.started_from(f"{self.data}/leases")


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.fixture
async def feed(login) -> AsyncIterator[Feed]:
    operator = await login("operator")
    await ensure_streams(operator)
    one = Feed(await login("feed"), operator)
    await one.begin()
    reading = asyncio.create_task(one.read())
    yield one
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)


@pytest.fixture
async def node(feed, nats_server, tmp_path) -> AsyncIterator[Executor]:
    one = Executor(tmp_path, nats_server)
    one.start()
    try:
        await until(lambda: feed.count(NodeRegisteredV1))
        yield one
    finally:
        if one.process is not None:
            one.process.kill()
            await asyncio.to_thread(one.process.wait, PATIENCE)
        await asyncio.to_thread(leftovers.sweep, f"{one.data}/leases")


async def test_a_node_reports_itself_and_shows_that_it_lives(feed, node) -> None:
    registered = feed.facts[0]
    assert registered == NodeRegisteredV1(
        node=NODE,
        labels={"site": "hq"},
        devices=tuple(Device(device=f"gpu{number}", model="H100-80GB", memory=81920) for number in (0, 1)),
        cpu=8000,
        memory=65536,
        executor=registered.executor,
        isolation="simulated",
        at=registered.at,
    )
    await until(lambda: len(feed.heartbeats) >= 2)
    assert feed.heartbeats[0].node == NODE


async def test_a_job_runs_is_stated_and_its_output_can_be_read(feed, node) -> None:
    script = 'echo "$HEADRACE_ATTEMPT $HEADRACE_DEVICES $CUDA_VISIBLE_DEVICES $A ${HEADRACE_NATS_PASSWORD:-none}"; exit 3'
    job = await feed.start(0, "sh", "-c", script, devices=("gpu1",), env={"A": "b"})
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.stopping, ended.finished) == ("exited", 3, False, False)
    started = await feed.started(job)
    assert started.isolation == "simulated"
    assert started.at <= ended.exited_at <= ended.at
    assert await feed.read_log(job) == LogsAnswer(data="1 gpu1 1 b none\n", next_offset=16, ended=True)


async def test_what_cannot_run_ends_with_the_reason(feed, node) -> None:
    job = await feed.start(0, "no-such-command")
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.message) == ("exited", 127, "command not found: no-such-command")
    assert feed.of(job, LeaseStartedV1) == []


async def test_a_hundred_jobs_are_all_started_and_ended_exactly_once(feed, node) -> None:
    jobs = [await feed.start(number, "true") for number in range(100)]
    for job in jobs:
        assert (await feed.ended(job)).exit_code == 0
    assert feed.count(LeaseStartedV1) == feed.count(LeaseEndedV1) == 100
    await until(lambda: not list((node.data / "leases").iterdir()))


async def test_a_preempted_job_saves_by_its_abort_command_and_leaves_at_sigterm(feed, node) -> None:
    script = "trap 'echo asked; exit 0' TERM; echo running; while :; do sleep 0.01; done"
    save = 'cat "$HEADRACE_PREEMPT_FILE"; echo weights > "$HEADRACE_CHECKPOINT_DIR/1.pt"; test -n "$HEADRACE_PREEMPT_DEADLINE"'
    job = await feed.start(0, "sh", "-c", script, on_abort=("sh", "-c", save))
    await feed.started(job)
    await until_printed(feed, job, "running\n")
    await feed.stop(job)
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.stopping, ended.finished) == ("exited", 0, True, False)
    assert feed.rungs(job) == [("told", "told"), ("callback", "exit 0"), ("term", "left"), ("verify", "free")]
    assert [fact.uri for fact in feed.of(job, CheckpointRegisteredV1)] == [f"{node.data}/checkpoints/{job}.1/1.pt"]
    printed = (await feed.read_log(job)).data
    assert printed.startswith('running\n{"reason":"preempted","preemptor":"acme.bob.x","deadline":')
    assert printed.endswith("}asked\n")


async def test_a_job_that_ignores_everything_is_killed_with_its_children(feed, node) -> None:
    script = "trap '' TERM; sh -c 'trap \"\" TERM; while :; do sleep 0.01; done' & echo running; while :; do sleep 0.01; done"
    job = await feed.start(0, "sh", "-c", script, on_abort=("sleep", "1000"))
    await until_printed(feed, job, "running\n")
    await feed.stop(job, Ladder(cause="cancelled", callback_grace=50_000, term_grace=50_000, then="cancel"))
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code) == ("killed", 137)
    assert feed.rungs(job) == [
        ("told", "told"),
        ("callback", "timed out, killed"),
        ("term", "timed out"),
        ("kill", "gone"),
        ("verify", "free"),
    ]
    await until(lambda: not node.jobs)


async def test_a_python_job_saves_in_its_own_hook_registers_and_may_call_itself_finished(feed, node) -> None:
    script = """
from headrace.client import job
import time
@job.on_abort
def save():
    path = job.checkpoint_dir / "model.pt"
    path.write_text("weights")
    job.checkpointed(path, 40)
    job.finished()
print("running", flush=True)
time.sleep(1000)
"""
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    job = await feed.start(0, sys.executable, "-c", script, env=env)
    await until_printed(feed, job, "running\n")
    await feed.stop(job)
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.stopping, ended.finished) == ("exited", 0, True, True)
    assert feed.rungs(job) == [("told", "told"), ("callback", "hook: left"), ("verify", "free")]
    assert [(Path(fact.uri).name, fact.step) for fact in feed.of(job, CheckpointRegisteredV1)] == [("model.pt", 40)]


async def test_a_checkpoint_is_noticed_while_the_job_runs(feed, node) -> None:
    job = await feed.start(0, "sh", "-c", 'echo 1 > "$HEADRACE_CHECKPOINT_DIR/1.pt"; sleep 1000')
    await until(lambda: feed.of(job, CheckpointRegisteredV1))
    assert feed.of(job, LeaseEndedV1) == []


async def test_a_lease_that_is_no_longer_listed_is_stopped(feed, node) -> None:
    job = await feed.start(0, "sleep", "1000")
    await feed.started(job)
    feed.starts.clear()
    ended = await feed.ended(job)
    assert (ended.exit_code, ended.stopping) == (143, True)
    await until(lambda: feed.count(NodeRegisteredV1) == 2)


async def test_what_makes_no_sense_on_the_wire_is_survived(feed, node) -> None:
    for payload in (b"", b"{", b"[" * 100_000, b'{"node":7}', b"\xff" * 1000, b'{"node":"gpu02","number":1,"through":999999}'):
        await feed.say(payload)
    job = await feed.start(0, "true")
    assert (await feed.ended(job)).exit_code == 0


async def test_a_bus_that_goes_away_costs_time_and_no_fact(feed, node, nats_server) -> None:
    release = node.data.parent / "release"
    job = await feed.start(0, "sh", "-c", f"while [ ! -e {release} ]; do sleep 0.01; done; exit 5")
    await feed.started(job)
    nats_server.kill()
    release.touch()
    await until(lambda: not node.jobs)
    nats_server.start()
    assert (await feed.ended(job)).exit_code == 5
    after = await feed.start(1, "true")
    assert (await feed.ended(after)).exit_code == 0
    assert [len(feed.of(key, LeaseEndedV1)) for key in (job, after)] == [1, 1]


async def test_when_the_executor_is_killed_its_jobs_run_on_and_the_next_one_takes_them_over(feed, node) -> None:
    """R32, and nothing runs twice."""
    script = "while [ ! -e $HEADRACE_CONTROL_DIR/../release ]; do sleep 0.01; done; echo on; exit 4"
    job = await feed.start(0, "sh", "-c", f"echo begun; {script}", devices=("gpu0",))
    meanwhile = await feed.start(1, "sh", "-c", "while [ ! -e $HEADRACE_CONTROL_DIR/../early ]; do sleep 0.01; done; exit 5")
    await feed.started(job)
    await feed.started(meanwhile)
    await node.end(signal.SIGKILL)
    (node.data / "leases" / "early").touch()
    await until(lambda: not [pid for pid in node.jobs if f"{meanwhile}.1.0" in Path(f"/proc/{pid}/environ").read_text()])
    ended_at = time.time() * 1e6
    node.start()
    early = await feed.ended(meanwhile)
    assert (early.outcome, early.exit_code) == ("exited", 5)
    assert early.exited_at < ended_at < early.at
    await until(lambda: feed.count(NodeRegisteredV1) == 2)
    assert feed.facts[-1].holding == (f"{job}/1/0",) or feed.of(job, LeaseEndedV1)
    (node.data / "leases" / "release").touch()
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code) == ("exited", 4)
    assert (await feed.read_log(job)).data == "begun\non\n"
    assert feed.count(LeaseStartedV1) == feed.count(LeaseEndedV1) == 2
    await until(lambda: not list((node.data / "kept").iterdir()))


async def test_a_ladder_goes_on_where_it_was_when_the_executor_was_killed(feed, node) -> None:
    """R28: the callback that runs is waited for, not run again."""
    script = "trap 'exit 0' TERM; echo running; while :; do sleep 0.01; done"
    save = "echo saving; while [ ! -e $HEADRACE_CONTROL_DIR/../release ]; do sleep 0.01; done; echo saved"
    job = await feed.start(0, "sh", "-c", script, on_abort=("sh", "-c", save))
    await until_printed(feed, job, "running\n")
    await feed.stop(job)
    await until_printed(feed, job, "running\nsaving\n")
    await node.end(signal.SIGKILL)
    node.start()
    (node.data / "leases" / "release").touch()
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.stopping) == ("exited", 0, True)
    told = [("told", "told"), ("told", "the executor was restarted")]
    assert feed.rungs(job) == [*told, ("callback", "exit 0"), ("term", "left"), ("verify", "free")]
    assert (await feed.read_log(job)).data == "running\nsaving\nsaved\n"


async def test_a_job_whose_keeper_is_killed_is_ended_whole_and_lost(feed, node) -> None:
    job = await feed.start(0, "sh", "-c", "setsid sleep 1000 & sleep 1000")
    await feed.started(job)
    await until(lambda: len(node.jobs) == 3)
    keeper = int((node.data / "kept" / f"{job}.1.0").read_text().split()[1])
    os.kill(keeper, signal.SIGKILL)
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code) == ("lost", None)
    assert node.jobs == []


async def test_facts_of_a_node_without_a_bus_outlive_its_executor_too(feed, node, nats_server) -> None:
    release = node.data.parent / "release"
    job = await feed.start(0, "sh", "-c", f"while [ ! -e {release} ]; do sleep 0.01; done; exit 6")
    await feed.started(job)
    nats_server.kill()
    release.touch()
    await until(lambda: not node.jobs)
    await until(lambda: b'"lease.ended.v1"' in (node.data / "journal").read_bytes())
    await node.end(signal.SIGKILL)
    nats_server.start()
    node.start()
    assert (await feed.ended(job)).exit_code == 6
    await until(lambda: feed.count(NodeRegisteredV1) == 2)
    assert (feed.count(LeaseStartedV1), feed.count(LeaseEndedV1)) == (1, 1)


async def test_an_executor_that_is_told_to_stop_leaves_its_jobs_to_the_next_one(feed, node) -> None:
    job = await feed.start(0, "sh", "-c", "while [ ! -e $HEADRACE_CONTROL_DIR/../release ]; do sleep 0.01; done; exit 7")
    await feed.started(job)
    assert await node.end(signal.SIGTERM) == 0
    assert len(node.jobs) >= 1
    node.start()
    await until(lambda: feed.count(NodeRegisteredV1) == 2)
    (node.data / "leases" / "release").touch()
    assert (await feed.ended(job)).exit_code == 7
    assert feed.count(NodeStoppedV1) == 0


async def test_an_executor_that_is_told_so_ends_its_jobs_when_it_stops_says_so_and_goes(feed, node) -> None:
    await node.end(signal.SIGTERM)
    node.start("--on-stop", "end")
    await until(lambda: feed.count(NodeRegisteredV1) == 2)
    job = await feed.start(0, "sh", "-c", "trap 'exit 9' TERM; echo running; while :; do sleep 0.01; done")
    await until_printed(feed, job, "running\n")
    assert await node.end(signal.SIGTERM) == 0
    ended = await feed.ended(job)
    assert (ended.outcome, ended.exit_code, ended.message) == ("lost", 9, "executor stopped")
    await until(lambda: feed.count(NodeStoppedV1))
    assert isinstance(feed.facts[-1], NodeStoppedV1)
    node.start()
    await until(lambda: feed.count(NodeRegisteredV1) == 3)


async def test_an_executor_that_has_to_go_at_once_takes_everything_with_it(feed, node) -> None:
    job = await feed.start(0, "sh", "-c", "trap '' TERM; echo running; while :; do sleep 0.01; done")
    await until_printed(feed, job, "running\n")
    assert await node.end(signal.SIGQUIT) == 0
    assert node.jobs == []
    assert (await feed.ended(job)).outcome == "lost"


async def test_two_executors_on_one_directory_are_one_too_many(feed, node, tmp_path) -> None:
    command = [sys.executable, "-c", "import sys; from headrace.node_executor.tenure import Tenure; Tenure(sys.argv[1], 0.0)"]
    done = await asyncio.to_thread(subprocess.run, [*command, str(node.data)], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].endswith(f"another executor uses {node.data}; stop it, or give this one another --data")


async def until_printed(feed: Feed, job: str, text: str) -> None:
    async with asyncio.timeout(PATIENCE):
        while (await feed.read_log(job)).data != text:
            await asyncio.sleep(0.01)
