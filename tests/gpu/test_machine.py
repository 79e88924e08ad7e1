"""What NVML says of a real machine, beside what our tables and the mock say."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time

import pytest

from headrace.contracts.values.mig import FAMILIES, family_of
from headrace.node_executor.devices.health import Trouble
from headrace.node_executor.devices.nvml import LIMITS_FROM, NvmlDevices
from headrace.node_executor.enforcement.group_limits import GroupLimits
from tests.gpu.programs import FAULT


def test_the_inventory_is_complete_and_in_order(devices: NvmlDevices, figure) -> None:
    for device in devices.inventory():
        figure("device", device)
        assert device.memory > 1_000
        assert device.model.endswith("GB")
        assert device.unfit == ""
    figure("labels", dict(devices.labels))


def test_health_can_be_asked_and_events_can_be_heard(devices: NvmlDevices, figure) -> None:
    for name in devices.names:
        figure(name, devices.nvml.health_report(devices.gpu(name).uuid))
    assert devices.nvml.wait(devices.nvml.listen(), 10) is None


def test_slices_are_cut_as_the_tables_say_read_without_touching_mig(devices: NvmlDevices, figure) -> None:
    for device in devices.inventory():
        gpu = devices.gpu(device.device)
        family = family_of(device.model, device.memory)
        found = {kind.name: (kind.compute, kind.size) for kind in devices.nvml.kinds(gpu.uuid)}
        figure(device.device, {kind.name: (kind.compute, kind.size, kind.memory) for kind in devices.nvml.kinds(gpu.uuid)})
        if gpu.mig is None or not family:
            assert found == {}
            continue
        tables = {name: (kind.compute, kind.memory) for name, kind in FAMILIES[family].slices.items()}
        known = {name: sizes for name, sizes in found.items() if name in tables and sizes[1]}
        assert known == {name: tables[name] for name in known}
        assert known, "no slice of the tables is offered"


def test_memory_limits_of_cgroups_are_where_the_driver_is_new_enough(devices: NvmlDevices, gpu: str, tmp_path) -> None:
    has = devices.nvml.limits_group(devices.gpu(gpu).uuid, str(tmp_path))
    assert has is False or devices.major >= LIMITS_FROM
    if devices.major < LIMITS_FROM:
        assert GroupLimits(devices, str(tmp_path)).prove() == ""


def test_a_program_that_writes_where_nothing_is_harms_itself_and_not_the_gpu(devices: NvmlDevices, gpu: str, figure) -> None:
    if not hasattr(ctypes.CDLL("libcuda.so.1"), "cuModuleLoadData"):
        pytest.skip("libcuda here runs no programs")
    events: list[tuple[str, Trouble]] = []
    devices.listen(lambda name, trouble: events.append((name, trouble)))
    env = os.environ | {"CUDA_VISIBLE_DEVICES": devices.gpu(gpu).uuid}
    done = subprocess.run([sys.executable, "-c", FAULT], env=env, capture_output=True, text=True, check=False)
    figure("what the driver says to an illegal address", done.stdout.strip() or done.stderr[-500:])
    assert done.stdout.strip() not in {"", "0"}
    time.sleep(2.0)  # its XID, 31, comes when it comes
    assert devices.check_health(time.time_ns() // 1_000) == {}
    assert (events, [device.unfit for device in devices.inventory()]) == ([], [""] * len(devices.names))


def test_what_a_device_does_can_be_asked(devices: NvmlDevices, figure) -> None:
    figure("samples", devices.samples())
    assert set(devices.samples()) == set(devices.on_devices()) == set(devices.names)
