"""Memory limits of cgroups that NVIDIA's driver enforces, from driver 615 on: for any process in the job's cgroup.

Strategy: the limit is set on the job's own cgroup (version 2), so that a program is shown its part as if it were the GPU. The limit has
to be lifted before the cgroup is removed, else the driver keeps the memory reserved for ever.
"""

from __future__ import annotations

import contextlib
import os

import structlog

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import NvmlError
from headrace.node_executor.enforcement import CannotEnclose, Enclosure, EnforcementRequest
from headrace.node_executor.enforcement.parts import part_of
from headrace.node_executor.enforcement.probe_run import ProbeRun
from headrace.node_executor.runtimes import JOB

LEVEL = "kernel"
TRIED = 2_048
"""Limit of the probe in MiB."""

_log = structlog.get_logger("headrace.node_executor")


class GroupLimits:
    """Limits on the GPUs of `devices`; `base`: a directory of cgroup v2 in which the probe's group may be made; `trial` runs the probe."""

    name = "memory limits of cgroups"

    def __init__(self, devices: NvmlDevices, base: str, trial: ProbeRun | None = None) -> None:
        self._devices = devices
        self._nvml = devices.nvml
        self._base = base
        self._trial = trial or ProbeRun()
        self._set: dict[str, list[tuple[str, str]]] = {}

    def prove(self) -> str:
        """Return the level if the probe, in a cgroup with a limit, is refused memory beyond it."""
        name = self._devices.least_used
        if not name or not self._base:
            return ""
        group, uuid = f"{self._base}/probe-memory-{os.getpid()}", self._devices.gpu(name).uuid
        try:
            os.makedirs(group, 0o755, exist_ok=True)
            if not self._nvml.limits_group(uuid, group):
                return ""
            self._nvml.limit_group(uuid, group, TRIED)
            inner = f"{group}/{JOB}"  # where jobs are; some drivers limit the group itself only
            os.makedirs(inner, 0o755, exist_ok=True)
            try:
                return LEVEL if self._trial.refuses_beyond(TRIED, {"CUDA_VISIBLE_DEVICES": uuid}, inner) else ""
            finally:
                self._nvml.limit_group(uuid, group, None)
        except (NvmlError, OSError) as error:
            _log.warning("no_memory_limits", reason=str(error))
            return ""
        finally:
            for path in (f"{group}/{JOB}", group):
                with contextlib.suppress(OSError):
                    os.rmdir(path)

    def enclose(self, case: EnforcementRequest) -> Enclosure:
        """Set a limit for each part of a GPU that the lease has."""
        if not case.group:
            raise CannotEnclose("it has no cgroup that a limit could be set on")
        for share in case.shares:
            gpu = self._devices.gpu(share.device)
            if share.units < GPU_UNITS:
                try:
                    self._nvml.limit_group(gpu.uuid, case.group, part_of(gpu.memory, share.units))
                except NvmlError as error:
                    self.open(case.lease)
                    raise CannotEnclose(f"its memory cannot be limited: {error}") from None
                self._set.setdefault(case.lease, []).append((gpu.uuid, case.group))
        return Enclosure(LEVEL)

    def adopt(self, case: EnforcementRequest) -> Enclosure:
        """Note its limits, which still hold."""
        for share in case.shares:
            if share.units < GPU_UNITS and case.group:
                self._set.setdefault(case.lease, []).append((self._devices.gpu(share.device).uuid, case.group))
        return Enclosure(LEVEL)

    def open(self, lease: str) -> str:
        for uuid, group in self._set.pop(lease, ()):
            try:
                self._nvml.limit_group(uuid, group, None)
            except NvmlError as error:
                _log.warning("limit_not_lifted", lease=lease, reason=str(error))
        return ""
