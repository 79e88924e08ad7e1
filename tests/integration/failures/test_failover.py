"""Two allocators on one ledger: an instance that dies or falls asleep is replaced, and nothing is decided twice."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.bus.process import DEPOSED
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Policy, PolicyProfile, Pool, Profile
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.records import Record, digest
from headrace.contracts.transport.codec import decode_record, encode
from headrace.contracts.transport.subjects import LEDGER_STREAM, ledger
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.ids import job_key, make_job_id
from headrace.domain.fold.ledger import FoldedLedger
from tests.integration.twins import Twins
from tests.patience import PATIENCE

if TYPE_CHECKING:
    from tests.integration.conftest import NatsServer

NAMES = ("allocator", "allocator-standby")


class Two(Twins):
    """The allocator twice, and a ledger on which the test writes for all other services."""

    def __init__(self, server: NatsServer, log: JetStreamLog, directory: Path, stack: ExitStack) -> None:
        super().__init__("allocator", server, directory, stack)
        self.log = log
        self._last: dict[str, str] = {}
        self._jobs = 0

    def event_count(self, name: str, event: str) -> int:
        return self.log_of(name).read_text().count(f'"event": "{event}"')

    async def state(self, by: str, *facts: f.AnyFact) -> None:
        now = time.time_ns() // 1_000
        prev = "" if by.startswith("node.") else self._last.get(by, "")
        payload = encode(Record(by=by, now=now, engine="test", as_of=0, prev=prev, facts=facts))
        await self.log.append(ledger(by), payload, None)
        self._last[by] = digest(payload)

    async def begin(self) -> None:
        await self.state(
            "governance",
            f.GroupAppliedV1(author="a.b", group=Group(name="all", members=("ann",))),
            f.PoolAppliedV1(author="a.b", pool=Pool(name="hall", selector={"site": "hq"})),
            f.ProfileAppliedV1(author="a.b", profile=Profile(name="one", request={GPU: GPU_UNITS}, pools=("hall",))),
            f.PolicyAppliedV1(author="a.b", policy=Policy(name="q", group="all", profiles=(PolicyProfile(name="one"),))),
        )
        devices = tuple(Device(device=f"gpu{number}", model="H100-80GB", memory=81_920) for number in range(16))
        node = f.NodeRegisteredV1(
            node="gpu01", labels={"site": "hq"}, devices=devices, cpu=64_000, memory=65_536, at=time.time_ns() // 1_000
        )
        await self.state("node.gpu01", node)

    async def admit(self) -> str:
        self._jobs += 1
        key = job_key("default", "ann", make_job_id(time.time_ns() // 1_000_000, self._jobs.to_bytes(10, "big")))
        await self.state("admission", f.JobAdmittedV1(job=key, policy="q", profile="one", request={GPU: GPU_UNITS}))
        return key

    async def fold(self) -> FoldedLedger:
        """Everything there is, read as every service reads it: a broken chain or a foreign record raises."""
        fold, tip = FoldedLedger(), await self.log.tip()
        reader = await self.log.read(0)
        while fold.sequence < tip:
            for message in await reader.batch(wait=PATIENCE):
                fold.read(message)
        await reader.close()
        return fold

    async def until_granted(self, key: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not (await self.fold()).state.jobs[key].leases:
            assert time.monotonic() < deadline, key
            await asyncio.sleep(0.05)

    async def grants(self) -> list[str]:
        found = []
        for sequence in range(1, await self.log.tip() + 1):
            message = await self.log.get(sequence)
            assert message is not None
            found += [fact.job for fact in decode_record(message.payload).facts if isinstance(fact, f.LeaseGrantedV1)]
        return found


@pytest.fixture
async def two(nats_server: NatsServer, tmp_path: Path) -> AsyncIterator[Two]:
    operator = await nats_server.connect("operator")
    await ensure_streams(operator)
    with ExitStack() as stack:
        found = Two(nats_server, JetStreamLog(operator, LEDGER_STREAM), tmp_path, stack)
        await found.begin()
        for name in NAMES:
            found.start(name)
        yield found
    await operator.close()


async def test_a_killed_allocator_is_replaced_and_one_that_wakes_up_again_does_no_harm(two: Two) -> None:
    active, waits = NAMES
    jobs = [await two.admit()]
    await two.until_granted(jobs[0])
    for _ in range(2):
        while two.event_count(waits, "caught_up") < 1:
            await asyncio.sleep(0.02)
        two.processes[active].kill()
        jobs.append(await two.admit())
        await two.until_granted(jobs[-1])
        two.processes[active].wait(PATIENCE)
        two.log_of(active).write_text("")
        two.start(active)
        active, waits = waits, active
    while two.event_count(waits, "caught_up") < 1:
        await asyncio.sleep(0.02)

    two.processes[active].send_signal(signal.SIGSTOP)
    jobs.append(await two.admit())
    await two.until_granted(jobs[-1])
    two.processes[active].send_signal(signal.SIGCONT)
    assert await asyncio.to_thread(two.processes[active].wait, PATIENCE) == DEPOSED
    jobs.append(await two.admit())
    await two.until_granted(jobs[-1])
    assert await two.grants() == jobs
