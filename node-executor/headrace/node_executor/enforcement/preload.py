"""A limit inside the job's processes: a library that refuses memory beyond its part (`native/memory_cap.c`).

It limits programs that use CUDA as intended, and shows them their part as if it were the whole. Programs can evade it on purpose, and a
program that the system's dynamic loader does not start (linked statically, or against another C library) never loads it; then it cannot
load NVIDIA's libcuda either. The loader ignores a library that the job's account cannot read, with a line on stderr: so that is tested as
a job's account before the level is stated, and checked again for every job.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile

import structlog

from headrace.contracts.own_accounts import closed_to_others
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.enforcement import CannotEnclose, Enclosure, EnforcementRequest
from headrace.node_executor.enforcement.parts import CONTEXT, from_within, part_of
from headrace.node_executor.enforcement.probe_run import ProbeRun

LEVEL = "cooperative"
COUNTS = "gpu-memory"
MIB = 1024 * 1024
TRIED = 2_048

_log = structlog.get_logger("headrace.node_executor")


class PreloadMechanism:
    """The library at `library`, for the GPUs of `devices`. `control`: a directory in which the probe has its own; `trial` runs it."""

    name = "preloaded cap"

    def __init__(self, devices: NvmlDevices, library: str, control: str, trial: ProbeRun | None = None) -> None:
        self._devices = devices
        self._library = library
        self._control = control
        self._trial = trial or ProbeRun()

    def prove(self) -> str:
        """Return the level if the probe, run as a job's account with a directory of its own, is refused what is beyond its limit."""
        name = self._devices.least_used
        if not name or not self._library:
            return ""
        reason = self._unusable()
        if not reason:
            try:
                if self._holds(self._devices.gpu(name).uuid):
                    return LEVEL
                reason = (
                    self._trial.message
                    or "a program that runs as jobs do gets more memory than its part with the library preloaded"
                )
            except OSError as error:
                reason = f"{error.strerror}: {error.filename}"
        _log.warning(
            "no_preloaded_cap", reason=reason, help="jobs on parts of GPUs are not capped by it, and no level is claimed for it"
        )
        return ""

    def _holds(self, uuid: str) -> bool:
        directory, account = tempfile.mkdtemp(prefix="probe-", dir=self._control), self._trial.account
        try:
            if account is not None:
                os.chown(directory, account.uid, account.gid)
            env = self._env(TRIED, f"{directory}/{COUNTS}") | {"CUDA_VISIBLE_DEVICES": uuid}
            return self._trial.refuses_beyond(TRIED, env)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _unusable(self) -> str:
        """Return why jobs cannot load the library, as far as that can be seen; otherwise ""."""
        try:
            found = os.stat(self._library)
        except OSError as error:
            return f"the library that caps its memory is gone: {self._library}: {error.strerror}"
        if self._trial.account is None:
            return (
                "" if os.access(self._library, os.R_OK) else f"the library that caps its memory cannot be read: {self._library}"
            )
        if not found.st_mode & stat.S_IROTH:
            return f"the library that caps its memory cannot be read by accounts of jobs: {self._library}"
        closed = closed_to_others(self._library)
        return (
            f"the library that caps its memory cannot be reached by accounts of jobs: others cannot pass through {closed}"
            if closed
            else ""
        )

    def enclose(self, case: EnforcementRequest) -> Enclosure:
        """Return the library, and a file in which the job's processes count together. The loader would ignore an unreadable library."""
        if reason := self._unusable():
            raise CannotEnclose(reason)
        return self._around(case)

    def _around(self, case: EnforcementRequest) -> Enclosure:
        parts = [
            part_of(self._devices.gpu(share.device).memory, share.units) for share in case.shares if share.units < GPU_UNITS
        ]
        return Enclosure(LEVEL, self._env(from_within(sum(parts)), f"{case.control}/{COUNTS}"))

    def _env(self, cap: int, counts: str) -> dict[str, str]:
        return {
            "LD_PRELOAD": self._library,
            "HEADRACE_GPU_MEMORY_CAP": str(cap * MIB),
            "HEADRACE_GPU_MEMORY_CONTEXT": str(CONTEXT * MIB),
            "HEADRACE_GPU_MEMORY_FILE": counts,
        }

    def adopt(self, case: EnforcementRequest) -> Enclosure:
        """Does nothing: nothing has to be taken down."""
        return self._around(case)

    def open(self, lease: str) -> str:  # noqa: ARG002 - the face of all mechanisms
        """Does nothing: it ended with the processes; the file is removed with the control directory."""
        return ""
