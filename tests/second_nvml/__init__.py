"""A second mock of NVML, independent of `tests/mock_nvml`: written from NVML's documentation, to disagree where that one is too kind.

`HEADRACE_NVML_MOCK=second` makes every test that takes the fixture `machine` run on it; `test_same_suite` does that for the tests of
devices, health and slices, and `driver_cases.py` has what only this mock shows.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

CHOICE = "HEADRACE_NVML_MOCK"
STATE = "SECOND_NVML_STATE"
UUID = "GPU-a1b2c30{}-0000-4000-8000-000000000000"


def build(target: Path) -> Path:
    """Build the library under the name that drivers give it; returns its directory."""
    flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname,libnvidia-ml.so.1")
    source = Path(__file__).parent / "nvml.c"
    subprocess.run(
        [os.environ.get("CC", "cc"), *flags, "-o", str(target / "libnvidia-ml.so.1"), str(source), "-lpthread"], check=True
    )
    return target


class SecondMachine:
    """A machine with GPUs of this mock, with the methods that tests of the first use."""

    def __init__(self, libraries: Path, state: Path) -> None:
        self.libraries, self.state = libraries, state
        os.environ[STATE] = str(state)
        os.environ["LD_LIBRARY_PATH"] = str(libraries)
        # NVML's binding asks for the library by its name, and gets the one of that name that is loaded.
        self._library = ctypes.CDLL(str(libraries / "libnvidia-ml.so.1"), mode=ctypes.RTLD_GLOBAL)
        self.reset()

    def reset(
        self,
        count: int = 2,
        model: str = "NVIDIA H100 80GB HBM3",
        mib: int = 81_559,
        *,
        mig: bool = True,
        driver: str = "580.95.05",
    ) -> None:
        """Other GPUs, as new."""
        self._count = count
        self._library.second_nvml_reset(count, model.encode(), ctypes.c_uint64(mib), int(mig), driver.encode())

    def reboot(self, order: Sequence[int] = ()) -> None:
        """Boot it; NVML then numbers the GPUs in this order."""
        numbers = list(order) or list(range(self._count))
        self._library.second_nvml_boot((ctypes.c_int * len(numbers))(*numbers))

    def set(self, name: str, value: int, gpu: int = 0) -> None:
        """Set one value of a GPU, or of the machine. Raises KeyError if the name is unknown."""
        if not self._library.second_nvml_set(name.encode(), value, gpu):
            raise KeyError(name)

    def get(self, name: str, gpu: int = 0) -> int:
        """Read one value. Raises KeyError if the name is unknown."""
        value = ctypes.c_int()
        if not self._library.second_nvml_get(name.encode(), gpu, ctypes.byref(value)):
            raise KeyError(name)
        return value.value

    def process(self, pid: int, mib: int, gpu: int = 0, sm: int = 0, instance: int | None = None) -> None:
        """Have a process hold memory of a GPU, or of a slice of it."""
        self._library.second_nvml_process(pid, ctypes.c_uint64(mib), gpu, sm, -1 if instance is None else instance)

    def gone(self, pid: int) -> None:
        """Have the process hold nothing any more."""
        self._library.second_nvml_gone(pid)

    def event(self, kind: int, data: int = 0, gpu: int = 0) -> None:
        """Have the driver report an event."""
        self._library.second_nvml_event(ctypes.c_uint64(kind), ctypes.c_uint64(data), gpu)
