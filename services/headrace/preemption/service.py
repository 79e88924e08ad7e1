"""Preemption on the bus: its decider in the one service loop, and an ear for the nodes' heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.bus.loop import steady_clock
from headrace.bus.process import Service
from headrace.contracts.facts.writers import PREEMPTION
from headrace.contracts.messages.orders import Heartbeat
from headrace.contracts.transport.codec import Malformed, decode
from headrace.contracts.transport.subjects import telemetry
from headrace.contracts.values.durations import SECOND
from headrace.domain.model.state import State
from headrace.preemption.decide import PreemptionWatch
from headrace.service.deciding import Deciding
from headrace.service.task_group import together

if TYPE_CHECKING:
    from nats.aio.msg import Msg

LOOK_EVERY = 2.0
LAPSE = 10 * SECOND
"""Between two looks; so much between them, and we were stopped, or held up."""


class Heartbeats:
    """For how long each node has been silent, by a clock that nobody sets: no jump of the wall clock makes a node lost (R34).

    That clock stands still while we sleep or are not `connected`, because then it is us who heard nothing: a process that was stopped for a
    minute finds heartbeats that it has not read yet. A node counts as heard of when it is first asked about: a restart loses nobody.
    """

    def __init__(self, connected: Callable[[], bool] = lambda: True) -> None:
        self.heard: dict[str, int] = {}
        self._connected = connected
        self._attended = 0
        self._looked = steady_clock()

    def silence(self, node: str) -> int:
        """Microseconds since the node was heard of, as far as we have listened."""
        now = self.look()
        return now - self.heard.setdefault(node, now)

    def look(self) -> int:
        """For how long we have listened, microseconds. Called now and then: a longer time without is one in which we were not awake."""
        now = steady_clock()
        passed, self._looked = now - self._looked, now
        if passed <= LAPSE and self._connected():
            self._attended += passed
        return self._attended

    async def keep_looking(self) -> None:
        """Until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY)

    async def hear(self, message: Msg) -> None:
        """A heartbeat has come; the sender is whom the subject names."""
        try:
            beat = decode(message.data, Heartbeat)
        except Malformed:
            return
        if message.subject == telemetry(beat.node, "heartbeat"):
            self.heard[beat.node] = self.look()


async def main(service: Service) -> None:
    """Run until cancelled."""
    beats = Heartbeats(lambda: service.connection.is_connected)

    def make(state: State) -> PreemptionWatch:
        return PreemptionWatch(state, beats)

    await service.connection.subscribe("hr.telemetry.*.heartbeat", cb=beats.hear)
    deciding = await Deciding.begin(service, PREEMPTION, make)
    await together(deciding.run(), beats.keep_looking())
