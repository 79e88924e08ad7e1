"""A process is ready while all its checks hold; whatever goes wrong in one is what is wrong."""

from __future__ import annotations

import asyncio

from headrace.health import health
from headrace.health.health import Health, Readiness


async def test_it_is_ready_while_every_check_holds():
    one = Health("allocator")
    assert await one.readiness() == Readiness(ready=True, role="active", checks={})
    one.check("nats", lambda: "away")
    one.check("ledger", lambda: "")
    assert await one.readiness() == Readiness(ready=False, role="active", checks={"nats": "away", "ledger": ""})
    one.check("nats", lambda: "")
    one.role = lambda: "standby"
    assert await one.readiness() == Readiness(ready=True, role="standby", checks={"nats": "", "ledger": ""})


async def test_it_is_not_ready_before_the_check_that_it_waits_for_was_added():
    one = Health("allocator")
    one.not_before("ledger")
    assert await one.readiness() == Readiness(ready=False, role="active", checks={"ledger": "it is beginning"})
    one.check("ledger", lambda: "")
    one.not_before("ledger")
    assert await one.readiness() == Readiness(ready=True, role="active", checks={"ledger": ""})


async def test_a_check_that_fails_or_hangs_is_what_is_wrong_and_delays_no_other(monkeypatch):
    monkeypatch.setattr(health, "ANSWER_WITHIN", 0.05)
    one = Health("feed")

    async def hangs():
        await asyncio.Event().wait()
        return ""

    def fails():
        raise OSError("no such thing")

    one.check("hangs", hangs)
    one.check("fails", fails)
    assert (await one.readiness()).checks == {"hangs": "no answer within 0.05 s", "fails": "no such thing"}


async def test_figures_are_brought_up_to_date_before_they_are_read_and_never_waited_for_long(monkeypatch):
    monkeypatch.setattr(health, "ANSWER_WITHIN", 0.05)
    one, tip = Health("feed"), [0]
    one.metrics.gauge("headrace_tip", "says", lambda: tip[0])

    async def look():
        tip[0] += 1

    async def hangs():
        await asyncio.Event().wait()

    one.before_metrics(look)
    one.before_metrics(hangs)
    assert b"headrace_tip 1.0" in await one.text()
    assert b"headrace_tip 2.0" in await one.text()
