"""The mechanisms of this node, proved and ranked, and what each lease gets of them.

Strategy: at the start every mechanism tests itself; of those for parts of a GPU the one with the best level is used, the first of equal
ones. Without isolation of devices every level is only `cooperative`. The watchdog works in any case.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import structlog

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.isolation import FRACTION, KINDS, SLICE, WHOLE, rank, weakest
from headrace.node_executor.devices import Devices, OnDevice, held_by
from headrace.node_executor.enforcement import CannotEnclose, Enclosure, EnforcementRequest, Entered, Mechanism, SliceMechanism
from headrace.node_executor.enforcement.device_isolation import (
    DeviceNodeIsolation,
    IsolatedLaunch,
    NoDeviceNodeIsolation,
    strongest,
)
from headrace.node_executor.enforcement.owners import LeaseOwners
from headrace.node_executor.enforcement.parts import overrun_at, part_of
from headrace.node_executor.enforcement.watchdog import Limit, Overrun, Watchdog

WITHOUT_WALL = "cooperative"
WATCHED = "watchdog"
HARDWARE = "hardware"
MPS, EXCLUSIVE = "MPS", "driver"
"""Where MPS reaches this level, its GPUs are in exclusive mode: only its clients can use them."""

_log = structlog.get_logger("headrace.node_executor")


class Mechanisms(NamedTuple):
    """Mechanisms that may work here, best first: for device isolation, for slices, and for parts of a GPU."""

    device_isolation: tuple[DeviceNodeIsolation, ...] = ()
    slices: SliceMechanism | None = None
    parts: tuple[Mechanism, ...] = ()


class Enforcement:
    """Enforcement on `devices`. `report` is called for overruns, in the watchdog's thread."""

    def __init__(
        self, devices: Devices, mechanisms: Mechanisms, owners: LeaseOwners, report: Callable[[Overrun], None]
    ) -> None:
        self._devices = devices
        self._mechanisms = mechanisms
        self._owners = owners
        self._device_isolation: DeviceNodeIsolation = NoDeviceNodeIsolation()
        self._parts: tuple[Mechanism, ...] = ()
        self._memory = {device.device: device.memory for device in devices.inventory()}
        self._entered: dict[str, EnforcementRequest] = {}
        self.watchdog = Watchdog(devices.on_devices, owners.of, report)
        self.levels: dict[str, str] = dict.fromkeys(KINDS, devices.isolation if self._memory else "none")

    @property
    def quick(self) -> bool:
        """True if no call here waits for a driver."""
        return self._devices.quick

    @property
    def overall(self) -> str:
        """The level that it reaches for every kind of part."""
        return weakest(*self.levels.values())

    @property
    def shared(self) -> bool:
        """True if programs can share a GPU without being clients of MPS, which containers are not."""
        return not (self._parts and self._parts[0].name == MPS and self.levels[FRACTION] == EXCLUSIVE)

    def prove(self) -> None:
        """Test every mechanism, once, before any level is offered."""
        if self._devices.quick:
            return
        self._device_isolation = strongest(self._mechanisms.device_isolation)
        proved = [(mechanism, level) for mechanism in self._mechanisms.parts if (level := mechanism.prove())]
        proved.sort(key=lambda one: -rank(one[1]))
        best = proved[0][1] if proved else WATCHED
        self._parts = self._of_one_level([mechanism for mechanism, _ in proved])
        sliced = self._mechanisms.slices.prove() if self._mechanisms.slices is not None else ""
        self.levels = {
            WHOLE: self._behind(HARDWARE),
            FRACTION: self._behind(best),
            SLICE: self._behind(sliced) if sliced else "none",
        }
        names = [mechanism.name for mechanism in self._parts]
        _log.info("isolation_proved", mechanism=self._device_isolation.name, parts=names, **self.levels)
        self.watchdog.start()

    def _of_one_level(self, proved: Sequence[Mechanism]) -> tuple[Mechanism, ...]:
        """Return the best, and with MPS also a limit inside the processes: MPS alone shows programs the whole GPU as if it were theirs."""
        if proved and proved[0].name == MPS:
            return tuple(mechanism for mechanism in proved if mechanism.name in {MPS, "preloaded cap"})
        return tuple(proved[:1])

    def _behind(self, level: str) -> str:
        """Return the level if devices are isolated; else `cooperative` at most."""
        return weakest(level, WITHOUT_WALL) if isinstance(self._device_isolation, NoDeviceNodeIsolation) else level

    def enter(self, case: EnforcementRequest) -> Entered:
        """Set up everything for a lease, before its first instruction. Raises `CannotEnclose`; then nothing is left of it."""
        name = os.path.basename(case.control)
        self._owners.began(case.lease, case.control)
        if self._devices.quick:
            return Entered(self._devices.isolation if case.shares else "none", self._devices.environment(case.shares))
        self._entered[case.lease] = case
        try:
            group = "" if case.contained else self._device_isolation.group_of(name, case.group)
            enclosure = self._enclose(case._replace(group=group))
            nodes = (*self._devices.nodes(case.shares), *enclosure.nodes)
            walled = IsolatedLaunch() if case.contained else self._device_isolation.build(name, nodes, group)
        except CannotEnclose:
            self.leave(case.lease)
            raise
        self._watch(case)
        level = self._behind(enclosure.level) if case.shares else "none"
        env = self._devices.environment(case.shares) | enclosure.env
        return Entered(level, env, walled.group or ("" if case.group else group), walled.prefix, enclosure.nodes)

    def _enclose(self, case: EnforcementRequest) -> Enclosure:
        kind = kind_of(case.shares)
        if kind == SLICE:
            if self._mechanisms.slices is None or self.levels[SLICE] == "none":
                raise CannotEnclose("this node cannot make slices")
            return self._mechanisms.slices.enclose(case)
        if kind != FRACTION:
            return Enclosure(HARDWARE)
        if case.contained:
            if not self.shared:
                raise CannotEnclose("its GPU is in exclusive mode and shared by MPS, and containers are not clients of MPS")
            return Enclosure(WATCHED)
        found = [mechanism.enclose(case) for mechanism in self._parts]
        env = {name: value for one in found for name, value in one.env.items()}
        return Enclosure(found[0].level if found else WATCHED, env)

    def _watch(self, case: EnforcementRequest) -> None:
        limits = {}
        for share in case.shares:
            memory = self._memory.get(
                share.device, 0
            )  # for a device that a former executor had and that is gone, nothing is left
            part = part_of(memory, share.units)
            limits[share.device] = Limit(part, memory if share.units >= GPU_UNITS else overrun_at(part))
        self.watchdog.given(case.lease, limits)

    def adopt(self, case: EnforcementRequest) -> Entered:
        """Take over a running lease that a former executor enclosed; what else is started for it gets the same."""
        self._owners.began(case.lease, case.control)
        env = self._devices.environment(case.shares)
        if self._devices.quick:
            return Entered(self._devices.isolation if case.shares else "none", env)
        self._entered[case.lease] = case
        kind = kind_of(case.shares)
        here = case._replace(shares=tuple(share for share in case.shares if share.device in self._memory))
        used = (self._mechanisms.slices,) if kind == SLICE else self._parts if kind == FRACTION and not case.contained else ()
        for mechanism in used:
            if mechanism is not None:
                env |= mechanism.adopt(here).env
        self._watch(case)
        if case.contained:
            return Entered(self.levels.get(kind, "none"), env)
        name = os.path.basename(case.control)
        return Entered(
            self.levels.get(kind, "none"),
            env,
            *self._device_isolation.again(name, self._devices.nodes(case.shares), case.group),
        )

    def reconcile(self, alive: Iterable[str]) -> None:
        """After a start: remove what former executors left on the devices; `alive` are the leases that run."""
        if self._mechanisms.slices is not None:
            self._mechanisms.slices.reconcile(alive)

    def check_foreign_slices(self) -> None:
        """Look for slices that others have made or removed meanwhile. Called regularly."""
        if self._mechanisms.slices is not None:
            self._mechanisms.slices.check_foreign_slices()

    def started(self, lease: str, control: str, pid: int) -> None:
        """Note the first process of a lease."""
        self._owners.began(lease, control, pid)

    def leave(self, lease: str) -> str:
        """Release what a lease had, now that its processes are gone.

        Returns who is still on its devices, or what is in the way; empty: nothing.
        """
        case = self._entered.get(lease)
        if case is None:
            self._owners.ended(lease)
            return ""
        why = self._open(lease) or (self._holder(case, self._devices.on_devices()) if case.shares else "")
        if not why:
            self._end(case)
        return why

    def forget(self, lease: str) -> None:
        """Forget a lease that is over, whatever is on its devices: those of a suspended one may be another lease's by now (R29)."""
        case = self._entered.get(lease)
        self._owners.ended(lease)
        if case is not None:
            self._open(lease)
            self._end(case)

    def _end(self, case: EnforcementRequest) -> None:
        self._device_isolation.tear_down(os.path.basename(case.control))
        self.watchdog.taken(case.lease)
        self._owners.ended(case.lease)
        del self._entered[case.lease]

    def _open(self, lease: str) -> str:
        """Remove its mechanisms; returns what is in the way."""
        for mechanism in (*self._parts, *((self._mechanisms.slices,) if self._mechanisms.slices is not None else ())):
            why: str = mechanism.open(lease)
            if why:
                return why
        return ""

    def _holder(self, case: EnforcementRequest, found: Mapping[str, Sequence[OnDevice]]) -> str:
        """Return its own processes where it had a part, and any process on devices that were all its own."""
        mine = {share.device for share in case.shares}
        own = [
            f"process {one.pid} on {device}: {one.memory} MiB"
            for device in sorted(mine)
            for one in found.get(device, ())
            if self._owners.of(one.pid) == case.lease
        ]
        return ", ".join(own) or held_by(found, case.shares)

    def close(self) -> None:
        self.watchdog.stop()


def kind_of(shares: Sequence[DeviceShare]) -> str:
    """Return whether these are slices, a part of a GPU, or whole ones; empty without shares."""
    if any(share.mig for share in shares):
        return SLICE
    if any(share.units < GPU_UNITS for share in shares):
        return FRACTION
    return WHOLE if shares else ""
