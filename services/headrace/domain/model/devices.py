"""One GPU as the fold keeps it, whole, shared or cut into slices (R3, R4), and how the pool counts what is cut."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from headrace.contracts.values.amounts import GPU, GPU_UNITS, is_gpu
from headrace.contracts.values.mig import EMPTY, Layout, charge, open_starts, put, remove

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.facts.fact import DeviceShare
    from headrace.contracts.values.amounts import Amounts

    Charges = dict[tuple[str, str], int]
    """(node, device) to the charges of the slices on it."""


class HeldDevices(Protocol):
    """Devices of one node, as a place or a lease names them."""

    @property
    def node(self) -> str:
        """Name of the device's node."""

    @property
    def devices(self) -> tuple[DeviceShare, ...]:
        """The shares of its devices."""

    @property
    def amounts(self) -> Amounts:
        """All that is charged for it."""


@dataclass(slots=True, eq=False)
class DeviceState:
    """One GPU. `free` is what no lease holds, `nominated` what is kept for preemptors, in units (R1).

    In MIG mode its `family` says how it is cut, `slices` are those that leases hold, `kept` those that are kept (R4); these devices take
    nothing but slices, and others take none (R3). What its mode was when a lease began may have changed since: that is left over, and
    while it is there the device takes nothing.

    `unfit`: why its node has drained it, since `unfit_at`; nothing is granted on it before the node takes that back. `nvlink`: its group
    of GPUs that reach each other (R40).
    """

    name: str
    model: str
    memory: int
    free: int
    nominated: int = 0
    mig: bool = False
    family: str = ""
    slices: tuple[tuple[int, str], ...] = EMPTY
    kept: tuple[tuple[int, str], ...] = EMPTY
    unfit: str = ""
    unfit_at: int = 0
    nvlink: str = ""

    @property
    def open(self) -> int:
        """Units that any job may be granted as fractions, or as a whole."""
        if self.denies_units:
            return 0
        return max(0, self.free - self.nominated)

    @property
    def denies_units(self) -> bool:
        """Whether no units of it are given: it is in slices now, some are left over from before, or it is unfit."""
        return bool(self.mig or self.slices or self.kept or self.unfit)

    @property
    def layout(self) -> Layout | None:
        """Slices on it, present and nominated; None if no slice of it may be granted."""
        if not self.mig or self.free < GPU_UNITS or self.nominated or self.unfit:
            return None
        return tuple(sorted(self.slices + self.kept)) if self.kept else self.slices

    @property
    def idle(self) -> int:
        """Units that are neither held nor kept; a device in MIG mode counts with at most one GPU (R4)."""
        return 0 if self.unfit else self.unused

    @property
    def unused(self) -> int:
        """The same of a device that is unfit as well."""
        return max(0, self.free - self.nominated - self._charged(self.slices + self.kept))

    @property
    def unheld(self) -> int:
        """Units that no lease holds, whether or not they are kept for a job."""
        return max(0, self.free - self._charged(self.slices))

    @property
    def is_between_modes(self) -> bool:
        """Whether leases or kept places from before its MIG mode changed are left on it: it takes nothing until they have gone."""
        return (self.free < GPU_UNITS or self.nominated > 0) if self.mig else bool(self.slices or self.kept)

    def _charged(self, slices: Layout) -> int:
        return sum(charge(name, (self.family,)) for _, name in slices)

    def could_give(self, share: DeviceShare) -> bool:
        """Whether these units, or this slice just there, could be granted now."""
        if not share.mig:
            return self.open >= share.units
        return self.layout is not None and share.start in open_starts(self.family, self.layout, share.mig)

    def take(self, share: DeviceShare, sign: int) -> None:
        """A lease holds the share, or with sign -1 does so no more."""
        if share.mig:
            self.cut(share, sign)
        else:
            self.free -= sign * share.units

    def cut(self, share: DeviceShare, sign: int) -> None:
        """The same of a slice."""
        self.slices = (put if sign > 0 else remove)(self.slices, share.start, share.mig)

    def twin(self) -> DeviceState:
        """A copy, to try on what may be taken of it: written out as `jobs` says, since a look makes many."""
        twin = DeviceState.__new__(DeviceState)
        twin.name, twin.model, twin.memory = self.name, self.model, self.memory
        twin.free, twin.nominated, twin.mig, twin.family = self.free, self.nominated, self.mig, self.family
        twin.slices, twin.kept, twin.unfit, twin.unfit_at = self.slices, self.kept, self.unfit, self.unfit_at
        twin.nvlink = self.nvlink
        return twin

    def keep(self, share: DeviceShare, sign: int) -> None:
        """The share is kept for a preemptor (R27), or with sign -1 no more."""
        if share.mig:
            self.kept = (put if sign > 0 else remove)(self.kept, share.start, share.mig)
        else:
            self.nominated += sign * share.units


@dataclass(slots=True, eq=False)
class CutDevices:
    """Charges of slices by (node, device), for the pool's accounts, in which a device counts with at most one GPU (R4).

    Those that are charged by model (R43) stand beside them by themselves.
    """

    leased: dict[tuple[str, str], int] = field(default_factory=dict)
    use: dict[tuple[str, str], int] = field(default_factory=dict)
    nominated: dict[tuple[str, str], int] = field(default_factory=dict)


def change(charges: Charges, taken: Iterable[HeldDevices], given: Iterable[HeldDevices] = (), key: str = GPU) -> int:
    """By how many units of `key` the pool's count rises if `taken` are taken and `given` are given back; nothing is changed.

    `key`: all GPUs, or those of one model; then only places count that are charged for it.
    """
    rises, mark = 0, _mark(key)
    cut: Charges = {}
    for sign, places in ((1, taken), (-1, given)):
        for place in places:
            for share in place.devices if key in place.amounts else ():
                if share.mig:
                    device = place.node, share.device + mark
                    cut[device] = cut.get(device, 0) + sign * share.units
                else:
                    rises += sign * share.units
    for device, units in cut.items():
        before = charges.get(device, 0)
        rises += min(before + units, GPU_UNITS) - min(before, GPU_UNITS)
    return rises


def counted(charges: dict[tuple[str, str], int], held: HeldDevices, sign: int) -> Amounts:
    """How the pool counts what is taken (with sign -1: given back); `charges` is brought up to date.

    That is what is charged but for slices: of a device that is cut no more than one GPU counts, whatever its slices are charged.
    """
    for share in held.devices:
        if share.mig:
            return {
                key: amount - _beyond(charges, held, sign, _mark(key)) if is_gpu(key) else amount
                for key, amount in held.amounts.items()
            }
    return held.amounts


def _mark(key: str) -> str:
    """What tells the charges of a device for its model, by jobs that are charged by model, from all its charges."""
    return "" if key == GPU else f" {key}"


def _beyond(charges: dict[tuple[str, str], int], held: HeldDevices, sign: int, mark: str) -> int:
    """By how much what is held is charged more than it counts; `charges` is brought up to date."""
    beyond = 0
    for share in held.devices:
        if share.mig:
            device = held.node, share.device + mark
            before = charges.get(device, 0)
            after = before + sign * share.units
            if after:
                charges[device] = after
            else:
                charges.pop(device, None)
            beyond += share.units - sign * (min(after, GPU_UNITS) - min(before, GPU_UNITS))
    return beyond
