"""A libcuda that can move processes off GPUs that are not there, in C, and a program that uses it: for jobs that are suspended (R29)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.mock_nvml import compiler

HERE = Path(__file__).parent

TRAINER = """
import ctypes, os, time
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0 and cuda.mockUse(ctypes.c_long(2048)) == 0
step = 0
while True:
    step += 1
    with open("step.new", "w") as file:
        file.write(str(step))
    os.replace("step.new", "step")
    time.sleep(0.01)
"""
"""Counts its steps, and holds 2 GiB of the first GPU."""


def build(folder: Path) -> Path:
    """The library, in `folder`."""
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden", "-Wl,-soname,libcuda.so.1"]
    subprocess.run([str(compiler()), *flags, "-o", folder / "libcuda.so.1", HERE / "cuda.c"], check=True)
    return folder
