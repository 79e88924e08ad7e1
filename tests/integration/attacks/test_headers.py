"""Headers of NATS that a user publishes with a submission: they have no effect, and tell nothing about other tenants. On a real server."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from headrace.nats_client.connection import Connection
from tests.integration.doors import Site, site
from tests.patience import PATIENCE

JOB = "01jd3v8k5w2m4x6z8b0c2e4g6h"
MINE = "hr.submit.acme.alice.rnd.one"
THEIRS = "hr.submit.other.alice.rnd.one"
STORED = {"stream": "SUBMIT", "seq": 1}
LAST, LAST_OF = "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject"

HEADERS: tuple[dict[str, str], ...] = (
    {"Nats-Msg-Id": "one"},
    {"Nats-Msg-Id": "one"},  # the second with that id
    {"Nats-Expected-Stream": "LEDGER"},
    {"Nats-Expected-Last-Sequence": "99"},
    {"Nats-Expected-Last-Msg-Id": "another"},
    {LAST: "99"},
    {LAST: "99", LAST_OF: THEIRS},
    {LAST: "99", LAST_OF: "hr.submit.other.>"},
    {LAST: "99", LAST_OF: "hr.>"},
    {"Nats-Rollup": "all"},
    {"Nats-Rollup": "sub"},
    {"Nats-TTL": "1s"},
    {"Nats-Incr": "5"},
    {"Nats-Schedule": "@every 1s", "Nats-Schedule-Target": THEIRS},
    {"Nats-Schedule": "@at 2030-01-01T00:00:00Z", "Nats-Schedule-Target": "hr.ledger.governance", "Nats-Schedule-TTL": "1s"},
    {"Nats-Batch-Id": "x", "Nats-Batch-Sequence": "1"},
    {"Nats-Batch-Id": "x", "Nats-Batch-Sequence": "1", "Nats-Batch-Commit": "1"},
    {"Nats-Required-Api-Level": "99"},
    {"Nats-Stream-Source": "LEDGER"},
    {"Nats-Sequence": "7", "Nats-Subject": THEIRS, "Nats-Stream": "LEDGER"},
    {"Status": "503"},
    {"Anything": "else"},
)


async def ask_json(connection: Connection, subject: str, headers: dict[str, str] | None = None) -> Any:
    return json.loads((await connection.ask(subject, b"{}", headers, PATIENCE)).data)


async def stored(here: Site) -> list[dict[str, Any]]:
    """All messages of SUBMIT, as the server shows them."""
    state = json.loads((await here.core.ask("$JS.API.STREAM.INFO.SUBMIT")).data)["state"]
    found = []
    for sequence in range(1, state["last_seq"] + 1):
        answer = await here.core.ask("$JS.API.STREAM.MSG.GET.SUBMIT", b'{"seq":%d}' % sequence)
        found.append(json.loads(answer.data)["message"])
    return found


async def test_no_header_of_a_user_has_an_effect_or_is_stored(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        alice = await here.user("alice")
        subjects = (MINE, f"hr.cancel.acme.alice.{JOB}", f"hr.requeue.acme.alice.{JOB}")
        assert [await ask_json(alice, subject, header) for header in HEADERS for subject in subjects] == [STORED] * 3 * len(
            HEADERS
        )
        kept = await stored(here)
        assert [message["subject"] for message in kept] == [subject for _ in HEADERS for subject in subjects]
        assert not [message for message in kept if "hdrs" in message]
        assert await here.ledger.tip() == here.governance.last


@pytest.mark.parametrize("whose", [THEIRS, "hr.submit.other.alice.*.*", "hr.submit.other.>", "hr.>"])
async def test_the_answer_tells_nothing_about_what_other_tenants_submit(tmp_path: Path, whose: str) -> None:
    async with site(tmp_path) as here:
        alice, victim = await here.user("alice"), await here.user("alice", "other")
        guesses: list[dict[str, str] | None] = [{LAST: str(guess), LAST_OF: whose} for guess in range(12)]
        guesses += [{"Nats-Expected-Last-Sequence": str(guess)} for guess in range(12)] + [None]
        before = [await ask_json(alice, MINE, guess) for guess in guesses]
        for _ in range(3):
            assert await ask_json(victim, THEIRS) == STORED
        after = [await ask_json(alice, MINE, guess) for guess in guesses]
        assert before == after == [STORED] * len(guesses)


async def test_a_user_hears_of_a_message_that_the_stream_refuses_in_the_words_of_the_stream(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        alice = await here.user("alice")
        answer = json.loads((await alice.ask(MINE, b"x" * 3 * 1024 * 1024)).data)
        assert answer == {
            "error": {"code": 400, "err_code": 10054, "description": "message size exceeds maximum allowed"},
            "stream": "SUBMIT",
            "seq": 0,
        }


async def test_one_intake_of_several_is_enough_and_each_submission_is_stored_once(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        alice, second = await here.user("alice"), await here.open_intake()
        assert [await ask_json(alice, MINE) for _ in range(20)] == [STORED] * 20
        second.cancel()
        await asyncio.wait({second})
        assert [await ask_json(alice, MINE) for _ in range(20)] == [STORED] * 20
        assert len(await stored(here)) == 40


async def test_an_intake_that_stops_answers_what_it_has_received(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        alice, others = await here.user("alice"), [await here.open_intake() for _ in range(3)]
        asking = [asyncio.ensure_future(ask_json(alice, MINE)) for _ in range(300)]
        await asyncio.sleep(0)
        for one in others:
            one.cancel()
        async with asyncio.timeout(PATIENCE):
            assert await asyncio.gather(*asking) == [STORED] * 300


async def test_what_one_client_publishes_is_stored_in_order_where_there_is_one_intake(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        alice = await here.user("alice")
        for number in range(500):
            await alice.publish(MINE, b"%d" % number)
        await ask_json(alice, MINE)
        assert [b64decode(message["data"]) for message in await stored(here)] == [*(b"%d" % n for n in range(500)), b"{}"]
