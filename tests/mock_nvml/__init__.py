"""A machine with NVIDIA GPUs that are not there: mock `libnvidia-ml.so.1` and `libcuda.so.1` in C, and the words to command them.

Both are built here into a folder and loaded by the real `nvidia-ml-py`, and by programs that look for CUDA: in a process of its own by
`LD_LIBRARY_PATH`, in this one because a library that is loaded already is found by its name. The state is one file that all processes map.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
LIBRARIES = {"nvml.c": "libnvidia-ml.so.1", "cuda.c": "libcuda.so.1"}
STATE = "MOCK_NVML_STATE"
NO_INSTANCE = 0xFFFFFFFF
XID, DOUBLE_BIT = 8, 2


def compiler() -> str | None:
    """The C compiler of this machine, if there is one."""
    return next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


def build(folder: Path) -> Path:
    """Both libraries in `folder`."""
    for source, library in LIBRARIES.items():
        command = [compiler(), "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden"]
        subprocess.run([*command, f"-Wl,-soname,{library}", "-o", folder / library, HERE / source], check=True)
    return folder


def build_program(source: Path, to: Path, *flags: str) -> Path:
    """What stands in one C file, built without a warning."""
    subprocess.run([compiler(), "-O1", "-Wall", "-Wextra", "-Werror", *flags, "-o", to, source], check=True)
    return to


class Machine:
    """The machine as the test sees it: what it has, and what happens to it."""

    def __init__(self, libraries: Path, state: Path) -> None:
        os.environ[STATE] = str(state)
        self.libraries, self.state = libraries, state
        os.environ["LD_LIBRARY_PATH"] = str(libraries)  # for programs that this process starts
        self._library = ctypes.CDLL(str(libraries / LIBRARIES["nvml.c"]), mode=ctypes.RTLD_GLOBAL)
        self.reset()

    @property
    def mps_control(self) -> str:
        """A stand-in for `nvidia-cuda-mps-control`."""
        return str(HERE / "mps_control.py")

    @property
    def environment(self) -> dict[str, str]:
        """What a process of its own needs to be on this machine."""
        return {STATE: str(self.state), "LD_LIBRARY_PATH": str(self.libraries)}

    def reset(
        self,
        count: int = 2,
        model: str = "NVIDIA H100 80GB HBM3",
        mib: int = 81_559,
        *,
        mig: bool = True,
        driver: str = "580.95.05",
    ) -> None:
        """A new machine: a number of GPUs of one model, with `mib` of memory each; `mig`: they can be cut."""
        done = self._library.mockReset(driver.encode(), model.encode(), count, ctypes.c_uint64(mib), mig)
        assert done == 0, "the state cannot be mapped"

    def set(self, name: str, value: int, gpu: int = 0) -> None:
        """Turn a knob of the mock (`knob` in nvml.c)."""
        assert self._library.mockSet(gpu, name.encode(), value) == 0, f"there is no knob {name}"

    def get(self, name: str, gpu: int = 0) -> int:
        """How a knob stands."""
        return int(self._library.mockGet(gpu, name.encode()))

    def process(self, pid: int, mib: int, gpu: int = 0, instance: int = NO_INSTANCE, sm: int = 0) -> None:
        """A process holds so much memory of a GPU."""
        assert self._library.mockAddProc(gpu, pid, instance, ctypes.c_uint64(mib), sm) == 0

    def gone(self, pid: int, gpu: int = 0) -> None:
        """A process has let go of a GPU."""
        self._library.mockDelProc(gpu, pid)

    def event(self, kind: int, data: int = 0, gpu: int = 0) -> None:
        """The driver reports an event: `XID` with its number, or `DOUBLE_BIT`."""
        self._library.mockEvent(gpu, ctypes.c_uint64(kind), ctypes.c_uint64(data))
