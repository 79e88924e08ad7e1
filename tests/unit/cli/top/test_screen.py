"""`headrace top` in a terminal of Textual's tests."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import msgspec
import pytest
from textual.widgets import Input, Static

from headrace.cli.top import screen
from headrace.cli.top.lines import Table
from headrace.cli.top.screen import Answered, Top
from headrace.client import HeadraceError
from tests.unit.cli.top.overviews import JOB, overview


class Fake:
    """A client of an installation whose ledger ends with record 7."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[dict | HeadraceError] = asyncio.Queue()
        self.asked: list[int] = []

    async def watch_overview_json(self, since: int = 0):
        assert since >= 0
        while True:
            change = await self.changes.get()
            if isinstance(change, HeadraceError):
                raise change
            yield msgspec.json.encode(change)

    async def overview(self, sequence: int = 0) -> dict:
        self.asked.append(sequence)
        return overview(sequence, running=0)

    async def why(self, job: str, *, sequence: int = 0):
        if job != JOB:
            raise HeadraceError("there is no such job")
        return SimpleNamespace(state="pending", message="the policy is at its limit", blockers=(), pools=())


async def shown(app: Top, pilot, text: str) -> None:
    """Wait until the line of totals has this text."""
    async with asyncio.timeout(60):
        while text not in str(app.screen_stack[0].query_one("#totals", Static).render()):
            await pilot.pause(0.05)


@pytest.fixture
def fake() -> Fake:
    fake = Fake()
    event = {"sequence": "7", "time": "2026-11-26T14:02:11Z", "text": "granted", "about": f"acme.ann.{JOB}", "rule": "R15"}
    fake.changes.put_nowait({"sequence": "7", "overview": overview(), "events": [event]})
    return fake


async def test_the_view_shows_what_the_stream_brings(fake) -> None:
    app = Top(fake)
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(app, pilot, "live, record 7   1 running   2 waiting   2 nodes, 1 not ready")
        assert list(app.query_one("#pools", Table).rows) == [("hall", "2", "1", "0", "1", "4")]
        fake.changes.put_nowait({"sequence": "8", "overview": overview(8, running=5)})
        await shown(app, pilot, "live, record 8   5 running")


async def test_who_holds_idle_gpus_is_listed_while_that_is_so(fake) -> None:
    app = Top(fake)
    async with app.run_test(size=(160, 40)) as pilot:
        await shown(app, pilot, "live, record 7")
        assert not app.query_one("#idle", Table).display
        fake.changes.put_nowait({"sequence": "7", "loads": {"busy": [0, -1, -1, -1], "idle": [1, 0, 0, 0]}})
        await shown(app, pilot, "1 GPU held and idle")
        table = app.query_one("#idle", Table)
        assert (table.display, *table.rows) == (True, (f"…{JOB[-6:]}", "ann", "dev/one", "1", "n1"))
        fake.changes.put_nowait({"sequence": "8", "overview": overview(8), "loads": {"busy": [9] * 4, "idle": [0] * 4}})
        await shown(app, pilot, "live, record 8")
        assert not table.display


async def test_the_arrows_step_through_records_and_l_goes_back(fake) -> None:
    app = Top(fake)
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(app, pilot, "live, record 7")
        await pilot.press("left")
        await shown(app, pilot, "as of record 6")
        await pilot.press("left")
        await shown(app, pilot, "as of record 5")
        await pilot.press("l")
        await shown(app, pilot, "live, record 7")
    assert fake.asked == [6, 5]


async def test_a_job_is_explained_over_the_view(fake) -> None:
    app = Top(fake)
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(app, pilot, "live, record 7")
        for job, text in ((JOB, "the policy is at its limit"), ("nothing", "there is no such job")):
            await pilot.press("w")
            app.query_one("#ask", Input).value = job
            await pilot.press("enter")
            async with asyncio.timeout(60):
                while not isinstance(app.screen, Answered):
                    await pilot.pause(0.05)
            assert text in str(app.screen.query_one("#answer", Static).render())
            await pilot.press("escape")


async def test_trouble_is_named_and_the_view_stays(fake) -> None:
    app = Top(fake)
    async with app.run_test(size=(120, 30)) as pilot:
        await shown(app, pilot, "live, record 7")
        fake.changes.put_nowait(HeadraceError("the API is away"))
        await shown(app, pilot, "the API is away")
        await shown(app, pilot, "live, record 7")


async def test_what_happens_without_an_end_is_drawn_less_often_and_what_the_user_asks_for_at_once(fake, monkeypatch) -> None:
    clock = SimpleNamespace(now=0.0, spent=0.0)
    monkeypatch.setattr(screen, "time", SimpleNamespace(monotonic=lambda: clock.now, process_time=lambda: clock.spent))
    app = Top(fake)
    async with app.run_test(size=(120, 30)) as pilot:
        totals = app.query_one("#totals", Static)
        await shown(app, pilot, "live, record 7")
        clock.now, clock.spent = 0.5, 0.1  # a draw that took 100 ms of CPU time rests for a second
        fake.changes.put_nowait({"sequence": "8", "overview": overview(8)})
        while not fake.changes.empty():
            await pilot.pause()
        await pilot.pause(2 * screen.DRAW_EVERY)
        assert "record 7" in str(totals.render())
        await pilot.press("l")
        await shown(app, pilot, "live, record 8")
        clock.spent = 0.2
        fake.changes.put_nowait({"sequence": "9", "overview": overview(9)})
        clock.now = 1.5
        await shown(app, pilot, "live, record 9")
