"""Preemption on the bus: its decider in the service loop, and the nodes' heartbeats."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.bus.follower import steady_clock
from headrace.bus.process import Service
from headrace.contracts.facts.writers import PREEMPTION
from headrace.contracts.messages.orders import Heartbeat
from headrace.contracts.transport.codec import Malformed, decode
from headrace.contracts.transport.subjects import telemetry
from headrace.contracts.values.durations import SECOND
from headrace.domain.state.state import State
from headrace.preemption.decide import PreemptionWatch
from headrace.preemption.device_use import DeviceUse
from headrace.service.deciding import Deciding
from headrace.service.fold import wall_clock
from headrace.service.hosting import LedgerFollower, Part, Work
from headrace.service.task_group import run_until_first_ends

if TYPE_CHECKING:
    from nats.aio.msg import Msg

UPDATE_EVERY = 2.0
MEASURE_EVERY = 5.0
"""Seconds between two looks at whether leases are idle; nodes send samples as often."""
LAPSE = 10 * SECOND
"""Longest gap between two looks that counts as listening; a longer one means that this process was stopped."""


class Heartbeats:
    """Silence of each node, by a monotonic clock: no jump of the wall clock makes a node lost (R34).

    The clock stops while this process is stopped or not `connected`, because then heartbeats cannot be received: a process that was stopped
    for a minute has unread heartbeats. A node counts as seen when it is first asked about, so a restart makes no node lost.
    """

    def __init__(self, connected: Callable[[], bool] = lambda: True) -> None:
        self.last_seen: dict[str, int] = {}
        self._connected = connected
        self._listened = 0
        self.looked_at = steady_clock()

    def silence(self, node: str) -> int:
        """Microseconds of listening since the last heartbeat of the node."""
        now = self.update()
        return now - self.last_seen.setdefault(node, now)

    def update(self) -> int:
        """Microseconds of listening. To be called regularly: a gap longer than `LAPSE` does not count."""
        now = steady_clock()
        passed, self.looked_at = now - self.looked_at, now
        if passed <= LAPSE and self._connected():
            self._listened += passed
        return self._listened

    async def keep_updating(self) -> None:
        """Update the clock until cancelled."""
        while True:
            self.update()
            await asyncio.sleep(UPDATE_EVERY)

    async def receive(self, message: Msg) -> None:
        """Note a heartbeat; the sender is the node of the subject."""
        try:
            beat = decode(message.data, Heartbeat)
        except Malformed:
            return
        if message.subject == telemetry(beat.node, "heartbeat"):
            self.last_seen[beat.node] = self.update()


async def prepare(service: Service, follower: LedgerFollower) -> Work:
    beats = Heartbeats(lambda: service.connection.is_connected)

    use = DeviceUse(wall_clock)

    def make(state: State) -> PreemptionWatch:
        return PreemptionWatch(state, beats)

    await service.connection.subscribe("hr.telemetry.*.heartbeat", cb=beats.receive)
    deciding = Deciding(service, follower, PREEMPTION, make)
    return lambda: run_until_first_ends(deciding.run(), beats.keep_updating(), keep_measuring(service, deciding, use))


async def keep_measuring(service: Service, deciding: Deciding, use: DeviceUse) -> None:
    """Receive samples while a policy has `idle_after`, and have marks decided now and then (R39). Runs until cancelled."""
    subscription = None
    while True:
        policies = deciding.fold.state.policies.values()
        is_wanted = any(policy.document.idle_after is not None or policy.idle for policy in policies)
        if is_wanted and subscription is None:
            use.begin()
            deciding.decider.use = use  # type: ignore[attr-defined]  # as `make` made it
            subscription = await service.connection.subscribe(telemetry("*", "samples"), cb=use.receive)
        elif subscription is not None and not is_wanted:
            await subscription.unsubscribe()
            subscription, deciding.decider.use = None, None  # type: ignore[attr-defined]
        if subscription is not None:
            deciding.wake()
        await asyncio.sleep(MEASURE_EVERY)


PART = Part(prepare)
