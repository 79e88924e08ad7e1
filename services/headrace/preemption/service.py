"""Preemption on the bus: its decider in the one service loop, and an ear for the nodes' heartbeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.bus.loop import steady_clock
from headrace.bus.process import Service
from headrace.contracts.codec import Malformed, decode
from headrace.contracts.orders import Heartbeat
from headrace.contracts.subjects import telemetry
from headrace.contracts.writers import PREEMPTION
from headrace.domain.state import State
from headrace.preemption.decide import PreemptionWatch
from headrace.service.deciding import Deciding

if TYPE_CHECKING:
    from nats.aio.msg import Msg


class Heartbeats:
    """When each node was last heard of, by a clock that nobody sets: no jump of the wall clock makes a node lost (R34).

    A node counts as heard of when it is first asked about, so that a restart loses nobody.
    """

    def __init__(self) -> None:
        self.heard: dict[str, int] = {}

    def silence(self, node: str) -> int:
        """Microseconds since the node was heard of."""
        now = steady_clock()
        return now - self.heard.setdefault(node, now)

    async def hear(self, message: Msg) -> None:
        """A heartbeat has come; the sender is whom the subject names."""
        try:
            beat = decode(message.data, Heartbeat)
        except Malformed:
            return
        if message.subject == telemetry(beat.node, "heartbeat"):
            self.heard[beat.node] = steady_clock()


async def main(service: Service) -> None:
    """Run until cancelled."""
    beats = Heartbeats()

    def make(state: State) -> PreemptionWatch:
        return PreemptionWatch(state, beats)

    await service.connection.subscribe("hr.telemetry.*.heartbeat", cb=beats.hear)
    await (await Deciding.begin(service, PREEMPTION, make)).run()
