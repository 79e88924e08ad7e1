"""A small program that tries what a fence should refuse, so that nobody has to be believed: `python -I -S canary.py WHAT ...`.

- `open PATH...` opens device nodes and prints for each whether it could.
- `take MIB MIB` takes so much memory of the first GPU that it sees, first what it should get and then what it should not, and prints
  what libcuda answered to each, and how much there is in all.

It is run as a script, in the enclosure of a job, so it imports the standard library only.
"""

from __future__ import annotations

import ctypes
import os
import sys

MIB = 1024 * 1024
OUT_OF_MEMORY = 2


def openable(path: str) -> bool:
    """Whether this process may open the node."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
    except PermissionError:
        return False
    except OSError:  # it was let through, and the device itself had something against it
        return os.path.exists(path)
    return True


def take(sizes: list[int]) -> list[int]:
    """What libcuda answers to each allocation, one after the other, and at last the MiB that it says there are."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, total, free = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    for answer in (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)):
        if answer:
            return [answer]
    answers = []
    for size in sizes:
        at = ctypes.c_uint64()
        answers.append(cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(size * MIB)))
    cuda.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total))
    return [*answers, total.value // MIB]


def main(arguments: list[str]) -> None:
    """Do what is asked, and print it."""
    what, *rest = arguments
    answers = [int(openable(path)) for path in rest] if what == "open" else take([int(size) for size in rest])
    sys.stdout.write(" ".join(map(str, answers)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
