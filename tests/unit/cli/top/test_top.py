"""`headrace top`: what it computes from overviews, and the view in a terminal of Textual's tests."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest
from textual.widgets import DataTable, Input, Static

from headrace.cli.top.overview import (
    COLOURS,
    FREE,
    OTHERS,
    UNFIT,
    EventRow,
    NodeCells,
    PoolRow,
    QueueRow,
    events_of,
    picture_of,
)
from headrace.cli.top.screen import Answered, Top, cells
from headrace.client import HeadraceError

JOB = "01jd3v8k5w2m4x6z8b0c2e4g6h"
GPU = 126_000


def overview(sequence: int = 7, running: int = 1) -> dict:
    scope = {"key": "gpu", "used": "1.5", "reservation": "2", "borrowed": "0", "limit": "3"}
    return {
        "sequence": str(sequence),
        "time": "2026-11-26T14:02:11Z",
        "pools": [{"name": "pools/hall", "keys": [{"key": "gpu", "capacity": "4", "used": "2", "free": "1", "unusable": "1"}]}],
        "queues": [
            {
                "name": "tenants/acme/queues/dev/one",
                "policy": "dev",
                "profile": "one",
                "running": str(running),
                "pending": "2",
                "scopes": [scope],
            }
        ],
        "nodes": {"name": ["n1", "n2"], "pool": ["hall", "hall"], "state": ["ready", "lost"], "model": ["", ""]},
        "devices": {
            "node": [0, 0, 0, 1],
            "name": ["g0", "g1", "g2", "g0"],
            "used": [GPU, GPU, 0, 0],
            "kept": [0, 0, 0, 0],
            "unfit": ["", "", "", "XID 79"],
            "shares": {"device": [0], "holder": [0], "units": [GPU], "mig": [""], "start": [0]},
        },
        "holders": {"id": [JOB], "tenant": ["acme"], "user": ["ann"], "queue": ["dev/one"]},
    }


def test_a_picture_has_pools_queues_and_a_colour_for_every_gpu() -> None:
    picture = picture_of(overview())
    assert picture.pools == (PoolRow("hall", "2", "1", "0", "1", "4"),)
    assert picture.queues == (QueueRow("acme", "dev/one", 1, 2, "1.5", "2", "0", "3", COLOURS[0]),)
    assert picture.nodes == (NodeCells("n1", "ready", (COLOURS[0], OTHERS, FREE)), NodeCells("n2", "lost", (UNFIT,)))
    assert (picture.sequence, picture.running, picture.waiting) == (7, 1, 2)


def test_an_empty_installation_has_an_empty_picture() -> None:
    picture = picture_of({"sequence": "1"})
    assert (picture.pools, picture.queues, picture.nodes, picture.running) == ((), (), (), 0)


def test_events_name_users_and_the_ends_of_ids() -> None:
    event = {"sequence": "9", "time": "2026-11-26T14:02:11Z", "text": "granted", "about": f"acme.ann.{JOB}", "rule": "R15"}
    assert events_of({"events": [event]}) == [EventRow(9, "14:02:11", "granted", f"ann …{JOB[-6:]}", "R15")]


def test_two_gpus_share_a_character_and_nodes_that_do_not_fit_go_to_the_next_line() -> None:
    nodes = [NodeCells(f"node-{number}", "ready", (COLOURS[0],) * 8) for number in range(3)]
    lines = [str(line) for line in cells(nodes, 40).renderables]
    assert lines == ["node-0      ▀▀▀▀  node-1      ▀▀▀▀  ", "node-2      ▀▀▀▀  "]


class Fake:
    """A client of an installation whose ledger ends with record 7."""

    def __init__(self) -> None:
        self.changes: asyncio.Queue[dict | HeadraceError] = asyncio.Queue()
        self.asked: list[int] = []

    async def watch_overview(self, since: int = 0):
        assert since >= 0
        while True:
            change = await self.changes.get()
            if isinstance(change, HeadraceError):
                raise change
            yield change

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
        assert app.query_one("#pools", DataTable).get_row_at(0) == ["hall", "2", "1", "0", "1", "4"]
        fake.changes.put_nowait({"sequence": "8", "overview": overview(8, running=5)})
        await shown(app, pilot, "live, record 8   5 running")


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
