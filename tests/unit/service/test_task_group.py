from __future__ import annotations

import asyncio

import pytest

from headrace.service.task_group import run_until_first_ends


class Endless:
    """A loop that runs until it is cancelled, and tidies up."""

    def __init__(self):
        self.story = []

    async def run(self):
        self.story.append("runs")
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.story.append("tidied up")


async def test_when_one_ends_the_others_are_stopped_before_it_returns():
    others = [Endless(), Endless()]

    async def short():
        return

    await run_until_first_ends(others[0].run(), short(), others[1].run())
    assert [other.story for other in others] == [["runs", "tidied up"]] * 2


async def test_what_one_fails_of_is_raised_as_it_is():
    other, failure = Endless(), LookupError("no node")

    async def failing():
        raise failure

    with pytest.raises(LookupError) as raised:
        await run_until_first_ends(other.run(), failing())
    assert (raised.value, other.story) == (failure, ["runs", "tidied up"])


async def test_a_cancelled_task_stops_them_all():
    loops = [Endless(), Endless()]
    task = asyncio.ensure_future(run_until_first_ends(*(loop.run() for loop in loops)))
    while not all(loop.story for loop in loops):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [loop.story for loop in loops] == [["runs", "tidied up"]] * 2


async def test_a_loop_that_fails_while_it_is_stopped_hides_nothing():
    async def failing_late():
        try:
            await asyncio.Event().wait()
        finally:
            raise OSError

    async def failing():
        await asyncio.sleep(0)
        raise LookupError

    with pytest.raises(LookupError):
        await run_until_first_ends(failing_late(), failing())
