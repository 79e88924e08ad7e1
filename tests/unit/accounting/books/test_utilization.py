from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise

import pytest

from headrace.accounting.books.row_mapping import account_of
from headrace.accounting.books.utilization import LATE, LONGEST, MINUTES_MAX, LoadRow, Utilization
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.messages.orders import DeviceSample, LeaseSample, Samples
from headrace.contracts.values.durations import MINUTE, SECOND
from tests.unit.accounting.conftest import GPU, Story

FAR = 10**9 * MINUTE


def loads() -> Utilization:
    return Utilization(lambda job: account_of(job, service_account=False))


def running(story: Story, number: int, *shares: tuple[str, int], since: float = 1) -> str:
    """A job of the policy rnd that has run since then, with its lease's key in samples."""
    key = story.submit(since, number, "rnd", 1)
    devices = tuple(DeviceShare(device=device, units=units) for device, units in shares)
    story.grant(since, key, 1, devices=devices)
    story.start(since, key)
    return f"{key}/1/0"


@pytest.fixture
def story() -> Story:
    story = Story()
    story.policy(0, "rnd", 4)
    return story


def samples(at: float, *devices: DeviceSample, leases: tuple[LeaseSample, ...] = ()) -> Samples:
    return Samples(node="n1", at=round(at * SECOND), window=600 * SECOND, devices=devices, leases=leases)


def enter(found: Utilization, story: Story, at: float, *devices: DeviceSample, leases: tuple[LeaseSample, ...] = ()) -> None:
    found.enter(samples(at, *devices, leases=leases), story.ledger.state.nodes["n1"], round(at * SECOND))


def amounts(found: Utilization, now: int = FAR) -> dict[tuple[int, str, int], tuple[int, ...]]:
    """(held, measured, busy, idle_held, memory) by minute, device and lease."""
    return {(row.minute, row.device, row.lease): row[4:9] for _, rows in found.complete(now) for row in rows}


def test_a_sample_stands_for_the_time_since_the_one_before(story: Story) -> None:
    running(story, 1, ("gpu0", GPU))
    found = loads()
    enter(found, story, 10, DeviceSample(device="gpu0", busy=90))
    enter(found, story, 15, DeviceSample(device="gpu0", busy=40, memory_used=100))
    ((minute, (row,)),) = found.complete(FAR)
    held = 5 * SECOND * GPU
    lease = story.ledger.state.nodes["n1"].leases.popitem()[1]
    number = lease.sequence * 1_000 + lease.place
    account = ("acme", "rnd", "rnd", "any", "alice", False, "hq")
    assert (minute, row) == (0, LoadRow(0, "n1", "gpu0", number, held, held, held * 40 // 100, 0, 500 * SECOND, *account))


def test_a_device_that_cannot_tell_is_held_and_its_load_unknown(story: Story) -> None:
    running(story, 1, ("gpu0", GPU))
    found = loads()
    enter(found, story, 10, DeviceSample(device="gpu0"))
    enter(found, story, 15, DeviceSample(device="gpu0"))
    assert list(amounts(found).values()) == [(5 * SECOND * GPU, 0, 0, 0, 0)]


def test_what_the_node_calls_idle_is_held_idle(story: Story) -> None:
    running(story, 1, ("gpu0", GPU))
    found = loads()
    enter(found, story, 10, DeviceSample(device="gpu0", busy=1, idle=True))
    enter(found, story, 15, DeviceSample(device="gpu0", busy=1, idle=True))
    held = 5 * SECOND * GPU
    assert list(amounts(found).values()) == [(held, held, held // 100, held, 0)]


def test_on_a_shared_device_each_lease_has_the_load_of_its_own_processes(story: Story) -> None:
    one, _ = running(story, 1, ("gpu0", GPU // 2)), running(story, 2, ("gpu0", GPU // 4))
    found = loads()
    own = (LeaseSample(lease=one, busy=60, devices={"gpu0": 70}),)
    enter(found, story, 10, DeviceSample(device="gpu0", busy=80))
    enter(found, story, 15, DeviceSample(device="gpu0", busy=80, memory_used=99), leases=own)
    half, quarter = 5 * SECOND * GPU // 2, 5 * SECOND * GPU // 4
    assert sorted(amounts(found).values()) == [(quarter, 0, 0, 0, 0), (half, half, half * 60 // 100, 0, 350 * SECOND)]


def test_nothing_counts_before_the_lease_started_and_after_a_gap_only_the_last_seconds(story: Story) -> None:
    found = loads()
    enter(found, story, 0, DeviceSample(device="gpu0", busy=100))
    running(story, 1, ("gpu0", GPU), since=3)
    enter(found, story, 5, DeviceSample(device="gpu0", busy=100))
    assert list(amounts(found).values()) == [(2 * SECOND * GPU, 2 * SECOND * GPU, 2 * SECOND * GPU, 0, 0)]
    enter(found, story, 500, DeviceSample(device="gpu0", busy=100))
    assert sum(held for held, *_ in amounts(found).values()) == LONGEST * GPU


def test_a_sample_over_the_end_of_a_minute_is_split_there(story: Story) -> None:
    running(story, 1, ("gpu0", GPU))
    found = loads()
    enter(found, story, 57, DeviceSample(device="gpu0", busy=100))
    enter(found, story, 62, DeviceSample(device="gpu0", busy=100))
    assert {key[0]: held for key, (held, *_) in amounts(found).items()} == {0: 3 * SECOND * GPU, 1: 2 * SECOND * GPU}


def test_a_minute_is_complete_once_no_sample_of_it_can_arrive(story: Story) -> None:
    running(story, 1, ("gpu0", GPU))
    found = loads()
    enter(found, story, 50, DeviceSample(device="gpu0", busy=100))
    enter(found, story, 55, DeviceSample(device="gpu0", busy=100))
    assert found.complete(MINUTE + LATE - 1) == []
    assert [minute for minute, _ in found.complete(MINUTE + LATE)] == [0]
    assert found.complete(FAR) == []


def test_while_minutes_cannot_be_written_the_oldest_are_lost(story: Story) -> None:
    running(story, 1, ("gpu0", GPU))
    found = loads()
    for minute in range(MINUTES_MAX + 3):
        enter(found, story, 60 * minute + 1, DeviceSample(device="gpu0", busy=100))
        enter(found, story, 60 * minute + 6, DeviceSample(device="gpu0", busy=100))
    assert [minute for minute, _ in found.complete(FAR)] == list(range(3, MINUTES_MAX + 3))


def test_a_node_that_was_removed_begins_anew(story: Story) -> None:
    running(story, 1, ("gpu0", GPU))
    found = loads()
    enter(found, story, 10, DeviceSample(device="gpu0", busy=100))
    found.forget(())
    enter(found, story, 15, DeviceSample(device="gpu0", busy=100))
    assert found.complete(FAR) == []


class Played:
    """Made-up jobs and samples of one node, for 400 seconds."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.story = Story()
        self.story.policy(0, "rnd", 4)
        self.found = loads()
        self.held: list[tuple[int, int | None, str, int, str]] = []
        """(since, until, lease, units, device), in seconds."""
        self.samples: list[tuple[int, dict[str, tuple[int | None, bool]], dict[str, int]]] = []
        self.at = self.number = 0
        while self.at < 400:
            self.at += self.chance.choice((1, 4, 5, 5, 5, 6, 20, 45))
            for _ in range(self.chance.randint(0, 2)):
                self.begin(f"gpu{self.chance.randint(0, 3)}", self.chance.choice((GPU // 4, GPU // 2, GPU)))
            self.end_some()
            self.sample()

    def begin(self, device: str, units: int) -> None:
        self.number += 1
        if sum(units for _, until, _, units, on in self.held if on == device and until is None) + units <= GPU:
            self.held.append((self.at, None, running(self.story, self.number, (device, units), since=self.at), units, device))

    def end_some(self) -> None:
        for index, (since, until, lease, units, device) in enumerate(self.held):
            if until is None and self.chance.random() < 0.2 and since < self.at:
                self.story.end(self.at, lease.removesuffix("/1/0"))
                self.held[index] = (since, self.at, lease, units, device)

    def sample(self) -> None:
        devices = {f"gpu{n}": (self.chance.choice((None, 0, 3, 50, 100)), self.chance.random() < 0.3) for n in range(4)}
        own = {
            lease: self.chance.randint(0, 100)
            for _, until, lease, *_ in self.held
            if until is None and self.chance.random() < 0.7
        }
        self.samples.append((self.at, devices, own))
        device_samples = [DeviceSample(device=name, busy=busy, idle=idle) for name, (busy, idle) in devices.items()]
        leases = tuple(LeaseSample(lease=lease, busy=busy) for lease, busy in own.items())
        enter(self.found, self.story, self.at, *device_samples, leases=leases)


def recounted(played: Played) -> dict[tuple[int, str, str], list[int]]:
    """(held, measured, busy, idle_held) by minute, device and lease, added up second by second."""
    sums: defaultdict[tuple[int, str, str], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for (before, *_), (at, devices, own) in pairwise(played.samples):
        there = [one for one in played.held if one[0] <= at and (one[1] is None or one[1] > at)]
        for since, _, lease, units, device in there:
            busy, idle = devices[device]
            if sum(one[4] == device for one in there) > 1:
                busy = own.get(lease)
            for second in range(max(before, since, at - LONGEST // SECOND), at):
                known = (units, units * busy // 100, units * idle) if busy is not None else (0, 0, 0)
                cell = sums[second // 60, device, lease]
                cell[:] = [sum_ + SECOND * amount for sum_, amount in zip(cell, (units, *known), strict=True)]
    return sums


@pytest.mark.parametrize("seed", range(20))
def test_a_recount_second_by_second_is_the_same(seed: int) -> None:
    played = Played(seed)
    got, expected = defaultdict(list), defaultdict(list)
    for _, rows in played.found.complete(FAR):
        for row in rows:
            got[row.minute, row.device].append(row[4:8])
    for (minute, device, _), cell in recounted(played).items():
        expected[minute, device].append(tuple(cell))
    assert expected
    assert {key: sorted(rows) for key, rows in got.items()} == {key: sorted(rows) for key, rows in expected.items()}
