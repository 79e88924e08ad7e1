"""When the instance that an executor runs on ends by itself, so that none is paid for because the control plane is gone (R38).

It ends if it has not joined in time, if it has heard nothing of the installation and run no job for a while, or at its greatest age.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec
import structlog

from headrace.contracts.facts import InstanceInterruptedV1
from headrace.contracts.facts.levels import PROVISIONING
from headrace.contracts.values.durations import SECOND
from headrace.node_executor.system.clock import clock

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.node_executor.executor import Executor
    from headrace.node_executor.reporting.ledger import FactWriter
    from headrace.node_executor.reporting.link import Link

LOOK_EVERY = 1.0
NOTICE_EVERY = 3.0

_log = structlog.get_logger("headrace.node_executor")


class Limits(NamedTuple):
    """Durations in seconds; 0: no limit. `notice`: what says when the provider takes the instance back: a file, `ec2`, or nothing."""

    join_within: float = 0.0
    orphan_after: float = 0.0
    max_life: float = 0.0
    notice: str = ""


class SelfEnd:
    """The limits of one instance whose executor starts at `now`, in seconds of a monotonic clock, and that is `age` seconds old."""

    def __init__(self, limits: Limits, now: float, age: float = 0.0) -> None:
        self._limits = limits
        self._began = now - age
        self._started = self._needed_at = now

    def due(self, now: float, *, answered: bool, connected: bool, running: int) -> str:
        """Why the instance has to end now; empty if it may go on. `answered`: it has ever been told what should run on it."""
        limits = self._limits
        if running or (connected and answered):
            self._needed_at = now
        if limits.max_life and now - self._began >= limits.max_life:
            return f"it has reached its greatest age of {limits.max_life:g} s"
        if not answered:
            late = limits.join_within and now - self._started >= limits.join_within
            return f"it has not joined within {limits.join_within:g} s" if late else ""
        if limits.orphan_after and now - self._needed_at >= limits.orphan_after:
            return f"it has heard nothing of the installation and run no job for {limits.orphan_after:g} s"
        return ""


class Notice(msgspec.Struct, kw_only=True):
    """What the provider says of an instance that it takes back: `kind` (`spot`, `maintenance`), and when, in microseconds since 1970."""

    kind: str
    deadline: int


def notice_in(path: str) -> Notice | None:
    """The notice in a file; None if the file does not exist or cannot be read yet."""
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=Notice)
    except (OSError, msgspec.DecodeError):
        return None


BEGAN = "began"
"""File in the data directory: when an executor first ran there, in microseconds since 1970."""


def age_of(data: str) -> float:
    """Seconds since an executor first ran with this data directory, so that one that is started again does not begin anew."""
    path = os.path.join(data, BEGAN)
    try:
        if not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                file.write(str(clock()))
        with open(path, encoding="ascii") as file:
            return max(0.0, (clock() - int(file.read())) / SECOND)
    except (OSError, ValueError):
        return 0.0


class Stopping(Protocol):
    """Where an end is asked for."""

    def end_by_itself(self, why: str) -> None:
        """End the jobs and stop, for a reason of its own."""


async def keep_to_limits(
    limits: Limits,
    node: str,
    link: Link,
    ledger: FactWriter,
    executor: Executor,
    stop: Stopping,
    read_notice: Callable[[], Notice | None] | None = None,
    age: float = 0.0,
) -> None:
    """End by itself when a limit is reached, and tell of a notice by the provider, until cancelled.

    `read_notice`: reads the notice; None if the provider gives none. `age`: of the instance, in seconds (`age_of`).
    """
    ends, reported, ended, looked_at = SelfEnd(limits, time.monotonic(), age), False, False, 0.0
    while True:
        state = {"answered": link.was_answered, "connected": link.is_connected}
        why = ends.due(time.monotonic(), **state, running=executor.running)
        if why and not ended:
            ended = True
            _log.warning("ends_by_itself", reason=why)
            stop.end_by_itself(why)
        due = time.monotonic() - looked_at >= NOTICE_EVERY
        if read_notice is not None and not reported and due and ledger.level >= PROVISIONING:
            looked_at = time.monotonic()
            notice = await asyncio.to_thread(read_notice)
            if notice is not None:
                reported = True
                _log.warning("taken_back", kind=notice.kind, deadline=notice.deadline)
                ledger.state(InstanceInterruptedV1(node=node, kind=notice.kind, deadline=notice.deadline, at=clock()))
        await asyncio.sleep(LOOK_EVERY)
