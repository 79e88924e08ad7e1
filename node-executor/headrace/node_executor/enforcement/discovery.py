"""Finds the mechanisms that may work on this node, by its devices and installed software; each still has to prove itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices import Devices
from headrace.node_executor.devices.health import Trouble
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.enforcement.device_isolation import CgroupDeviceList, DeviceNodeIsolation, PrivateDev
from headrace.node_executor.enforcement.enforcement import Mechanisms
from headrace.node_executor.enforcement.group_limits import GroupLimits
from headrace.node_executor.enforcement.mig import MigJournal, MigMechanism
from headrace.node_executor.enforcement.mps import MpsMechanism
from headrace.node_executor.enforcement.preload import PreloadMechanism
from headrace.node_executor.enforcement.probe_run import ProbeRun
from headrace.node_executor.system import native
from headrace.node_executor.system.accounts import UserAccount
from headrace.node_executor.system.c_programs import LIBRARY, MEMORY_CAP, PRIVATE_DEV
from headrace.node_executor.system.cgroups import holds_processes, visible_group

PLACE = "HEADRACE_NATIVE_DIR"
"""Variable by which an operator sets another directory for them."""

PIPES = "/run/headrace"


def mechanisms_for(
    node: str,
    data: str,
    devices: Devices,
    environ: Mapping[str, str],
    report: Callable[[str, Trouble | None], None],
    account: UserAccount | None = None,
) -> Mechanisms:
    """Return the mechanisms for these devices; none for simulated ones, which need no enforcement. `data`: the executor's directory.

    `account`: one like those of jobs, as which every mechanism is tested; None if jobs run as the executor.
    """
    if devices.quick:
        return Mechanisms()
    base, place = unified_base(node), native_place(data, environ)
    if account is not None:
        everything = [DeviceShare(device=device.device, units=GPU_UNITS) for device in devices.inventory()]
        account = account.with_devices(devices.nodes(everything))
    trial = ProbeRun(account)
    mechanisms: list[DeviceNodeIsolation] = [CgroupDeviceList(base, trial)] if base and os.geteuid() == 0 else []
    private_dev = native.built(PRIVATE_DEV, place)
    mechanisms += [PrivateDev(private_dev, trial)] if private_dev else []
    if not isinstance(devices, NvmlDevices):
        return Mechanisms(tuple(mechanisms))
    pipes = f"{PIPES}/{node}/mps" if os.geteuid() == 0 else f"{data}/mps"
    parts = (
        GroupLimits(devices, base if os.geteuid() == 0 else "", trial),
        MpsMechanism(devices, pipes, trial=trial),
        PreloadMechanism(devices, native.built(MEMORY_CAP, place, LIBRARY), data, trial),
    )
    return Mechanisms(tuple(mechanisms), MigMechanism(devices, MigJournal(f"{data}/slices"), report), parts)


def native_place(data: str, environ: Mapping[str, str]) -> str:
    """Return the directory for programs and libraries that are built here, and loaded or run by jobs.

    The operator's choice; for root below the data directory, which accounts of jobs may pass through; else the user's cache, because jobs
    then run as the same user.
    """
    if environ.get(PLACE):
        return environ[PLACE]
    return f"{data}/native" if os.geteuid() == 0 else native.cache_directory(environ, f"{data}/bin")


def unified_base(node: str, mounts: str = "/proc/self/mounts", own: str = "/proc/self/cgroup") -> str:
    """Return the directory of cgroup version 2 below which this node's groups are; empty if that is not mounted."""
    with open(mounts, encoding="utf-8") as file:
        mount = next((words[1] for words in map(str.split, file) if words[2] == "cgroup2"), "")
    with open(own, encoding="utf-8") as file:
        here = next((line.rstrip("\n")[3:].rstrip("/") for line in file if line.startswith("0::")), "")
    if not mount:
        return ""
    own = visible_group(mount, here)
    return f"{own if holds_processes(own) else mount}/headrace.{node}"
