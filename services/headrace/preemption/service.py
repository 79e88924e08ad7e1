"""Preemption on the bus: its decider in the one service loop, and an ear for the nodes' heartbeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.bus.process import Service
from headrace.contracts.codec import Malformed, decode
from headrace.contracts.orders import Heartbeat
from headrace.contracts.subjects import telemetry
from headrace.contracts.writers import PREEMPTION
from headrace.domain.state import State
from headrace.preemption.decide import PreemptionWatch
from headrace.service.deciding import Deciding
from headrace.service.fold import wall_clock

if TYPE_CHECKING:
    from nats.aio.msg import Msg


class Heartbeats:
    """When each node was last heard of. A node counts as heard of when the listening began, so that a restart loses nobody."""

    def __init__(self) -> None:
        self.heard: dict[str, int] = {}
        self._since = wall_clock()

    def get(self, node: str, default: int = 0, /) -> int:
        """Microseconds since 1970, never before the listening began."""
        return max(self.heard.get(node, default), self._since)

    async def hear(self, message: Msg) -> None:
        """A heartbeat has come; the sender is whom the subject names."""
        try:
            beat = decode(message.data, Heartbeat)
        except Malformed:
            return
        if message.subject == telemetry(beat.node, "heartbeat"):
            self.heard[beat.node] = wall_clock()


async def main(service: Service) -> None:
    """Run until cancelled."""
    beats = Heartbeats()

    def make(state: State) -> PreemptionWatch:
        return PreemptionWatch(state, beats)

    await service.connection.subscribe("hr.telemetry.*.heartbeat", cb=beats.hear)
    await Deciding(service, PREEMPTION, make).run()
