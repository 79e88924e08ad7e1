"""Monitors the node's devices and jobs' use of them: health and overruns go to the core, samples onto the bus.

Strategy: reports of a driver and of the watchdog come from their threads into the loop at once. Everything else is read with every
heartbeat, in a thread, because a driver may be slow; a sample that takes longer than the interval delays the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import NamedTuple

import structlog

from headrace.contracts.messages.orders import DeviceSample, LeaseSample, Samples
from headrace.contracts.transport.codec import encode
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.devices import Devices, Sample
from headrace.node_executor.devices.health import Trouble
from headrace.node_executor.enforcement.watchdog import STRAY, Overrun
from headrace.node_executor.leases.running_lease import RunningLease
from headrace.node_executor.monitoring import usage
from headrace.node_executor.monitoring.idleness import WINDOW, Idleness
from headrace.node_executor.monitoring.usage import MIB, LeaseUsage

_log = structlog.get_logger("headrace.node_executor")


class MonitorSample(NamedTuple):
    """One sample of the devices, taken in a thread. `busy`: percent by process."""

    changes: dict[str, Trouble | None]
    samples: dict[str, Sample]
    busy: dict[int, int]
    uses: dict[str, LeaseUsage]


class MonitorListeners(NamedTuple):
    """`handle` takes events for the core; `held` are the leases that are here; `publish` sends telemetry of a kind.

    `used`: the watchdog's last check, MiB by lease and device.
    """

    handle: Callable[[v.Event], None]
    held: Callable[[], Iterable[RunningLease]]
    publish: Callable[[str, bytes], Awaitable[None]]
    used: Callable[[], Mapping[tuple[str, str], int]]


class DeviceMonitors:
    """Monitors devices from the loop; `set_listeners` sets the recipients before the first event."""

    def __init__(self, node: str, devices: Devices, now: Callable[[], int]) -> None:
        self._node = node
        self._devices = devices
        self._now = now
        self._to: MonitorListeners | None = None
        self._loop = asyncio.get_running_loop()
        self._idleness = {device.device: Idleness() for device in devices.inventory()}
        self._unfit = {device.device: device.unfit for device in devices.inventory()}
        self._memory = {device.device: device.memory for device in devices.inventory()}
        self._troubles: dict[tuple[str, str], Trouble] = {}
        self._before: tuple[int, dict[str, LeaseUsage]] = (0, {})
        self._strangers: set[str] = set()
        """Free devices with processes of no lease at the last sample."""
        self._foreign: set[str] = set()
        """Devices reported because of such processes."""

    def set_listeners(self, to: MonitorListeners) -> None:
        """Set the recipients of events and samples."""
        self._to = to

    def _handle(self, event: v.Event) -> None:
        if self._to is not None:
            self._to.handle(event)

    def overran(self, overrun: Overrun) -> None:
        """A lease holds more of a device than it was given. Called in the watchdog's thread."""
        self._loop.call_soon_threadsafe(self._overran, overrun)

    def _overran(self, overrun: Overrun) -> None:
        message = f"it held {overrun.used} MiB of {overrun.device}, {overrun.limit} MiB are its own"
        _log.warning("overran", lease=overrun.lease, reason=message)
        at = self._now()
        self._handle(v.Overran(at, overrun.lease, message, overrun.device, overrun.limit, overrun.used))

    def changed(self, device: str, trouble: Trouble | None) -> None:
        """A device is drained, or in order again. Called in any thread."""
        self._loop.call_soon_threadsafe(self._changed, device, trouble)

    def slices_changed(self, device: str, trouble: Trouble | None) -> None:
        """The slices of a device are unusable, or in order again; the device itself may be well."""
        self._loop.call_soon_threadsafe(self._changed, device, trouble, "slices")

    def _changed(self, device: str, trouble: Trouble | None, of: str = "health") -> None:
        """Report a device as in order only if neither it nor its slices have trouble."""
        if trouble is not None:
            self._troubles[device, of] = trouble
        else:
            self._troubles.pop((device, of), None)
        left = next((self._troubles[key] for key in sorted(self._troubles) if key[0] == device), None)
        cause, code, message = left or ("", 0, "in order again")
        _log.warning("device_changed", device=device, cause=cause or "none", reason=message)
        self._unfit[device] = message if cause else ""
        self._handle(v.DeviceChanged(self._now(), device, cause, code, message))

    async def run(self, every: float) -> None:
        """Sample and report until cancelled."""
        if self._idleness:
            self._devices.listen(self.changed)
        while True:
            if self._to is not None:
                try:
                    await self.sample(self._to)
                except Exception:  # noqa: BLE001 - whatever a driver says, the node goes on, and samples again
                    _log.exception("look_failed")
            await asyncio.sleep(every)

    async def sample(self, to: MonitorListeners) -> None:
        """Sample once, and report."""
        at = self._now()
        held = list(to.held())
        leaders = {one.running.pid: one.order.lease for one in held if one.running is not None}
        since = self._before[0]
        seen = await asyncio.to_thread(self._see, at, since, leaders)
        for device, trouble in seen.changes.items():
            self._changed(device, trouble)
        self._report_strangers(to)
        samples = Samples(
            node=self._node,
            at=at,
            window=WINDOW,
            devices=tuple(self._device_samples(at, seen, held)),
            leases=tuple(self._lease_samples(at, seen, leaders, to.used())),
        )
        self._before = at, seen.uses
        await to.publish("samples", encode(samples))

    def _report_strangers(self, to: MonitorListeners) -> None:
        """Report free devices on which processes of no lease hold memory in two successive looks, and those that they have left."""
        taken = {share.device for one in to.held() for share in one.order.devices}
        used = to.used()
        there = {device: mib for device in self._idleness if device not in taken and (mib := used.get(("", device), 0)) > STRAY}
        for device in there.keys() & self._strangers - self._foreign:
            message = f"processes that are not of Headrace's jobs hold {there[device]} MiB of it"
            self._changed(device, Trouble("foreign_process", there[device], message), "processes")
        for device in self._foreign - there.keys():
            self._changed(device, None, "processes")
        self._foreign = {device for device, of in self._troubles if of == "processes"}
        self._strangers = set(there)

    def _see(self, at: int, since: int, leaders: dict[int, str]) -> MonitorSample:
        found = usage.uses(usage.processes(), leaders) if leaders else {}
        if not self._idleness:
            return MonitorSample({}, {}, {}, found)
        return MonitorSample(
            self._devices.check_health(at), self._devices.samples(), self._devices.busy_of(since) if leaders else {}, found
        )

    def _device_samples(self, at: int, seen: MonitorSample, held: Iterable[RunningLease]) -> Iterable[DeviceSample]:
        taken = {share.device for one in held for share in one.order.devices}
        for device, window in self._idleness.items():
            sample = seen.samples.get(device, Sample(None, 0))
            over = window.note(at, sample.busy, held=device in taken)
            yield DeviceSample(
                device=device,
                busy=sample.busy,
                memory_used=sample.memory,
                memory=self._memory[device],
                unfit=self._unfit[device],
                held=over.held,
                average=over.average,
                idle=over.idle,
            )

    def _lease_samples(
        self, at: int, seen: MonitorSample, leaders: dict[int, str], taken: Mapping[tuple[str, str], int]
    ) -> Iterable[LeaseSample]:
        before, earlier = self._before
        cores = usage.millicores(earlier.items(), seen.uses, at - before)
        memory: dict[str, dict[str, int]] = {}
        for (lease, device), mib in taken.items():
            memory.setdefault(lease, {})[device] = mib
        for lease, use in seen.uses.items():
            pids = [pid for pid, other in leaders.items() if other == lease]
            busy = max((seen.busy[pid] for pid in pids if pid in seen.busy), default=None)
            yield LeaseSample(
                lease=lease,
                cpu=cores.get(lease, 0),
                memory=use.memory // MIB,
                processes=use.processes,
                devices=memory.get(lease, {}),
                busy=busy,
            )
