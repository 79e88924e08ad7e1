"""A cap from within: a library in the job's processes that refuses memory beyond its part (`native/memory_cap.c`).

It holds whatever uses CUDA as it is meant to be used, and shows it its part as if it were the whole. Who wants to get around it can.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from headrace.contracts.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.enforcement import CannotEnclose, Case, Enclosure
from headrace.node_executor.enforcement.parts import CONTEXT, from_within, part_of
from headrace.node_executor.enforcement.trial import refused_beyond

LEVEL = "cooperative"
SOURCE = os.path.join(os.path.dirname(__file__), "native", "memory_cap.c")
FLAGS = (("-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-Wl,--no-as-needed", "-ldl", "-lpthread"),)
COUNTS = "gpu-memory"
MIB = 1024 * 1024
TRIED = 2_048


class PreloadFence:
    """The library at `library`, for the GPUs of `devices`. `control`: a directory for the canary's counts."""

    name = "preloaded cap"

    def __init__(
        self,
        devices: NvmlDevices,
        library: str,
        control: str,
        refused: Callable[[int, dict[str, str]], bool] = refused_beyond,
    ) -> None:
        self._devices = devices
        self._library = library
        self._control = control
        self._refused = refused

    def prove(self) -> str:
        """The canary is refused what is beyond its cap."""
        name = self._devices.roomiest
        if not name or not self._library:
            return ""
        counts = f"{self._control}/canary-{COUNTS}"
        env = self._env(TRIED, counts) | {"CUDA_VISIBLE_DEVICES": self._devices.gpu(name).uuid}
        try:
            return LEVEL if self._refused(TRIED, env) else ""
        finally:
            if os.path.exists(counts):
                os.unlink(counts)

    def enclose(self, case: Case) -> Enclosure:
        """The library, and a file in which the job's processes count together. A library that has gone would be ignored without a word."""
        if not os.access(self._library, os.R_OK):
            raise CannotEnclose(f"the library that caps its memory is gone: {self._library}")
        return self._around(case)

    def _around(self, case: Case) -> Enclosure:
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

    def adopt(self, case: Case) -> Enclosure:
        """Nothing has to be taken down."""
        return self._around(case)

    def open(self, lease: str) -> str:  # noqa: ARG002 - the face of all fences
        """It went with the processes; the file goes with the control directory."""
        return ""
