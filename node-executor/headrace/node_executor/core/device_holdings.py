"""Units or MIG slices of one device that leases hold (R3, R4)."""

from __future__ import annotations

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.mig import EMPTY, family_of, open_starts, put, remove

NOT_FREE = "is not free"


class DeviceHoldings:
    """The node's own count of what is taken of a device. Refuses shares that do not fit, even if the ledger ordered them."""

    def __init__(self, device: Device) -> None:
        self.free = GPU_UNITS
        self.unfit = device.unfit
        self.slices = EMPTY
        self._mig = device.mig
        self._family = family_of(device.model, device.memory) if device.mig else ""

    def objection(self, share: DeviceShare) -> str:
        """Return why the share cannot be taken now, or "" if it can."""
        if self.unfit:
            return f"is drained: {self.unfit}"
        if bool(share.mig) != self._mig:
            return "is in MIG mode: it is given in slices only" if self._mig else "is not in MIG mode"
        if share.mig:
            return "" if share.start in open_starts(self._family, self.slices, share.mig) else NOT_FREE
        return "" if share.units <= self.free else NOT_FREE

    def take(self, share: DeviceShare) -> None:
        """Take a share to which `objection` found nothing."""
        if share.mig:
            self.slices = put(self.slices, share.start, share.mig)
        else:
            self.free -= share.units

    def give_back(self, share: DeviceShare) -> None:
        if share.mig:
            self.slices = remove(self.slices, share.start, share.mig)
        else:
            self.free += share.units
