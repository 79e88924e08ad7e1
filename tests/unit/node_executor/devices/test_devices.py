"""Every kind of device has the whole face."""

from __future__ import annotations

from headrace.node_executor.devices import Devices
from headrace.node_executor.devices.simulated import SimulatedDevices


def test_simulated_devices_are_devices() -> None:
    promised = {name for name in vars(Devices) if not name.startswith("_")}
    assert promised == {"isolation", "inventory", "environment", "holder"}
    assert all(hasattr(SimulatedDevices, name) for name in promised)
