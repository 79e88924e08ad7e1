"""Whose turn it is, by beats and silence, on a clock that the test moves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import msgspec
import pytest
from nats import errors

from headrace.bus import leader_election as module
from headrace.bus.leader_election import (
    LATER,
    SILENCE,
    STALL,
    STALL_FORGOTTEN,
    TICK,
    LeaderElection,
    LeaderHeartbeat,
    run_election,
)
from headrace.bus.loop import Fenced
from tests.unit.service.bus import until


class Time:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


def pass_by(turn: LeaderElection, time: Time, seconds: float, *, connected: bool = True) -> bool:
    """Tick by tick; whether it became its turn meanwhile."""
    became = False
    for _ in range(round(seconds / TICK)):
        time.now += TICK
        became = turn.tick(connected=connected) or became
    return became


def test_who_hears_nothing_for_a_while_takes_over_and_the_first_before_the_others(time: Time) -> None:
    first, later = (LeaderElection(first=first, clock=time) for first in (True, False))
    first.tick(connected=True)
    assert not pass_by(first, time, SILENCE - TICK)
    assert pass_by(first, time, 2 * TICK)
    assert first.mine
    later.tick(connected=True)
    assert not pass_by(later, time, SILENCE)
    assert pass_by(later, time, LATER + TICK)


def test_an_instance_that_hears_a_leader_waits(time: Time) -> None:
    waits = LeaderElection(first=True, clock=time)
    waits.tick(connected=True)
    for _ in range(5):
        waits.receive(LeaderHeartbeat("other"))
        assert not pass_by(waits, time, SILENCE - TICK)
    assert pass_by(waits, time, 2 * TICK)


def test_what_was_before_it_began_to_listen_does_not_count_as_silence(time: Time) -> None:
    waits = LeaderElection(first=True, clock=time)
    waits.tick(connected=True)
    time.now += 60.0  # it read what there was
    assert not pass_by(waits, time, SILENCE - TICK)
    assert waits.beat().busy == 0.0
    assert pass_by(waits, time, 3 * TICK)
    assert waits.beat().busy == 0.0


def test_who_was_busy_for_long_is_given_as_long_again(time: Time) -> None:
    waits = LeaderElection(first=True, clock=time)
    waits.tick(connected=True)
    waits.receive(LeaderHeartbeat("other", busy=2.0))
    assert not pass_by(waits, time, 2.0 + SILENCE - TICK)
    assert pass_by(waits, time, 2 * TICK)


def test_silence_counts_only_for_who_is_awake_and_connected(time: Time) -> None:
    waits = LeaderElection(first=True, clock=time)
    waits.tick(connected=True)
    assert not pass_by(waits, time, 10 * SILENCE, connected=False)
    time.now += 60.0  # stopped, and let go on
    assert not waits.tick(connected=True)
    assert not pass_by(waits, time, SILENCE - TICK)
    assert pass_by(waits, time, 2 * TICK)


def test_who_decides_says_how_long_it_was_busy_until_that_is_long_ago(time: Time) -> None:
    decides = LeaderElection(first=True, clock=time, instance="me")
    decides.tick(connected=True)
    pass_by(decides, time, SILENCE + TICK)
    assert decides.beat() == LeaderHeartbeat("me", 0.0, age=0.0, deposes="")
    time.now += STALL + 1.0
    decides.tick(connected=True)
    assert decides.beat().busy == pytest.approx(STALL + 1.0)
    pass_by(decides, time, STALL_FORGOTTEN + TICK)
    assert decides.beat().busy == 0.0


class Wire:
    """A connection with one subject."""

    is_connected = True

    def __init__(self) -> None:
        self.published: list[LeaderHeartbeat] = []
        self.callback = None
        self.trouble: Exception | None = None

    async def subscribe(self, subject: str, cb: object) -> None:
        assert subject == "hr.turn.allocator"
        self.callback = cb

    async def publish(self, subject: str, payload: bytes) -> None:
        self.published.append(msgspec.json.decode(payload, type=LeaderHeartbeat))
        if self.trouble is not None:
            raise self.trouble


async def test_it_listens_takes_over_and_speaks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TICK", 0.001)
    monkeypatch.setattr(module, "BEAT", 0.001)
    monkeypatch.setattr(module, "SILENCE", 0.01)
    wire, begun = Wire(), []
    turn = LeaderElection(first=True, clock=asyncio.get_running_loop().time, instance="me")
    task = asyncio.ensure_future(run_election(wire, "allocator", turn, lambda: begun.append(1)))  # type: ignore[arg-type]
    await until(lambda: len(wire.published) > 2)
    assert (begun, wire.published[-1].instance, turn.mine) == ([1], "me", True)
    wire.trouble = errors.ConnectionClosedError()
    spoken = len(wire.published)
    await until(lambda: len(wire.published) > spoken + 1)
    assert wire.callback is not None
    turn.silent_for = 1.0
    for payload in (b"{", b'{"instance": 1}', msgspec.json.encode(LeaderHeartbeat("me"))):
        await wire.callback(SimpleNamespace(data=payload))
    assert turn.silent_for >= 1.0
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert wire.published[-1] == LeaderHeartbeat("me", leaves=True)


def test_who_leaves_hands_its_turn_over_at_once(time: Time) -> None:
    waits, leaves = LeaderElection(first=False, clock=time), LeaderElection(first=True, clock=time, instance="other")
    waits.tick(connected=True)
    waits.receive(LeaderHeartbeat("other", busy=2.0))
    waits.receive(leaves.goodbye())
    assert pass_by(waits, time, TICK)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_of_two_that_decide_the_one_that_has_for_longer_is_over(time: Time, names: tuple[str, str]) -> None:
    slept, woke = (LeaderElection(first=True, clock=time, instance=name) for name in names)
    slept.tick(connected=True)
    pass_by(slept, time, SILENCE + TICK)
    time.now += 60.0  # it is stopped, and another instance takes over
    woke.tick(connected=True)
    pass_by(woke, time, SILENCE + TICK)
    for _ in range(2):
        for one, other in ((slept, woke), (woke, slept)):
            one.receive(other.beat())
            one.receive(LeaderHeartbeat("of a release that says no age"))
            one.receive(other.goodbye())
    assert (slept.mine, slept.is_over, woke.mine, woke.is_over) == (True, True, True, False)


def test_of_two_that_begin_in_the_same_moment_one_stays_however_long_heartbeats_travel(time: Time) -> None:
    pair = [LeaderElection(first=True, clock=time, instance=name) for name in ("a", "b")]
    for one in pair:
        one.tick(connected=True)
    for _ in range(round(SILENCE / TICK) + 1):
        time.now += TICK
        assert [one.tick(connected=True) for one in pair] in ([False, False], [True, True])
    assert [one.mine for one in pair] == [True, True]
    for _ in range(2):
        beats = [one.beat() for one in pair]
        time.now += 0.01
        for one, beat in zip(pair, reversed(beats), strict=True):
            one.receive(beat)
    assert [one.is_over for one in pair] == [True, False]


def test_an_older_release_compares_ages_and_so_does_its_peer(time: Time) -> None:
    leads = LeaderElection(first=True, clock=time, instance="b")
    leads.tick(connected=True)
    pass_by(leads, time, SILENCE + TICK)
    time.now += 5.0
    leads.receive(LeaderHeartbeat("a", age=9.0))
    assert leads.is_over is False
    leads.receive(LeaderHeartbeat("a", age=1.0))
    assert leads.is_over is True


async def test_who_is_over_starts_again_and_hands_nothing_over() -> None:
    wire = Wire()
    turn = LeaderElection(first=True, clock=asyncio.get_running_loop().time, instance="me")
    turn.mine = turn.is_over = True
    with pytest.raises(Fenced, match="^another instance has taken over as allocator$"):
        await run_election(wire, "allocator", turn, lambda: None)  # type: ignore[arg-type]
    assert wire.published == []
