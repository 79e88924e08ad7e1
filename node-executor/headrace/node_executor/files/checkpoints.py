"""Finds the checkpoints of a job: those that it registers, or files that appear in its checkpoint directory (R25).

Strategy: a job registers a checkpoint by a line of JSON (`{"uri": ..., "step": ...}`) in its control directory, which is what
`headrace.client.job.checkpointed` writes; or, in any language, by renaming a finished file into HEADRACE_CHECKPOINT_DIR. A registration
goes before what lies in the directory. It counts only if the node itself finds the file, and only below the job's own directories: those
of its lease and its attempts, the one it runs in, and those that its group's rules list. The answer for any other path is the same
whether it exists or not. Modification times are compared first, so that a look is cheap while nothing is new.

A job can put anything into these places: files are opened as `inspection` opens them, the list is read from its end, and at most
`ENTRIES_MAX` entries of a directory are looked at.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from headrace.node_executor.files.inspection import acting_as, open_regular
from headrace.node_executor.files.workspace import Paths
from headrace.node_executor.system.accounts import UserAccount

URI_MAX = 4096
TAIL = 64 * 1024
"""Bytes at the end of the registrations that are read; they hold at least a dozen of the longest lines."""

ENTRIES_MAX = 10_000
"""Maximum number of entries of a checkpoint directory; in a larger one no checkpoint is found."""

FEW = 4096
"""Maximum size in bytes of a directory that can be listed without delay."""

STEP_MAX = 2**53 - 1
_UNFINISHED = (".tmp", ".part", ".partial")


class Checkpoint(NamedTuple):
    """A checkpoint that exists. `step` is the job's own count, 0 if it gave none; `saved_at` the file's time in nanoseconds."""

    uri: str
    step: int
    saved_at: int


class _Line(msgspec.Struct):
    uri: str
    step: int = 0


_decoder = msgspec.json.Decoder(_Line)


class CheckpointWatch:
    """Checkpoints of one lease so far. Call `find_newest` in a thread of its own, `glance` and `accept` in the loop.

    `account`: owner of the files (None: the executor's account); `named`: further directories in which checkpoints count. Of replicas
    that share a checkpoint directory only the first looks into it; all of them may register.
    """

    def __init__(self, paths: Paths, rank: int = 0, account: UserAccount | None = None, named: tuple[str, ...] = ()) -> None:
        self._paths = paths
        self._account = account
        self._owner = os.geteuid() if account is None else account.uid
        self._named = (paths.control, paths.checkpoints, *named)
        self._local_directory = not paths.on_shared_path
        self._searches_directory = rank == 0
        self._seen_registrations = 0
        self._seen_directory = 0
        self._last: Checkpoint | None = None
        self.complaint = ""

    def find_newest(self, *, thorough: bool = False) -> Checkpoint | None:
        """Return the newest checkpoint if anything may have changed; sets `complaint` if one is unusable. May block without limit.

        `thorough` ignores the modification times, which may be too coarse for what was saved a moment ago. Raises `OSError` if files
        cannot be looked at as the job's account.
        """
        with acting_as(self._account):
            self.complaint = ""
            changed = _changed(self._paths.registered)
            if changed:
                if changed == self._seen_registrations and not thorough:
                    return None
                self._seen_registrations = changed
                return self._registered()
            return self._in_directory(thorough=thorough)

    def glance(self) -> Checkpoint | None:
        """Look thoroughly and at once if `quick`, otherwise return None."""
        self.complaint = ""
        return self._in_directory(thorough=True)

    def accept(self, found: Checkpoint | None) -> bool:
        """Return whether `found` differs from the checkpoint accepted last, and accept it."""
        if found is None or found == self._last:
            return False
        self._last = found
        return True

    @property
    def may_have_news(self) -> bool:
        """True if a look that is not thorough may find something new. If the directory is on a shared path, only a look tells."""
        registered = _changed(self._paths.registered)
        if registered or not self._local_directory:
            return registered != self._seen_registrations or not registered
        return self._searches_directory and _changed(self._paths.checkpoints) not in {0, self._seen_directory}

    @property
    def quick(self) -> bool:
        """True if a look takes no time: nothing was registered, and the directory is small and on this machine."""
        if not self._local_directory or os.path.lexists(self._paths.registered):
            return False
        try:
            return os.lstat(self._paths.checkpoints).st_size <= FEW
        except OSError:
            return True

    def _registered(self) -> Checkpoint | None:
        """Return the last registration whose file exists. One that does not exist does not hide an earlier one."""
        try:
            lines = _tail(self._paths.registered, self._owner)
        except OSError as error:
            self.complaint = f"the list of registered checkpoints cannot be read: {error.strerror}"
            return None
        for line in reversed(lines):
            try:
                entry = _decoder.decode(line)
            except (msgspec.DecodeError, RecursionError):
                self.complaint = 'a line of the registered checkpoints is not JSON of the form {"uri": ..., "step": ...}'
                continue
            path = self._local(entry.uri)
            if path and not self._is_own(path):
                self.complaint = f"checkpoint {entry.uri[:200]} is not below a directory of this job and does not count"
                continue
            saved_at = _saved_at(path) if path else 0
            if saved_at and 0 <= entry.step <= STEP_MAX:
                return Checkpoint(path, entry.step, saved_at)
            self.complaint = f"checkpoint {entry.uri[:200]} was not found on this node and does not count"
        return None

    def _local(self, uri: str) -> str:
        """Return the path of `uri`, or "" if it is not a file of this machine."""
        path = path_of(uri)
        path = os.path.normpath(os.path.join(self._paths.checkpoints, path)) if path else ""
        return path if len(path) <= URI_MAX else ""

    def _is_own(self, path: str) -> bool:
        """True if the path, with links followed, is below a directory of the job or of one of its earlier attempts."""
        found = os.path.realpath(path)
        return any(found.startswith(f"{os.path.realpath(directory)}/") for directory in (*self._named, *self._earlier(found)))

    def _earlier(self, found: str) -> tuple[str, ...]:
        """Return the directory of the attempt of this job that `found` would be below, if any."""
        job, _, attempt = self._paths.checkpoints.rpartition(".")
        before = f"{os.path.realpath(os.path.dirname(job))}/{os.path.basename(job)}."
        number = found.removeprefix(before).partition("/")[0]
        return (f"{job}.{number}",) if attempt.isdecimal() and found.startswith(before) and number.isdecimal() else ()

    def _in_directory(self, *, thorough: bool) -> Checkpoint | None:
        changed = _changed(self._paths.checkpoints) if self._searches_directory else 0
        if not changed or (changed == self._seen_directory and not thorough):
            return None
        self._seen_directory = changed
        try:
            directory = os.open(self._paths.checkpoints, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            return self._newest(directory)
        finally:
            os.close(directory)

    def _newest(self, directory: int) -> Checkpoint | None:
        newest: tuple[int, str] | None = None
        with os.scandir(directory) as entries:
            for number, entry in enumerate(entries):
                if number == ENTRIES_MAX:
                    self.complaint = (
                        f"HEADRACE_CHECKPOINT_DIR has more than {ENTRIES_MAX} entries, so nothing in it counts; "
                        "keep fewer, or register checkpoints"
                    )
                    return None
                if entry.name.startswith(".") or entry.name.endswith(_UNFINISHED):
                    continue
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode):
                        key = (found.st_mtime_ns, f"{self._paths.checkpoints}/{entry.name}")
                        newest = key if newest is None else max(newest, key)
        if newest is None or not newest[1].isprintable():
            return None
        return Checkpoint(newest[1], 0, newest[0])


def path_of(uri: str) -> str:
    """Return the path of a checkpoint's URI, or "" if it is not a file, as for `s3://...`."""
    try:
        if uri.startswith("file://"):
            uri = unquote(urlsplit(uri).path)
        elif "://" in uri:
            return ""
        return uri if b"\0" not in os.fsencode(uri) else ""
    except ValueError:  # malformed host in brackets, or characters that paths cannot have
        return ""


def _changed(path: str) -> int:
    """Return the modification time in nanoseconds; 0 if the path does not exist. Links are not followed."""
    try:
        return max(1, os.lstat(path).st_mtime_ns)
    except (OSError, ValueError):
        return 0


def _saved_at(path: str) -> int:
    """Return the modification time of the file or directory in nanoseconds; 0 if it does not exist."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return 0
    return max(1, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode) else 0


def _tail(path: str, owner: int) -> list[bytes]:
    """Return the last lines of a job's file. Raises `OSError`."""
    descriptor = open_regular(path, owner)
    try:
        size = os.fstat(descriptor).st_size
        lines = os.pread(descriptor, TAIL, max(0, size - TAIL)).split(b"\n")
    finally:
        os.close(descriptor)
    return [line for line in (lines[1:] if size > TAIL else lines) if line.strip()]
