"""The GPUs of the node behind one face.

The question it answers: *which devices are here, how does a job come to see exactly its own, and is anything left on them?*

- `Devices` is the face; `simulated` makes devices out of nothing, for laptops, tests and the demonstration.

It never decides who gets a device, and never changes one that it was not told to use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.nodes import Device


class DevicesUnknown(ValueError):
    """What was asked for as devices makes no sense here; the message says what to write."""


class Devices(Protocol):
    """The devices of one kind on this node."""

    @property
    def isolation(self) -> str:
        """What keeps a job to its own devices: a level of `enforcement.LEVELS`."""

    @property
    def suspension(self) -> str:
        """How a job that stands still comes off its devices, as facts name it; empty where it cannot (R29)."""

    def inventory(self) -> tuple[Device, ...]:
        """Every device, in the order of its number."""

    def environment(self, shares: Sequence[DeviceShare]) -> dict[str, str]:
        """The variables through which a job finds its devices, and no others."""

    def holder(self, shares: Sequence[DeviceShare]) -> str:
        """Who is still on these devices; empty where they are free."""
