"""Samples of nodes as the use of leases: since when the devices of each are idle, as nodes say it (decision 38)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.messages.orders import Samples
from headrace.contracts.transport.codec import Malformed, decode
from headrace.contracts.transport.subjects import telemetry
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.preemption.idle_leases import Idle

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.msg import Msg

    from headrace.domain.model.jobs import LeaseState

LASTS = 30 * SECOND
"""Age from which on a sample says nothing about the present."""
KNOWS_AFTER = 2 * MINUTE
"""After so long without a sample of a device, it is not measured."""


class DeviceUse:
    """The last samples. `clock`: microseconds since 1970.

    A node says that a device is idle when it was nearly unused for a whole window of ten minutes, so those count.
    """

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._begun = clock()
        self._seen: dict[str, int] = {}
        self._devices: dict[str, dict[str, Idle]] = {}

    async def receive(self, message: Msg) -> None:
        """Take a message from a node; one that is malformed, or of another node, is ignored."""
        try:
            samples = decode(message.data, Samples)
        except Malformed:
            return
        if message.subject == telemetry(samples.node, "samples"):
            self.enter(samples)

    def enter(self, samples: Samples) -> None:
        """Take samples that have just arrived."""
        now = self._clock()
        known = self._devices.get(samples.node, {}) if self._seen.get(samples.node, 0) >= now - LASTS else {}
        self._seen[samples.node] = now
        self._devices[samples.node] = {
            device.device: _idle(known.get(device.device), now - samples.window, device.average) if device.idle else Idle(0)
            for device in samples.devices
            if device.busy is not None
        }

    def begin(self) -> None:
        """Nothing is known any more: samples have not been received for a while."""
        self._begun = self._clock()
        self._seen.clear()
        self._devices.clear()

    def of(self, lease: LeaseState) -> Idle | None:
        """Since when all devices of the lease are idle; 0: one is in use; None: of one it is unknown."""
        if self._seen.get(lease.node, 0) < self._clock() - LASTS:
            return None
        devices = self._devices[lease.node]
        found = [devices.get(share.device) for share in lease.devices]
        known = [idle for idle in found if idle is not None]
        if len(known) < len(found) or not known:
            return None
        since = 0 if any(not idle.since for idle in known) else max(idle.since for idle in known)
        return Idle(since, max(idle.average for idle in known))

    def knows(self) -> bool:
        """Whether samples have been received for long enough."""
        return self._clock() - self._begun >= KNOWS_AFTER

    def next_change(self, now: int) -> int | None:  # noqa: ARG002 - the service asks for a look now and then
        """None: the service asks for a look now and then."""
        return None


def _idle(before: Idle | None, since: int, average: int | None) -> Idle:
    return Idle(before.since if before is not None and before.since else since, average or 0)
