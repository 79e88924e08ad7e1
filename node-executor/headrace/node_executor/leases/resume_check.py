"""Tells a job the checkpoint to resume from, if the job can read it where it runs (R29).

Strategy: the ledger names the newest checkpoint, which may lie on the disk of another node. So before the start the node looks, as the
job's account, in a thread and with a deadline, whether it can be read here; if not, the job starts without it, and its output says so. A
URI that is not a file (`s3://...`) is passed on unchanged. A container finds the checkpoint if it is in one of its own directories or
mounts, or in the directory of an earlier attempt, which is then mounted.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable

import structlog

from headrace.node_executor.files.checkpoints import path_of
from headrace.node_executor.files.inspection import FileInspector, acting_as
from headrace.node_executor.launch.environment import RESUME_FROM
from headrace.node_executor.leases.running_lease import RunningLease
from headrace.node_executor.system.accounts import UserAccount

_log = structlog.get_logger("headrace.node_executor")


class ResumeCheck:
    """Checks with `inspector` whether checkpoints can be read."""

    def __init__(self, inspector: FileInspector) -> None:
        self._inspector = inspector

    def check_then(self, held: RunningLease, then: Callable[[], None]) -> None:
        """Check the checkpoint that the lease is to resume from, then call `then`; at once if it has none."""
        uri = held.order.resume_from
        path = path_of(uri)
        if not path:
            then()
            return
        path = os.path.join(held.prepared.directory, path)
        directory = attempt_of(held, path) if held.order.image else ""
        if held.order.image and not directory and not _is_inside(held, path):
            self._without(held, "its container has no directory in which that is")
            then()
            return

        def checked(done: asyncio.Future[None]) -> None:
            error = done.exception()
            if error is not None:
                self._without(held, getattr(error, "strerror", None) or str(error))
            elif directory:
                held.give(directory)
            then()

        account = held.prepared.account
        self._inspector.inspect(held.owner, held.order.lease, lambda: read_as(account, path)).add_done_callback(checked)

    def _without(self, held: RunningLease, reason: str) -> None:
        uri = held.order.resume_from
        held.output.note(f"the checkpoint {uri[:200]} cannot be read on this node, so the job starts without it: {reason}")
        held.set(RESUME_FROM, "")
        _log.warning("not_resumed", lease=held.order.lease, checkpoint=uri, reason=reason)


def read_as(account: UserAccount | None, path: str) -> None:
    """Raise `OSError` if the account cannot read this file or directory. May block without limit."""
    with acting_as(account):
        kind = os.stat(path).st_mode
        if not stat.S_ISREG(kind) and not stat.S_ISDIR(kind):
            raise OSError("it is neither a file nor a directory")
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
        if stat.S_ISDIR(kind):
            os.stat(f"{path}/.")


def attempt_of(held: RunningLease, path: str) -> str:
    """Return the directory of an earlier attempt of the job that contains the path; "" if none does.

    These directories belong to the executor's account, so the job cannot replace them.
    """
    paths = held.prepared.paths
    for folder in (os.path.dirname(paths.checkpoints), os.path.dirname(paths.control)):
        name, slash, _ = path.removeprefix(f"{folder}/").partition("/")
        top = f"{folder}/{name}"
        if slash and path.startswith(f"{top}/") and name.startswith(f"{held.order.job}.") and top not in _places(held):
            return top
    return ""


def _is_inside(held: RunningLease, path: str) -> bool:
    return any(path.startswith(f"{place}/") for place in _places(held))


def _places(held: RunningLease) -> tuple[str, ...]:
    """Return the directories of this node that a container finds at the same path."""
    container = held.prepared.container
    if container is None:
        return ()
    return (*container.binds, *(mount.source for mount in container.mounts if mount.source == mount.target))
