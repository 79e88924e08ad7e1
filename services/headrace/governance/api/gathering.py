"""Wishes gathered on their way to SUBMIT: those that come while a message is being stored go together in the next.

Strategy: what is acknowledged is on the disk, and a write to the disk costs the same for one job as for a thousand. So each subject has one
message under way at a time; whoever comes meanwhile waits for it and shares the next one. Nobody waits who comes alone.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from headrace.client.wishing import packed

if TYPE_CHECKING:
    from headrace.bus.log import Log
    from headrace.contracts.wishes import JobWish


class _Waiting(NamedTuple):
    wishes: list[JobWish]
    stored: asyncio.Future[None]


class Gathering:
    """The messages under way to one log, by subject."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Waiting]] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    async def store(self, log: Log, subject: str, wishes: list[JobWish]) -> None:
        """Store wishes; returns when they are durable, and raises what the log raises."""
        waiting = _Waiting(wishes, asyncio.get_running_loop().create_future())
        line = self._waiting.get(subject)
        if line is None:
            self._waiting[subject] = [waiting]
            task = asyncio.create_task(self._send(log, subject))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        else:
            line.append(waiting)
        await waiting.stored

    async def _send(self, log: Log, subject: str) -> None:
        """One message behind the other, until nobody waits."""
        tenant, user = subject.split(".")[2:4]
        while line := self._waiting[subject]:
            self._waiting[subject] = []
            trouble: Exception | None = None
            try:
                for group, payload in packed(wish for waiting in line for wish in waiting.wishes):
                    await log.append(subject, payload, None, f"{tenant}.{user}.{group[0].id}")
            except Exception as error:  # noqa: BLE001 - it is told to all who wait for it
                trouble = error
            for waiting in line:
                if waiting.stored.done():  # whoever asked is gone
                    continue
                if trouble is None:
                    waiting.stored.set_result(None)
                else:
                    waiting.stored.set_exception(trouble)
        del self._waiting[subject]
