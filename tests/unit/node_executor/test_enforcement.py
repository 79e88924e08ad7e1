from __future__ import annotations

from headrace.contracts.facts.fact import DeviceShare
from headrace.node_executor.devices.simulated import simulated
from headrace.node_executor.enforcement import LEVELS, obtained


def test_a_job_gets_what_its_devices_give_and_without_devices_nothing() -> None:
    devices = simulated("1xH100-80GB")
    assert obtained(devices, (DeviceShare(device="gpu0", units=63_000),)) == "simulated"
    assert obtained(devices, ()) == "none"
    assert {"simulated", "none"} <= set(LEVELS)
