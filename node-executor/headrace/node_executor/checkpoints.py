"""Finds the checkpoints of a job: what it registers, or what it puts into its checkpoint directory (R25).

Strategy: a job registers by a line of JSON (`{"uri": ..., "step": ...}`) in its control directory, which is what
`headrace.client.job.checkpointed` writes; or, in any language, by renaming a finished file into HEADRACE_CHECKPOINT_DIR. Who
registers is believed over what lies in the directory. Only what the node itself finds there counts; a change of the modification
time is looked at first, so that looking costs next to nothing while there is nothing new.
"""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from headrace.node_executor.workspace import Paths

URI_MAX = 4096
TAIL = 64 * 1024
"""The end of the registrations that is read; it holds at least a dozen of the longest."""

STEP_MAX = 2**53 - 1
_UNFINISHED = (".tmp", ".part", ".partial")


class Checkpoint(NamedTuple):
    """A checkpoint that is there. `step` is the job's own count, 0 where it gave none; `saved_at` the file's time in nanoseconds."""

    uri: str
    step: int
    saved_at: int


class _Line(msgspec.Struct):
    uri: str
    step: int = 0


_decoder = msgspec.json.Decoder(_Line)


class CheckpointWatch:
    """What one lease has saved so far. `look` does file I/O and may be called in a thread; `accept` belongs to the loop.

    Of the replicas that share a checkpoint directory only the first looks into it; registering is open to all.
    """

    def __init__(self, paths: Paths, rank: int = 0) -> None:
        self._paths = paths
        self._local_directory = not paths.elsewhere
        self._looks_into_directory = rank == 0
        self._seen_registrations = 0
        self._seen_directory = 0
        self._last: Checkpoint | None = None
        self.complaint = ""

    def look(self, *, thorough: bool = False) -> Checkpoint | None:
        """The newest checkpoint, if something may have changed; `complaint` says what was wrong with one, if anything.

        `thorough` does not trust the modification times, which may be too coarse for what was saved a moment ago.
        """
        self.complaint = ""
        changed = _changed(self._paths.registered)
        if changed:
            if changed == self._seen_registrations and not thorough:
                return None
            self._seen_registrations = changed
            return self._registered()
        changed = _changed(self._paths.checkpoints) if self._looks_into_directory else 0
        if not changed or (changed == self._seen_directory and not thorough):
            return None
        self._seen_directory = changed
        return self._newest_file()

    def accept(self, found: Checkpoint | None) -> bool:
        """Whether `found` is another one than was accepted last."""
        if found is None or found == self._last:
            return False
        self._last = found
        return True

    @property
    def quick(self) -> bool:
        """Whether looking cannot hang on a file system that is away: nothing was registered, and the directory is our own."""
        return self._local_directory and not _changed(self._paths.registered)

    def _registered(self) -> Checkpoint | None:
        """The last registration whose file is there. One that cannot be found does not hide an earlier one."""
        for line in reversed(_tail(self._paths.registered)):
            try:
                entry = _decoder.decode(line)
            except (msgspec.DecodeError, RecursionError):
                self.complaint = 'a line of the registered checkpoints is no JSON of the form {"uri": ..., "step": ...}'
                continue
            path = self._local(entry.uri)
            saved_at = _changed(path) if path else 0
            if saved_at and 0 <= entry.step <= STEP_MAX:
                return Checkpoint(path, entry.step, saved_at)
            self.complaint = f"checkpoint {entry.uri[:200]} was not found on this node and does not count"
        return None

    def _local(self, uri: str) -> str:
        """The path that `uri` means, or empty where it is no file of this machine."""
        if uri.startswith("file://"):
            uri = unquote(urlsplit(uri).path)
        elif "://" in uri:
            return ""
        path = os.path.normpath(os.path.join(self._paths.checkpoints, uri))
        return path if uri and "\0" not in uri and len(path) <= URI_MAX else ""

    def _newest_file(self) -> Checkpoint | None:
        newest: tuple[int, str] | None = None
        try:
            with os.scandir(self._paths.checkpoints) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or entry.name.endswith(_UNFINISHED):
                        continue
                    key = (entry.stat(follow_symlinks=False).st_mtime_ns, entry.path)
                    newest = key if newest is None else max(newest, key)
        except OSError:
            return None
        if newest is None or not newest[1].isprintable():
            return None
        return Checkpoint(newest[1], 0, newest[0])


def _changed(path: str) -> int:
    """When it was last modified, in nanoseconds; 0 where it is not there."""
    try:
        return max(1, os.stat(path).st_mtime_ns)
    except (OSError, ValueError):
        return 0


def _tail(path: str) -> list[bytes]:
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - TAIL))
            lines = file.read(TAIL).split(b"\n")
    except OSError:
        return []
    return [line for line in (lines[1:] if size > TAIL else lines) if line.strip()]
