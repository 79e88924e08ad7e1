"""Measures the private directories of running jobs and ends jobs beyond the node's limit of bytes or files.

Strategy: the directories are counted in threads of their own (`inspection`), each from open descriptors, so that a directory that a job
replaces by a link meanwhile is not followed. A count stops as soon as it is over the limit. A count that is not complete after
`COUNT_WITHIN` seconds is partial: it can only show that a job is over the limit, so it is reported, in the job's output and in the log.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import structlog

from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.files.directory_trees import DEPTH_MAX, walk
from headrace.node_executor.files.inspection import FileInspector
from headrace.node_executor.leases.running_lease import RunningLease
from headrace.node_executor.monitoring.usage import MIB

COUNT_WITHIN = 20.0
ROUND_WITHIN = 60.0
AT_ONCE = 4

_log = structlog.get_logger("headrace.node_executor")


class Size(NamedTuple):
    """Disk usage of a directory: bytes, and entries of any kind. `partial`: not everything was counted."""

    bytes: int = 0
    files: int = 0
    partial: bool = False
    too_deep: bool = False


class DiskUsageMonitor:
    """Measures the leases that `held` returns and sends `handle` an event for those beyond `most`, at `now()`. Used in the running loop."""

    def __init__(
        self,
        handle: Callable[[v.Event], None],
        held: Callable[[], Iterable[RunningLease]],
        now: Callable[[], int],
        most: Size,
        within: float = ROUND_WITHIN,
    ) -> None:
        self._handle = handle
        self._held = held
        self._now = now
        self._most = most
        self._inspector = FileInspector(within, AT_ONCE)
        self._complained: set[str] = set()
        self._skipped: set[str] = set()

    async def measure(self) -> None:
        """Measure once, in at most `within` seconds. Leases that were not counted in time come first the next time."""
        running = {one.order.lease: one for one in self._held() if one.running is not None}
        self._complained &= running.keys()
        due = [one for lease, one in running.items() if not self._inspector.busy(lease)]
        due.sort(key=lambda one: one.order.lease not in self._skipped)
        counts = {one.order.lease: self._inspector.inspect(one.owner, one.order.lease, self._count(one)) for one in due}
        if counts:
            await asyncio.wait(counts.values())
        self._skipped = {lease for lease, count in counts.items() if count.exception() is not None}
        for lease, count in counts.items():
            error = count.exception()
            if error is not None:
                self._complain(running[lease], f"its working directory could not be counted: {error}")
            else:
                self._judge(running[lease], count.result())

    def _count(self, held: RunningLease) -> Callable[[], Size]:
        return lambda: used(held.prepared.paths.control, self._most)

    def _judge(self, held: RunningLease, size: Size) -> None:
        message = over(size, self._most)
        if not message and size.partial:
            self._complain(
                held, f"its working directory was counted in part only: at least {size.bytes // MIB} MiB in {size.files} files"
            )
        if message and held.running is not None:
            held.output.note(message)
            self._handle(v.Overran(self._now(), held.order.lease, message))

    def _complain(self, held: RunningLease, complaint: str) -> None:
        """Report a complaint once for each lease."""
        if held.order.lease not in self._complained:
            self._complained.add(held.order.lease)
            held.output.note(complaint)
            _log.warning("not_measured", lease=held.order.lease, reason=complaint)


def over(size: Size, most: Size) -> str:
    """Return why this is more than `most`, or "" if it is not."""
    if size.bytes > most.bytes:
        return f"its working directory took {size.bytes // MIB} MiB; {most.bytes // MIB} MiB is the most"
    if size.files > most.files:
        return f"its working directory has more than {most.files} files, which is the most"
    if size.too_deep:
        return f"its working directory has directories more than {DEPTH_MAX} levels deep, which cannot be counted"
    return ""


def used(directory: str, most: Size, within: float = COUNT_WITHIN) -> Size:
    """Return the disk usage below `directory`, without following links. Never raises: entries that vanish meanwhile do not count.

    Counts until over `most`, or for `within` seconds. A file with several names counts once.
    """
    taken, files, until = 0, 0, time.monotonic() + within
    failures: list[OSError] = []
    linked: set[tuple[int, int]] = set()
    with contextlib.closing(walk(directory, failures.append)) as entries:
        for _, entry in entries:
            files += 1
            with contextlib.suppress(OSError):
                taken += _bytes(entry.stat(follow_symlinks=False), linked)
            if taken > most.bytes or files > most.files:
                break
            if time.monotonic() > until:
                return Size(taken, files, partial=True)
    return Size(taken, files, bool(failures), any(failure.errno == errno.ENAMETOOLONG for failure in failures))


def _bytes(found: os.stat_result, linked: set[tuple[int, int]]) -> int:
    """Return the bytes of a file on its disk, once: `linked` has the files with several names that were counted."""
    if found.st_nlink > 1 and not stat.S_ISDIR(found.st_mode):
        inode = found.st_dev, found.st_ino
        if inode in linked:
            return 0
        linked.add(inode)
    return found.st_blocks * 512
