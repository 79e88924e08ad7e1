"""Asks libcuda to move a process's memory off its GPU, or back (R29; driver 570 and newer).

It is run as a script, for one action, because a call may hang, and because who has begun to use libcuda may hold memory of the GPU himself.

    cuda_call suspend MILLISECONDS PID...     lock, then checkpoint the one of these processes that uses CUDA
    cuda_call resume PID...                   restore and unlock those that were checkpointed or locked

What it did is one line: `done PID`, `none` where nobody of them uses CUDA, or `failed REASON`.
"""

from __future__ import annotations

import ctypes
import sys

RUNNING, LOCKED, CHECKPOINTED, FAILED = range(4)
_NOT_READY = 600
_NAMES = {1: "invalid value", 3: "not initialised", 304: "the kernel refuses", 401: "illegal state", 801: "not supported"}


class _Options(ctypes.Structure):
    """Of every call: 64 bytes, of which only locking uses the first four, as milliseconds."""

    _fields_ = (("timeout", ctypes.c_uint), ("zero", ctypes.c_uint), ("reserved", ctypes.c_uint64 * 7))


class Failed(Exception):
    """A call went wrong; the message says which, and how."""


class Cuda:
    """The calls. Raises `Failed` where this machine has no libcuda that knows them."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
            self._call("cuInit", 0)
            _ = self._library.cuCheckpointProcessLock
        except (OSError, AttributeError) as error:
            raise Failed(f"the driver cannot suspend: {error}") from None

    def uses_cuda(self, pid: int) -> bool:
        """Whether the process uses CUDA: only then it has a thread that would restore it."""
        thread = ctypes.c_int()
        return not self._library.cuCheckpointProcessGetRestoreThreadId(pid, ctypes.byref(thread))

    def state(self, pid: int) -> int:
        """How far it is off its GPU."""
        state = ctypes.c_int()
        self._call("cuCheckpointProcessGetState", pid, ctypes.byref(state))
        return state.value

    def suspend(self, pid: int, milliseconds: int) -> None:
        """Off the GPU; or as it was, and `Failed`."""
        self._call("cuCheckpointProcessLock", pid, ctypes.byref(_Options(timeout=milliseconds)))
        try:
            self._call("cuCheckpointProcessCheckpoint", pid, ctypes.byref(_Options()))
        except Failed as error:
            if self.state(pid) == LOCKED:
                self._call("cuCheckpointProcessUnlock", pid, ctypes.byref(_Options()))
            raise Failed(f"{error}; it is {'broken' if self.state(pid) == FAILED else 'as it was'}") from None

    def resume(self, pid: int) -> None:
        """Back on the GPU, from wherever it was on the way."""
        if self.state(pid) == CHECKPOINTED:
            self._call("cuCheckpointProcessRestore", pid, ctypes.byref(_Options()))
        if self.state(pid) == LOCKED:
            self._call("cuCheckpointProcessUnlock", pid, ctypes.byref(_Options()))

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code == _NOT_READY:
            raise Failed("it did not come to rest in time")
        if code:
            raise Failed(f"{name}: {_NAMES.get(code, f'error {code}')}")


def main(action: str, *arguments: str) -> str:
    """Do it; the line that says what was done."""
    try:
        cuda = Cuda()
        milliseconds, numbers = (int(arguments[0]), arguments[1:]) if action == "suspend" else (0, arguments)
        found = [pid for pid in map(int, numbers) if cuda.uses_cuda(pid)]
        if len(found) > 1 and action == "suspend":
            return f"failed {len(found)} of its processes use CUDA; only one can be suspended"
        for pid in found:
            if action == "suspend":
                cuda.suspend(pid, milliseconds)
            else:
                cuda.resume(pid)
    except Failed as error:
        return f"failed {error}"
    return f"done {found[0]}" if found else "none"


if __name__ == "__main__":
    sys.stdout.write(main(*sys.argv[1:]) + "\n")
