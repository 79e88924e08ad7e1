"""Batches submissions to SUBMIT: those that arrive while a message is being stored share the next message.

Strategy: an acknowledged message is on disk, and a write to disk costs the same for one job as for a thousand. So each subject has one
message in progress at a time; later callers wait for it and share the next one. A single caller does not wait. A message has no message
id: several callers share it, and one of them may repeat a job of another message; admission identifies jobs by their ids (R14).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from headrace.bus.log import LogUnavailable, NoStorage
from headrace.client.submissions import pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.bus.log import Log
    from headrace.contracts.messages.submissions import JobSubmission

STORED_WITHIN = 15.0
"""Maximum seconds of retries while the bus is away; the caller's own deadline may be earlier."""
TRY_AGAIN = 0.2


async def append(log: Log, subject: str, payload: bytes, still_wanted: Callable[[], bool]) -> int:
    """Append without a condition. Returns the sequence. Retries while the bus is away and `still_wanted` returns true.

    Raises the log's last error; a full disk is raised at once.
    """
    while True:
        try:
            return await log.append(subject, payload, None)
        except NoStorage:
            raise
        except LogUnavailable:
            if not still_wanted():
                raise
        await asyncio.sleep(TRY_AGAIN)


class _Waiting(NamedTuple):
    """Submissions of one caller. `stored`: the sequence of the last message with any of them; `deadline`: by the loop's clock."""

    submissions: list[JobSubmission]
    stored: asyncio.Future[int]
    deadline: float


class SubmitBatcher:
    """The messages in progress to one log, by subject."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Waiting]] = {}
        self._under_way: set[asyncio.Task[None]] = set()

    async def store(self, log: Log, subject: str, submissions: list[JobSubmission], within: float) -> int:
        """Store submissions durably. Returns the sequence of a message up to which all of them are stored.

        Retries for `within` seconds while the bus is away. Raises the log's errors, LogUnavailable after that time.
        """
        loop = asyncio.get_running_loop()
        waiting = _Waiting(submissions, loop.create_future(), loop.time() + within)
        line = self._waiting.get(subject)
        if line is None:
            self._waiting[subject] = [waiting]
            task = asyncio.create_task(self._send(log, subject))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)
        else:
            line.append(waiting)
        try:
            async with asyncio.timeout_at(waiting.deadline):
                return await waiting.stored
        except TimeoutError:
            raise LogUnavailable(
                f"{subject} is not stored within {within:g} s; it may be yet: repeat it with the same ids"
            ) from None

    async def _send(self, log: Log, subject: str) -> None:
        """Send one message after the other until no caller waits."""
        while line := self._waiting[subject]:
            self._waiting[subject] = []
            ended = await _stored(log, subject, line)
            for waiting in line:
                if waiting.stored.done():  # the caller has gone
                    continue
                if isinstance(ended, int):
                    waiting.stored.set_result(ended)
                else:
                    waiting.stored.set_exception(ended)
        del self._waiting[subject]


async def _stored(log: Log, subject: str, line: list[_Waiting]) -> int | Exception:
    """The sequence of the last message with any of their submissions, or the error."""
    loop, sequence = asyncio.get_running_loop(), 0

    def still_wanted() -> bool:
        return any(not waiting.stored.done() and loop.time() + TRY_AGAIN < waiting.deadline for waiting in line)

    try:
        for _, payload in pack(submission for waiting in line for submission in waiting.submissions):
            sequence = await append(log, subject, payload, still_wanted)
    except Exception as error:  # noqa: BLE001 - it is raised in every waiting caller
        return error
    return sequence
