from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.accounting.sampling import Sampling
from headrace.contracts import facts as f
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.messages.orders import DeviceSample, Samples
from headrace.contracts.messages.utilization import IdleHolder, IdleNode, NodeLoad, UtilizationAnswer
from headrace.contracts.transport.codec import encode
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.views.visibility import ALL_TENANTS
from tests.unit.accounting.conftest import GPU, Story

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


class Clock:
    now = 10_000_000 * SECOND

    def __call__(self) -> int:
        return self.now


class Written:
    """A database that notes what is done on it."""

    def __init__(self) -> None:
        self.statements: list[tuple[Any, ...]] = []

    async def run(self, work: Callable[[Any], Awaitable[None]]) -> None:
        await work(self)

    def transaction(self) -> Written:
        return self

    async def __aenter__(self) -> None:
        pass

    async def __aexit__(self, *_: object) -> None:
        pass

    async def execute(self, sql: str, *arguments: Any) -> str:
        self.statements.append((sql.split("headrace.")[1].split(maxsplit=1)[0], *arguments))
        return "UPDATE 1"


@pytest.fixture
def story() -> Story:
    """A job of alice on gpu0 and gpu1 of n1, and n2 without jobs."""
    story = Story()
    story.policy(0, "rnd", 4)
    key = story.submit(1, 1, "rnd", 2, name="tune")
    story.grant(1, key, 2, devices=tuple(DeviceShare(device=f"gpu{n}", units=GPU) for n in (0, 1)))
    story.start(1, key)
    devices = (f.nodes.Device(device="gpu0", model="H100", memory=80_000),)
    story.append_facts(
        1, "node.n2", f.NodeRegisteredV1(node="n2", labels={"site": "hq"}, devices=devices, cpu=8_000, memory=8, at=0)
    )
    return story


def sampling(story: Story, clock: Clock, database: Any = None) -> Sampling:
    return Sampling(lambda: story.ledger.state, database, clock)


SAMPLES = Samples(
    node="n1",
    at=0,
    window=600 * SECOND,
    devices=(
        DeviceSample(device="gpu0", busy=2, memory_used=70_000, held=900 * SECOND, average=1, idle=True),
        DeviceSample(device="gpu1", held=900 * SECOND),
        DeviceSample(device="gpu2", busy=0),
    ),
)


def test_the_provider_sees_every_device_who_holds_idle_ones_and_unused_nodes(story: Story) -> None:
    sampled = sampling(story, Clock())
    sampled.enter(SAMPLES)
    load = NodeLoad(
        node="n1",
        at=Clock.now,
        devices=("gpu0", "gpu1", "gpu2"),
        busy=(2, -1, 0),
        average=(1, -1, -1),
        memory=(70_000, 0, 0),
        held=(900, 900, 0),
        idle=(1, 0, 0),
    )
    (lease,) = story.ledger.state.nodes["n1"].leases.values()
    holder = IdleHolder(
        job=lease.job.key,
        name="tune",
        tenant="acme",
        user="alice",
        policy="rnd",
        profile="any",
        pool="hq",
        node="n1",
        devices=("gpu0",),
        units=GPU,
        held=900,
        average=1,
    )
    unused = IdleNode(node="n2", pool="hq", units=GPU)
    assert sampled.view(ALL_TENANTS) == UtilizationAnswer(
        now=Clock.now, nodes=(load,), holders=(holder,), idle_nodes=(unused,), unknown=1
    )


def test_a_tenant_sees_the_devices_of_its_own_jobs(story: Story) -> None:
    sampled = sampling(story, Clock())
    sampled.enter(SAMPLES)
    own, other = sampled.view("acme"), sampled.view("other")
    assert [node.devices for node in own.nodes] == [("gpu0", "gpu1")]
    assert (other.nodes, other.holders, other.unknown) == ((), (), 0)


def test_an_old_sample_is_not_shown(story: Story) -> None:
    clock = Clock()
    sampled = sampling(story, clock)
    sampled.enter(SAMPLES)
    clock.now += MINUTE + 1
    assert sampled.view(ALL_TENANTS).nodes == ()


async def test_a_message_that_is_malformed_or_of_another_node_is_ignored(story: Story) -> None:
    sampled = sampling(story, Clock())
    for subject, data in (
        ("hr.telemetry.n1.samples", b"{"),
        ("hr.telemetry.n2.samples", encode(SAMPLES)),
        ("hr.telemetry.n9.samples", encode(Samples(node="n9", at=0, window=1))),
    ):
        await sampled.receive(SimpleNamespace(subject=subject, data=data))  # type: ignore[arg-type]
    assert (sampled.received, sampled.view(ALL_TENANTS).nodes) == (0, ())
    await sampled.receive(SimpleNamespace(subject="hr.telemetry.n1.samples", data=encode(SAMPLES)))  # type: ignore[arg-type]
    assert sampled.received == 1


async def test_complete_minutes_are_written_and_what_is_old_is_deleted(story: Story) -> None:
    clock, database = Clock(), Written()
    sampled = sampling(story, clock, database)
    sampled.enter(SAMPLES)
    clock.now += 5 * SECOND
    sampled.enter(SAMPLES)
    await sampled.write()
    assert [table for table, *_ in database.statements] == ["load_minutes", "load_device_hours", "load_hours"]
    database.statements.clear()
    clock.now += 2 * MINUTE
    await sampled.write()
    assert [table for table, *_ in database.statements] == [
        "load_position",
        "load_minutes",
        "load_device_hours",
        "load_hours",
    ]
    minutes = database.statements[1]
    assert minutes[1:4] == ([166_666] * 2, ["n1", "n1"], ["gpu0", "gpu1"])
    assert minutes[5:] == (
        [630_000_000_000] * 2,
        [630_000_000_000, 0],
        [12_600_000_000, 0],
        [630_000_000_000, 0],
        [350_000_000_000, 0],
    )
