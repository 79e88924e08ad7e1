"""Leader election for a service that runs more than once: one instance decides, the others fold along and wait.

Strategy: the leader sends a heartbeat ten times a second. An instance that receives none for 0.4 s takes over: it has folded along all the
time, so it has to read only what is under way. Two instances may believe for a while that they lead, which does no harm: every append is
conditional on the writer's last record, so the one that loses the race, or reads a record that it has not written, restarts as a standby.
Nothing else depends on which one leads, so no agreement is needed.

Silence is counted only while the listening instance runs and is connected. The leader also reports how long it was busy at most, and is
allowed that much more silence.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec
import structlog
from nats import errors

from headrace.bus.loop import Fenced
from headrace.bus.variables import TURN
from headrace.contracts.transport.subjects import turn as subject_of

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from headrace.nats_client.connection import Connection

TICK = 0.05
BEAT = 0.1
SILENCE = 0.4
LATER = 0.15
"""Seconds by which a `later` instance waits longer, so that two that start together do not both begin."""
STALL = 0.25
"""Seconds between two ticks from which on the listening instance itself was suspended."""
STALL_FORGOTTEN = 60.0
ALLOWED_MOST = 5.0

_log = structlog.get_logger("headrace.turn")


class LeaderHeartbeat(msgspec.Struct, frozen=True):
    """Heartbeat of a leader: its instance, and for how many seconds it was busy at most.

    `leaves`: it no longer decides. `age`: seconds for which it has been leading; negative if unknown. `deposes`: the other leader that has
    to give up, empty without one; absent in heartbeats of releases before 0.3.0.
    """

    instance: str
    busy: float = 0.0
    leaves: bool = False
    age: float = -1.0
    deposes: str | None = None


class LeaderElection:
    """Election state of one instance. `first`: it begins if several start together. `clock`: seconds, monotonic."""

    def __init__(self, *, first: bool, clock: Callable[[], float], instance: str = "") -> None:
        self.mine = False
        self.is_over = False
        """True when another instance took over while this one was suspended or could not be reached."""
        self.is_settled = False
        """True when there is a leader: this instance, or one whose heartbeat was received."""
        self._began = 0.0
        self._patience = SILENCE if first else SILENCE + LATER
        self._instance = instance or secrets.token_hex(8)
        self._clock = clock
        self._deposes = ""
        self.silent_for = 0.0
        self._looked: float | None = None
        self._allowed = 0.0
        self._stalls: list[tuple[float, float]] = []

    def receive(self, beat: LeaderHeartbeat) -> None:
        """Take in the heartbeat of a leader. Of two leaders the one that has led for longer gives up: it was the one that fell silent.

        Only the one with the smaller name compares, and tells the other by its own heartbeats: if both compared, two that begin in the
        same moment would both find themselves the older one, by the time that a heartbeat travels.
        """
        if self.mine and beat.instance != self._instance and not beat.leaves and beat.age >= 0.0:
            self._compare(beat)
        if beat.instance != self._instance:
            self.is_settled = True
            self.silent_for, self._allowed = 0.0, min(max(0.0, beat.busy), ALLOWED_MOST)
            if beat.leaves:
                self.silent_for, self._allowed = self._patience, 0.0

    def _compare(self, beat: LeaderHeartbeat) -> None:
        is_older = (beat.age, beat.instance) < (self._clock() - self._began, self._instance)
        if beat.deposes is None:
            self.is_over = is_older
        elif self._instance > beat.instance:
            self.is_over = beat.deposes == self._instance
        elif is_older:
            self.is_over = True
        else:
            self._deposes = beat.instance

    def tick(self, *, connected: bool) -> bool:
        """Count a tick of time; True if this instance has become the leader by it."""
        now = self._clock()
        passed, self._looked = now - (self._looked or now), now
        if passed > STALL:  # heartbeats sent meanwhile have not been read yet
            self.silent_for = 0.0
            if self.mine:
                self._stalls.append((now, passed))
            return False
        self.silent_for = self.silent_for + passed if connected else 0.0
        if self.mine or self.silent_for < self._patience + self._allowed:
            return False
        self.mine, self.is_settled, self._began = True, True, now
        return True

    def goodbye(self) -> LeaderHeartbeat:
        """Last heartbeat, with which another instance can take over at once."""
        return LeaderHeartbeat(self._instance, leaves=True)

    def beat(self) -> LeaderHeartbeat:
        """Heartbeat to be sent now."""
        now = self._clock()
        self._stalls = [(at, span) for at, span in self._stalls if at > now - STALL_FORGOTTEN]
        busy = max((span for _, span in self._stalls), default=0.0)
        return LeaderHeartbeat(self._instance, busy, age=now - self._began, deposes=self._deposes)


def election_of(environment: Mapping[str, str]) -> LeaderElection | None:
    """Election as the environment configures it; None if this is the only instance."""
    place = environment.get(TURN, "")
    return LeaderElection(first=place == "first", clock=time.monotonic) if place else None


async def run_election(connection: Connection, service: str, turn: LeaderElection, begin: Callable[[], None]) -> None:
    """Take part in the election until cancelled, then hand over; `begin` is called when this instance becomes the leader.

    Raises `Fenced` when another instance has taken over.
    """

    async def on_heartbeat(message: Msg) -> None:
        try:
            turn.receive(msgspec.json.decode(message.data, type=LeaderHeartbeat))
        except msgspec.DecodeError:
            return

    subject = subject_of(service)
    await connection.subscribe(subject, cb=on_heartbeat)
    try:
        await _keep_turns(connection, service, turn, begin)
    finally:
        if turn.mine and not turn.is_over and connection.is_connected:
            with suppress(errors.Error):
                await connection.publish(subject, msgspec.json.encode(turn.goodbye()))


async def _keep_turns(connection: Connection, service: str, turn: LeaderElection, begin: Callable[[], None]) -> None:
    subject, sent_at = subject_of(service), -BEAT
    while True:
        if turn.is_over:
            raise Fenced(f"another instance has taken over as {service}")
        if turn.tick(connected=connection.is_connected):
            _log.info("takes_over", service=service)
            begin()
        now = asyncio.get_running_loop().time()
        if turn.mine and now - sent_at >= BEAT - TICK / 2 and connection.is_connected:
            sent_at = now
            try:
                await connection.publish(subject, msgspec.json.encode(turn.beat()))
            except errors.Error as error:
                _log.warning("not_said", reason=str(error))
        await asyncio.sleep(TICK)
