"""Refuses submissions while the disk of the only NATS server is full: the server answers nothing, and submitters would wait.

A server whose disk was full writes no more to a stream until it is restarted, so a submission that it has not acknowledged at once is not
stored: the refusal comes a moment later than its answer would, as an acknowledgement that is an error (10047, no storage).
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import msgspec
from nats import errors

from headrace.bus.nats.connection import connect
from headrace.contracts.transport.subjects import awaits_answer
from headrace.nats_client.acknowledgement import NO_STORAGE, Acknowledgement, PublishError

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from headrace.client.endpoint import Login

SUBMITS = "hr.submit.>"
AFTER = 0.5
"""Seconds within which the server acknowledges what it has stored."""
WHY = "the disk of the NATS server is full: nothing is accepted until there is room, then it goes on by itself"


async def refuse(url: str, operator: Login) -> None:
    """Refuse submissions until cancelled."""
    connection = await connect(url, operator.name, operator.password, name="supervisor")
    refusal = msgspec.json.encode(Acknowledgement(error=PublishError(code=500, err_code=NO_STORAGE, description=WHY)))
    answers: set[asyncio.Task[None]] = set()

    async def answer(reply: str) -> None:
        await asyncio.sleep(AFTER)
        with contextlib.suppress(errors.Error):
            await connection.publish(reply, refusal)

    async def on_submit(message: Msg) -> None:
        if awaits_answer(message.reply):
            task = asyncio.create_task(answer(message.reply))
            answers.add(task)
            task.add_done_callback(answers.discard)

    try:
        await connection.subscribe(SUBMITS, cb=on_submit)
        await asyncio.Event().wait()
    finally:
        await asyncio.gather(*answers, return_exceptions=True)
        await connection.close()
