"""One caller must not take what is shared: connections, and answers that are sent where others listen. On a real server."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.bus.log import LogRefused
from headrace.bus.nats.permissions import CONNECTIONS
from headrace.contracts import facts as f
from headrace.contracts.messages.tokens import FEED_SUBSCRIPTIONS, PERSON_CONNECTIONS, TokenRole
from tests.integration.crowd import Crowd
from tests.integration.doors import enters, gone, site
from tests.patience import PATIENCE

FEW = 12
"""Connections that all people together may have here."""


async def test_one_bearer_gets_a_limited_number_of_connections_and_others_get_theirs(tmp_path: Path) -> None:
    async with site(tmp_path, doors=2) as here:
        crowd, token = Crowd(here.server.url), await here.token("alice")
        assert await crowd.grow("acme_alice", token, PERSON_CONNECTIONS + 8) == PERSON_CONNECTIONS
        assert not await enters(here, await here.token("alice"))  # another token of the same person
        bob = await here.user("bob")
        assert json.loads((await bob.ask("hr.submit.acme.bob.rnd.one", b"{}")).data)["stream"] == "SUBMIT"
        crowd.leave()
        async with asyncio.timeout(PATIENCE):
            while not await enters(here, token):
                await asyncio.sleep(0.1)


async def test_when_users_have_taken_all_their_connections_the_provider_still_gets_in_and_disconnects_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONNECTIONS, "USERS", FEW)
    async with site(tmp_path) as here:
        crowd, token = Crowd(here.server.url), await here.token("alice")
        ops = await here.token("ops", "default", TokenRole.ADMIN)
        # a login of the configuration, which is not counted: only the account's limit holds
        assert await crowd.grow("acme-alice", "secret-alice", 2 * FEW) == FEW
        assert not await enters(here, token)
        owner, admin = await here.login("owner"), await here.enter("default_ops", ops)
        for connection in (owner, admin):
            assert json.loads((await connection.ask("hr.submit.acme.bob.rnd.one", b"{}")).data)["stream"] == "SUBMIT"
        crowd.leave()
        alice = await here.enter("acme_alice", token)
        await here.append_facts(f.TokenRevokedV1(author="a.b", tenant="acme", handle="alice"))
        await gone(alice)


QUESTION = "hr.submit.acme.alice.rnd.one"
"""What a user sends and is answered: nothing else is."""
INTO_THE_FEED = "hr.feed.acme.job.ended.x"


class Received:
    """The bytes that arrive on the subscriptions of connections."""

    def __init__(self) -> None:
        self.bytes = 0
        self.last = 0

    async def receive(self, message: Any) -> None:
        self.bytes += len(message.data)
        self.last += message.subject == "hr.feed.acme.job.last.x"

    async def subscribe(self, connection: Any, subject: str, times: int) -> None:
        for _ in range(times):
            await connection.subscribe(subject, cb=self.receive)
        await connection.flush()


@pytest.mark.parametrize(("level", "times", "delivered"), [(1, 50, 200), (2, FEED_SUBSCRIPTIONS, 0)])
async def test_a_reply_subject_in_the_feed_delivers_no_answer_to_those_who_hear_it(
    tmp_path: Path, level: int, times: int, delivered: int
) -> None:
    """At level 1 it still does, to one's own tenant, because clients of 0.1.0 hear the feed where they ask."""
    async with site(tmp_path, level=level) as here:
        token, feed = await here.token("alice"), await here.login("feed")
        alice = await here.enter("acme_alice", token)
        listener = await here.enter("acme_alice" if level == 1 else "acme_alice_feed", token)
        counted = Received()
        await counted.subscribe(listener, "hr.feed.acme.>", times)
        size = len((await alice.ask(QUESTION, b"{}")).data)
        for _ in range(4):
            await alice.publish(QUESTION, b"{}", reply=INTO_THE_FEED)
        await alice.ask(QUESTION, b"{}")  # answered in order: the four have been answered before
        await feed.ask("hr.feed.acme.job.last.x", b"")
        await here.until(lambda: counted.last == times)
        assert counted.bytes == delivered * size


async def test_a_client_of_release_0_1_0_hears_the_feed_where_it_asks_until_the_level_is_raised(tmp_path: Path) -> None:
    async with site(tmp_path, level=1) as here:
        alice, feed, counted = await here.user("alice"), await here.login("feed"), Received()
        await counted.subscribe(alice, "hr.feed.acme.>", 1)
        await feed.ask(INTO_THE_FEED, b"12345")
        await here.until(lambda: counted.bytes == 5)
        assert json.loads((await alice.ask("hr.submit.acme.alice.rnd.one", b"{}")).data)["stream"] == "SUBMIT"
        listener, older = await here.listener("alice"), Received()  # and one of release 0.2.0 on its second connection
        await older.subscribe(listener, "hr.feed.acme.>", 1)
        await feed.ask(INTO_THE_FEED, b"12345")
        await here.until(lambda: older.bytes == 5)


async def test_the_owner_hears_the_feed_with_clients_of_both_releases(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        feed = await here.login("feed")
        for name in ("owner", "owner_feed"):
            owner, counted = await here.login(name), Received()
            await counted.subscribe(owner, "hr.feed.>", 1)
            await feed.ask(INTO_THE_FEED, b"12345")
            await here.until(lambda counted=counted: counted.bytes == 5)


async def test_an_answer_is_published_in_no_stream_and_as_no_other_users_request_whatever_the_reply_subject(
    tmp_path: Path,
) -> None:
    async with site(tmp_path) as here:
        alice, admission = await here.user("alice"), await here.login("admission")
        before = await here.ledger.tip()
        for subject in (QUESTION, "hr.query.feed.jobs.acme.alice", "hr.query.admission.judge.acme.alice"):
            for reply in (
                *("hr.submit.acme.bob.rnd.one", "hr.cancel.acme.bob.x", "hr.requeue.acme.bob.x", "hr.ledger.governance"),
                *(
                    INTO_THE_FEED,
                    "hr.orders.gpu01",
                    "$O.snapshots.M.x",
                    "$JS.API.STREAM.PURGE.LEDGER",
                    "$JS.API.STREAM.DELETE.SUBMIT",
                ),
            ):
                await alice.publish(subject, b"{}", reply=reply)
        assert json.loads((await alice.ask("hr.submit.acme.alice.rnd.one", b"{}")).data) == {"stream": "SUBMIT", "seq": 1}
        info = json.loads((await here.core.ask("$JS.API.STREAM.INFO.SUBMIT", b'{"subjects_filter": ">"}')).data)["state"]
        assert (info["subjects"], info["messages"]) == ({"hr.submit.acme.alice.rnd.one": 10}, 10)
        assert await here.ledger.tip() == before
        assert admission.is_connected


async def test_a_connection_that_hears_the_feed_asks_nothing_and_hears_no_other_tenant(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        listener = await here.listener("alice")
        for subject in (
            "hr.submit.acme.alice.rnd.one",
            "hr.query.feed.jobs.acme.alice",
            "hr.feed.acme.job.ended.x",
            "anything",
        ):
            with pytest.raises(LogRefused):
                await listener.ask(subject, b"{}")
        subjects: list[str] = []

        async def receive(message: Any) -> None:
            subjects.append(message.subject)

        for subject in ("hr.feed.>", "hr.feed.other.>", ">", "_INBOX.>"):
            with suppress(Exception):
                await listener.subscribe(subject, cb=receive)
        await listener.subscribe("hr.feed.acme.>", cb=receive)
        await listener.flush()
        feed = await here.login("feed")
        for subject in ("hr.feed.other.job.ended.x", "hr.feed.acme.job.ended.x"):
            await feed.ask(subject, b"{}")
        await here.until(lambda: subjects)
        assert subjects == ["hr.feed.acme.job.ended.x"]
