"""The directories of the node: where the files of a lease lie, created when it starts and tidied when it has ended.

    <data>/leases/<job>.<attempt>.<rank>/    control directory: preempt.json, finished, hook, checkpoints
                                   …/poll    a symbolic link to the control directory itself
                                   …/work/   where the job runs, unless it named another directory
    <data>/logs/<job>.<attempt>.<rank>.log   its output, created at its start; with later pieces in ...log.d/ (`runtimes.job_log`)
    <data>/kept/<job>.<attempt>.<rank>       what its keeper recorded: only the executor's own account can read it
    <checkpoints>/<job>.<attempt>/           for its checkpoints; the replicas of one attempt share it
    <data>/spare/                            directories that were left empty, for the next job of the same account (`directory_pool`)

A job is told the path of its preempt file by way of the link `poll`. A program in any language that looks for that file follows the link,
and the kernel records that as the link's access time: so the node knows which jobs poll, without being told. On file systems without
access times (`noatime`, which `shows_polling` finds out), a job that polls has to create `hook` in its control directory.

Strategy: everything that a job leaves is kept for its owner and pruned by age (`retention`); empty directories are removed at once.
Nothing is synced to disk, because after a power cut no job is left that could need it.
"""

from __future__ import annotations

import contextlib
import os
import stat
from typing import NamedTuple

from headrace.contracts.messages.orders import StartOrder
from headrace.contracts.values.account_numbers import COUNT, FIRST
from headrace.node_executor.files.directory_pool import CHECKPOINTS as SAVED
from headrace.node_executor.files.directory_pool import CONTROL, WORK, DirectoryPool
from headrace.node_executor.files.directory_trees import walk
from headrace.node_executor.system.accounts import UserAccount

PREEMPT, FINISHED, HOOK, CHECKPOINTS, POLL = "preempt.json", "finished", "hook", "checkpoints", "poll"
_CONTROL_FILES = frozenset({PREEMPT, FINISHED, HOOK, CHECKPOINTS})
_A_SECOND = 1_000_000_000

HANDED_OVER_MAX = 20_000
"""Maximum number of files and directories given to another account before a start; the executor does nothing else meanwhile."""
OPEN, CLOSED = 0o755, 0o700
"""Modes of directories of jobs that run as the executor, and as accounts of their own."""


class Paths(NamedTuple):
    """Paths of one lease. `work` is empty if the job named its own directory.

    `shared`: other replicas save there too. `on_shared_path`: the checkpoints are on a path that the installation shares.
    """

    control: str
    work: str
    checkpoints: str
    log: str
    shared: bool = False
    on_shared_path: bool = False

    @property
    def preempt(self) -> str:
        """Appears when the job has to yield: JSON with `reason`, `preemptor`, `deadline`."""
        return f"{self.control}/{PREEMPT}"

    @property
    def polled(self) -> str:
        """The same file by the path that the job is told."""
        return f"{self.control}/{POLL}/{PREEMPT}"

    @property
    def polls(self) -> bool:
        """True if the job looks for the preempt file: it has followed the link, or created `hook`."""
        if os.path.lexists(self.hook):
            return True
        try:
            link = os.lstat(f"{self.control}/{POLL}")
        except OSError:
            return False
        return stat.S_ISLNK(link.st_mode) and link.st_atime_ns > link.st_mtime_ns

    @property
    def finished(self) -> str:
        """Created by a job that has done all its work (R30)."""
        return f"{self.control}/{FINISHED}"

    @property
    def hook(self) -> str:
        """Created by a job that looks for the preempt file and leaves by itself, if the node cannot see that otherwise."""
        return f"{self.control}/{HOOK}"

    @property
    def registered(self) -> str:
        """Lines of JSON, one for each checkpoint that the job registers."""
        return f"{self.control}/{CHECKPOINTS}"


class Workspace:
    """The directories below `data`, and `checkpoints`, which may be a path that all nodes share. Both absolute.

    `others`: jobs run under other accounts, which may pass through to their own directories but not list those on the way.
    """

    def __init__(self, data: str, checkpoints: str = "", *, others: bool = False) -> None:
        self.data = data
        self.leases = f"{data}/leases"
        self.logs = f"{data}/logs"
        self.kept = f"{data}/kept"
        self.checkpoints = checkpoints or f"{data}/checkpoints"
        self._on_shared_path = bool(checkpoints)
        for directory in (self.leases, self.logs, self.checkpoints):
            os.makedirs(directory, 0o711, exist_ok=True)
        self._mask = os.umask(0o022)
        os.umask(self._mask)
        self._spares = DirectoryPool(f"{data}/spare")
        closed = {self.leases: 0o711, self.logs: 0o700}  # the names in them are of users and their jobs
        closed |= {} if self._on_shared_path else {self.checkpoints: 0o711}
        closed |= {data: 0o711} if others else {}
        for directory, mode in closed.items():
            os.chmod(directory, mode)

    def paths(self, order: StartOrder) -> Paths:
        """Return all paths of this lease."""
        control = f"{self.leases}/{self.name(order)}"
        return Paths(
            control,
            "" if order.workdir else f"{control}/{WORK}",
            f"{self.checkpoints}/{order.job}.{order.attempt}",
            self.log(order.job, order.attempt, order.rank),
            shared=order.replicas > 1,
            on_shared_path=self._on_shared_path,
        )

    def name(self, order: StartOrder) -> str:
        """Return the name of this lease's files and directories."""
        return f"{order.job}.{order.attempt}.{order.rank}"

    def log(self, job: str, attempt: int, rank: int) -> str:
        """Return the file with the output of one replica."""
        return f"{self.logs}/{job}.{attempt}.{rank}.log"

    def make(self, paths: Paths, account: UserAccount | None = None) -> None:
        """Create the directories of a lease, owned by this account. Raises `OSError`."""
        uid, mode = (os.geteuid(), OPEN) if account is None else (account.uid, CLOSED)
        mode &= ~self._mask
        if not (paths.work and self._spares.take(CONTROL, uid, mode, paths.control)):
            for directory in filter(None, (paths.control, paths.work)):
                _make(directory, account)
        _link(f"{paths.control}/{POLL}")
        if paths.shared or paths.on_shared_path or not self._spares.take(SAVED, uid, mode, paths.checkpoints):
            _make(paths.checkpoints, account)

    def hand_over(self, order: StartOrder, account: UserAccount | None) -> None:
        """Give what earlier attempts of this job saved to its present account, if its number has changed. Never raises.

        A job always belongs to the same user, so no other user's files change owner; files with several hard links are skipped.
        """
        if account is None or not order.resume_from:
            return
        left = HANDED_OVER_MAX
        for attempt in range(1, order.attempt):
            path = f"{self.checkpoints}/{order.job}.{attempt}"
            with contextlib.suppress(OSError):
                found = os.lstat(path)
                if stat.S_ISDIR(found.st_mode) and found.st_uid != account.uid and FIRST <= found.st_uid < FIRST + COUNT:
                    left = _hand_over(path, found.st_uid, account, left)

    def clear(self) -> None:
        """Remove directories of the pool that a former executor left and that cannot be used. May take long."""
        self._spares.clear()

    def tidy(self, paths: Paths) -> None:
        """The lease is over: remove empty directories and the executor's own files. Never raises."""
        if not paths.shared and (paths.on_shared_path or not self._spares.keep(SAVED, paths.checkpoints)):
            _remove(paths.checkpoints)
        with contextlib.suppress(OSError):
            os.unlink(f"{paths.control}/{POLL}")
        if paths.work and self._spares.keep(CONTROL, paths.control):
            return
        for name in _CONTROL_FILES:
            with contextlib.suppress(OSError):
                os.unlink(f"{paths.control}/{name}")
        if paths.work and self._spares.keep(CONTROL, paths.control):
            return
        for directory in filter(None, (paths.work, paths.control)):
            _remove(directory)


def shows_polling(directory: str) -> bool:
    """Return whether the file system of `directory` records who follows a link. Raises `OSError`."""
    link = f"{directory}/.{POLL}"
    _link(link)
    try:
        os.path.exists(f"{link}/{PREEMPT}")
        found = os.lstat(link)
        return found.st_atime_ns > found.st_mtime_ns
    finally:
        os.unlink(link)


def _link(path: str) -> None:
    """Make a new link to its own directory, whose access time shows later whether it was followed.

    Its times are a second ago, so that following it shows also in the same tick of the kernel's clock in which it is made.
    """
    try:
        os.symlink(".", path)
    except FileExistsError:
        os.unlink(path)
        os.symlink(".", path)
    past = os.lstat(path).st_mtime_ns - _A_SECOND
    os.utime(path, ns=(past, past), follow_symlinks=False)


def _hand_over(path: str, before: int, account: UserAccount, most: int) -> int:
    """Give the directory and its content to `account`, as far as owned by `before`; returns how many more entries may be given."""
    with contextlib.closing(walk(path, lambda _: None)) as entries:
        for here, entry in entries:
            if most <= 0:
                break
            most -= 1
            found = entry.stat(follow_symlinks=False)
            if found.st_uid == before and (found.st_nlink == 1 or stat.S_ISDIR(found.st_mode)):
                os.chown(entry.name, account.uid, account.gid, dir_fd=here, follow_symlinks=False)
    os.chown(path, account.uid, account.gid, follow_symlinks=False)
    return most


def _make(directory: str, account: UserAccount | None) -> None:
    try:
        os.mkdir(directory, OPEN if account is None else CLOSED)
    except FileExistsError:
        found = os.lstat(directory)
        if not stat.S_ISDIR(found.st_mode):
            raise
        if account is None or found.st_uid == account.uid:
            return
    if account is not None:
        os.chown(directory, account.uid, account.gid, follow_symlinks=False)


def _remove(directory: str) -> None:
    with contextlib.suppress(OSError):
        os.rmdir(directory)
