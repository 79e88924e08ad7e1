"""Whose turn it is to decide, where a service runs more than once: one instance decides, the others fold along and wait.

Strategy: whoever decides says so ten times a second. Who has heard nothing for two fifths of one takes over: it has folded along all the
time, so it needs to read no more than what is under way. That two may take themselves for the one for a while does no harm: every append
is conditional on the writer's last record, so the one that loses the race, or reads what it has not written, starts again as the one that
waits. Nothing else depends on who is right, and so nothing has to be agreed upon.

Silence is counted only while the one that listens is awake and connected. Whoever decides says besides how long it was busy at the
longest, and is given as long again.
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

    from headrace.bus.nats.connection import Connection

TICK = 0.05
BEAT = 0.1
SILENCE = 0.4
LATER = 0.15
"""Seconds by which one that waits at the start lets another go first, so that two that start together do not both begin."""
STALL = 0.25
"""Seconds between two ticks from which on the one that listens was itself not awake."""
STALL_FORGOTTEN = 60.0
ALLOWED_MOST = 5.0

_log = structlog.get_logger("headrace.turn")


class Beat(msgspec.Struct, frozen=True):
    """What whoever decides says: which instance it is, and for how many seconds it was busy at the longest.

    `leaves`: it decides no more. `age`: for how many seconds it has been deciding; less than none where it does not say.
    """

    instance: str
    busy: float = 0.0
    leaves: bool = False
    age: float = -1.0


class LeaderElection:
    """One instance. `first`: the one that begins where several start together. `clock`: seconds that only go on."""

    def __init__(self, *, first: bool, clock: Callable[[], float], instance: str = "") -> None:
        self.mine = False
        self.is_over = False
        """Somebody has taken over from this one while it slept or could not be heard."""
        self.is_settled = False
        """Somebody decides: this one, or one that was heard."""
        self._began = 0.0
        self._patience = SILENCE if first else SILENCE + LATER
        self._instance = instance or secrets.token_hex(8)
        self._clock = clock
        self._silent = 0.0
        self._looked: float | None = None
        self._allowed = 0.0
        self._stalls: list[tuple[float, float]] = []

    def hear(self, beat: Beat) -> None:
        """Somebody has said that it decides. Of two, the one that has done so for longer is the one of which nothing was heard."""
        if self.mine and beat.instance != self._instance and not beat.leaves and beat.age >= 0.0:
            self.is_over = (beat.age, beat.instance) < (self._clock() - self._began, self._instance)
        if beat.instance != self._instance:
            self.is_settled = True
            self._silent, self._allowed = 0.0, min(max(0.0, beat.busy), ALLOWED_MOST)
            if beat.leaves:
                self._silent, self._allowed = self._patience, 0.0

    def look(self, *, connected: bool) -> bool:
        """A tick has passed; whether it has become our turn by it."""
        now = self._clock()
        passed, self._looked = now - (self._looked or now), now
        if passed > STALL:  # what was said meanwhile has not been heard yet
            self._silent = 0.0
            if self.mine:
                self._stalls.append((now, passed))
            return False
        self._silent = self._silent + passed if connected else 0.0
        if self.mine or self._silent < self._patience + self._allowed:
            return False
        self.mine, self.is_settled, self._began = True, True, now
        return True

    def goodbye(self) -> Beat:
        """What to say at the end, so that nobody has to wait for silence."""
        return Beat(self._instance, leaves=True)

    def beat(self) -> Beat:
        """What to say."""
        now = self._clock()
        self._stalls = [(at, span) for at, span in self._stalls if at > now - STALL_FORGOTTEN]
        return Beat(self._instance, max((span for _, span in self._stalls), default=0.0), age=now - self._began)


def turn_of(environment: Mapping[str, str]) -> LeaderElection | None:
    """What the environment says; None where this instance is the only one."""
    place = environment.get(TURN, "")
    return LeaderElection(first=place == "first", clock=time.monotonic) if place else None


async def take_turns(connection: Connection, service: str, turn: LeaderElection, begin: Callable[[], None]) -> None:
    """Listen and speak until cancelled, and hand the turn over then; `begin` is called when it has become our turn.

    Raises `Fenced` when somebody else has taken it.
    """

    async def heard(message: Msg) -> None:
        try:
            turn.hear(msgspec.json.decode(message.data, type=Beat))
        except msgspec.DecodeError:
            return

    subject = subject_of(service)
    await connection.subscribe(subject, cb=heard)
    try:
        await _keep_turns(connection, service, turn, begin)
    finally:
        if turn.mine and not turn.is_over and connection.is_connected:
            with suppress(errors.Error):
                await connection.publish(subject, msgspec.json.encode(turn.goodbye()))


async def _keep_turns(connection: Connection, service: str, turn: LeaderElection, begin: Callable[[], None]) -> None:
    subject, said = subject_of(service), -BEAT
    while True:
        if turn.is_over:
            raise Fenced(f"somebody else has taken over as {service}")
        if turn.look(connected=connection.is_connected):
            _log.info("takes_over", service=service)
            begin()
        now = asyncio.get_running_loop().time()
        if turn.mine and now - said >= BEAT - TICK / 2 and connection.is_connected:
            said = now
            try:
                await connection.publish(subject, msgspec.json.encode(turn.beat()))
            except errors.Error as error:
                _log.warning("not_said", reason=str(error))
        await asyncio.sleep(TICK)
