"""What isolation a lease really gets, from none to hardware. Recorded with the lease, never overstated (interfaces page, `isolation`).

This version enforces nothing by itself: a job on simulated devices is `simulated`, and a job without devices `none`, because its
CPU and memory are counted but not limited.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.contracts.facts.fact import DeviceShare
from headrace.node_executor.devices import Devices

LEVELS = ("none", "simulated", "watchdog", "cooperative", "driver", "kernel", "hardware")
"""From the weakest to the strongest. A profile's `any` is met by all of them."""


def obtained(devices: Devices, shares: Sequence[DeviceShare]) -> str:
    """The level for a job that holds `shares`."""
    return devices.isolation if shares else "none"
