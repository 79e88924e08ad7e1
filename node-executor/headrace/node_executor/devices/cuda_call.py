"""Asks libcuda to move a process's memory off its GPU, or back (R29; driver 570 and newer).

It is run as a script, for one action, because a call may hang, and because a process that uses libcuda may itself hold memory of the GPU.

    cuda_call suspend MILLISECONDS PID...     lock, then checkpoint the one of these processes that uses CUDA
    cuda_call resume PID...                   restore and unlock those that were checkpointed or locked

Its result is one line: `done PID`, `none` if none of them uses CUDA, or `failed REASON`.
"""

from __future__ import annotations

import ctypes
import sys

RUNNING, LOCKED, CHECKPOINTED, FAILED = range(4)
_NOT_READY = 600
_NAMES = {1: "invalid value", 3: "not initialised", 304: "the kernel refuses", 401: "illegal state", 801: "not supported"}


class _Options(ctypes.Structure):
    """Options of every call: 64 bytes; only locking uses the first four, as milliseconds."""

    _fields_ = (("timeout", ctypes.c_uint), ("zero", ctypes.c_uint), ("reserved", ctypes.c_uint64 * 7))


class Failed(Exception):
    """A call failed; the message says which, and how."""


class Cuda:
    """The calls of libcuda. Raises `Failed` if this machine has no libcuda that supports them."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL("libcuda.so.1")
            self._call("cuInit", 0)
            _ = self._library.cuCheckpointProcessLock
        except (OSError, AttributeError) as error:
            raise Failed(f"the driver cannot suspend: {error}") from None

    def uses_cuda(self, pid: int) -> bool:
        """Return whether the process uses CUDA: only then it has a thread that can restore it."""
        thread = ctypes.c_int()
        return not self._library.cuCheckpointProcessGetRestoreThreadId(pid, ctypes.byref(thread))

    def state(self, pid: int) -> int:
        """Return the checkpoint state of the process."""
        state = ctypes.c_int()
        self._call("cuCheckpointProcessGetState", pid, ctypes.byref(state))
        return state.value

    def suspend(self, pid: int, milliseconds: int) -> None:
        """Move it off the GPU. Raises `Failed`, with the process as it was."""
        self._call("cuCheckpointProcessLock", pid, ctypes.byref(_Options(timeout=milliseconds)))
        try:
            self._call("cuCheckpointProcessCheckpoint", pid, ctypes.byref(_Options()))
        except Failed as error:
            if self.state(pid) == LOCKED:
                self._call("cuCheckpointProcessUnlock", pid, ctypes.byref(_Options()))
            raise Failed(f"{error}; it is {'broken' if self.state(pid) == FAILED else 'as it was'}") from None

    def resume(self, pid: int) -> None:
        """Move it back on the GPU, from whichever state."""
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
    """Perform the action; returns the line of its result."""
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
