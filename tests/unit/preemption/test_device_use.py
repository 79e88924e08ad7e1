"""Samples of nodes as the use of leases (R39)."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from headrace.contracts.messages.orders import DeviceSample, Samples
from headrace.contracts.transport.codec import encode
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.preemption.device_use import KNOWS_AFTER, LASTS, DeviceUse
from headrace.preemption.idle_leases import Idle

START = 1_000 * MINUTE
WINDOW = 10 * MINUTE


class Clock:
    now = START

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def use(clock) -> DeviceUse:
    return DeviceUse(clock)


def lease(*devices: str, node: str = "n1") -> SimpleNamespace:
    return SimpleNamespace(node=node, devices=[SimpleNamespace(device=device) for device in devices])


def samples(*devices: DeviceSample) -> Samples:
    return Samples(node="n1", at=0, window=WINDOW, devices=devices)


IDLE = DeviceSample(device="gpu0", busy=0, average=2, idle=True)
BUSY = DeviceSample(device="gpu1", busy=80, average=70)
UNKNOWN = DeviceSample(device="gpu2", idle=False)


def test_the_window_of_the_first_idle_sample_counts_and_the_time_goes_on_from_there(use, clock):
    use.enter(samples(IDLE))
    assert use.of(lease("gpu0")) == Idle(START - WINDOW, 2)
    clock.now += 5 * SECOND
    use.enter(samples(IDLE))
    assert use.of(lease("gpu0")) == Idle(START - WINDOW, 2)


def test_one_device_in_use_is_enough_and_one_that_cannot_tell_makes_all_unknown(use):
    use.enter(samples(IDLE, BUSY, UNKNOWN))
    assert use.of(lease("gpu0", "gpu1")) == Idle(0, 2)
    assert use.of(lease("gpu0", "gpu2")) is None
    assert use.of(lease()) is None


def test_after_use_and_after_a_gap_idleness_begins_anew(use, clock):
    use.enter(samples(IDLE))
    clock.now += 5 * SECOND
    use.enter(samples(DeviceSample(device="gpu0", busy=50, average=9)))
    clock.now += 5 * SECOND
    use.enter(samples(IDLE))
    assert use.of(lease("gpu0")) == Idle(clock.now - WINDOW, 2)
    clock.now += LASTS + 1
    assert use.of(lease("gpu0")) is None
    use.enter(samples(IDLE))
    assert use.of(lease("gpu0")) == Idle(clock.now - WINDOW, 2)


def test_of_a_node_that_was_never_heard_nothing_is_known(use):
    assert use.of(lease("gpu0", node="n2")) is None


def test_it_knows_what_is_not_measured_once_it_has_listened_for_a_while(use, clock):
    clock.now += KNOWS_AFTER
    assert use.knows()
    use.begin()
    assert not use.knows()


async def test_a_message_of_another_node_and_a_malformed_one_are_ignored(use):
    for subject, data in (("hr.telemetry.n2.samples", encode(samples(IDLE))), ("hr.telemetry.n1.samples", b"{")):
        await use.receive(SimpleNamespace(subject=subject, data=data))
    assert use.of(lease("gpu0")) is None
    await use.receive(SimpleNamespace(subject="hr.telemetry.n1.samples", data=encode(samples(IDLE))))
    assert use.of(lease("gpu0")) == Idle(START - WINDOW, 2)
