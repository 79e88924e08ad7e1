"""Which leases this node has begun and which of their ends the ledger has: what the executor must still know after it died.

Strategy: one JSON line for each step of a lease in an append-only file, written before the step is taken and never synced: it
has to survive the death of the executor, not of the machine, with which the jobs die as well. A torn line is skipped. The file
is rewritten with the open leases only, at the start and when it has grown.
"""

from __future__ import annotations

import errno
import os

import msgspec

from headrace.contracts.facts import LeaseEndedV1

REWRITE_AT = 4 * 1024 * 1024


class Began(msgspec.Struct, frozen=True, tag="began", tag_field="step"):
    """The lease is about to be started; `granted` is the sequence of its grant."""

    lease: str
    granted: int


class Ended(msgspec.Struct, frozen=True, tag="ended", tag_field="step"):
    """The lease has ended like this; the ledger may not know it yet."""

    lease: str
    granted: int
    fact: LeaseEndedV1


class Stated(msgspec.Struct, frozen=True, tag="stated", tag_field="step"):
    """The ledger has the ends of these leases."""

    leases: tuple[str, ...]


Step = Began | Ended | Stated
_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Step] = msgspec.json.Decoder(Step)


class Journal:
    """The file at `path`. `open` has the leases of a former executor whose ends were perhaps never stated, as they were left."""

    def __init__(self, path: str, rewrite_at: int = REWRITE_AT) -> None:
        self._path = path
        self._rewrite_at = rewrite_at
        self.open = _read(path)
        self._descriptor = -1
        self._size = 0
        self._torn = False
        self._rewrite()

    def began(self, lease: str, granted: int) -> None:
        """Before the process is started. Raises `OSError`; then it must not be."""
        step = Began(lease, granted)
        self._append(step)
        self.open[lease] = step

    def ended(self, lease: str, granted: int, fact: LeaseEndedV1) -> None:
        """Before the fact is stated. Never raises: the fact itself is on its way."""
        step = Ended(lease, granted, fact)
        self.open[lease] = step
        self._try(step)

    def stated(self, leases: tuple[str, ...]) -> None:
        """The ledger has acknowledged these ends. Never raises."""
        known = tuple(lease for lease in leases if self.open.pop(lease, None) is not None)
        if not known:
            return
        self._try(Stated(known))
        if self._size > self._rewrite_at:
            self._rewrite()

    def close(self) -> None:
        """The executor goes."""
        os.close(self._descriptor)

    def _try(self, step: Step) -> None:
        try:
            self._append(step)
        except OSError:  # what is missing here is asked from the ledger after a restart
            return

    def _append(self, step: Step) -> None:
        line = _encoder.encode(step) + b"\n"
        if self._torn:
            line = b"\n" + line
        self._torn = True
        written = os.write(self._descriptor, line)
        self._size += written
        if written != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._torn = False

    def _rewrite(self) -> None:
        fresh = f"{self._path}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(fresh, flags, 0o600)
        content = b"".join(_encoder.encode(step) + b"\n" for step in self.open.values())
        with open(descriptor, "wb", closefd=False) as file:
            file.write(content)
        os.rename(fresh, self._path)
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor, self._size, self._torn = descriptor, len(content), False


def _read(path: str) -> dict[str, Began | Ended]:
    found: dict[str, Began | Ended] = {}
    try:
        with open(path, "rb") as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return found
    for line in lines:
        try:
            step = _decoder.decode(line)
        except (msgspec.DecodeError, RecursionError):
            continue
        if isinstance(step, Stated):
            for lease in step.leases:
                found.pop(lease, None)
        else:
            found[step.lease] = step
    return found
