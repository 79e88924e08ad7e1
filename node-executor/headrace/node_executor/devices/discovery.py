"""Finds and initialises the devices that `--devices` asks for."""

from __future__ import annotations

from headrace.node_executor.devices import Devices, DevicesUnknown
from headrace.node_executor.devices.amd import AmdDevices, amd_library
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import Nvml, NvmlError
from headrace.node_executor.devices.simulated import SimulatedDevices, simulated


def find_devices(text: str) -> Devices:
    """Return the devices for `auto`, `nvml`, `amd`, `none` or `sim:8xH100-80GB`. Raises `DevicesUnknown`.

    `auto` takes what there is, NVIDIA's first, or no devices; the others fail without what they name.
    """
    kind, _, rest = text.partition(":")
    if kind == "sim":
        return simulated(rest)
    if text == "none":
        return SimulatedDevices(())
    if text == "nvml":
        return _nvidia()
    if text == "amd":
        return AmdDevices(amd_library())
    if text == "auto":
        return _any_devices()
    raise DevicesUnknown(f"unknown kind of devices {text!r}; write auto, nvml, amd, none or sim:8xH100-80GB")


def _nvidia() -> NvmlDevices:
    try:
        return NvmlDevices(Nvml())
    except NvmlError as error:
        raise DevicesUnknown(f"NVML cannot be used: {error}; is the driver installed, and may this user use it?") from None


def _any_devices() -> Devices:
    for find in (_nvidia, lambda: AmdDevices(amd_library())):
        try:
            found: Devices = find()
        except DevicesUnknown:
            continue
        if found.inventory():
            return found
        found.close()
    return SimulatedDevices(())
