"""An alarm wakes its sleeper, or keeps the next one awake."""

from __future__ import annotations

import asyncio

from headrace.bus.notifier import Notifier


async def test_a_sleeper_without_alarm_sleeps_until_the_time_is_up() -> None:
    wakeup = Notifier()
    assert await wakeup.sleep(0.001) is False
    assert await wakeup.sleep(0) is False
    assert wakeup.asleep is False


async def test_an_alarm_wakes_the_sleeper() -> None:
    wakeup = Notifier()
    sleeping = asyncio.ensure_future(wakeup.sleep(None))
    await asyncio.sleep(0)
    assert wakeup.asleep
    wakeup.ring()
    wakeup.ring()
    assert await sleeping is True
    assert await wakeup.sleep(0.001) is False


async def test_an_alarm_without_a_sleeper_keeps_the_next_from_falling_asleep_once() -> None:
    wakeup = Notifier()
    wakeup.ring()
    assert [await wakeup.sleep(None), await wakeup.sleep(0.001)] == [True, False]


async def test_a_cancelled_sleeper_leaves_the_alarm_usable() -> None:
    wakeup = Notifier()
    sleeping = asyncio.ensure_future(wakeup.sleep(3600))
    await asyncio.sleep(0)
    sleeping.cancel()
    await asyncio.gather(sleeping, return_exceptions=True)
    assert wakeup.asleep is False
    wakeup.ring()
    assert await wakeup.sleep(None) is True
