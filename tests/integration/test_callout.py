"""Who is let in by token on a real server, what they may do there, and how they are thrown out."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from headrace.bus.log import LogRefused
from headrace.client.endpoint import ConnectionTarget as ClientDoor
from headrace.client.endpoint import bearer_login
from headrace.client.errors import Refused
from headrace.client.link import Link
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group
from headrace.contracts.messages.tokens import TokenRole
from headrace.nats_client.connection import Connection
from tests.integration.doors import gone, site
from tests.patience import PATIENCE


async def acknowledged(connection: Connection, subject: str) -> dict[str, Any]:
    ack: dict[str, Any] = json.loads((await connection.ask(subject, b"{}")).data)
    return ack


async def test_people_service_accounts_and_nodes_are_let_in_as_what_they_are(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        alice, node = await here.user("alice"), await here.node("gpu01")
        ci = await here.enter("acme_ci", await here.token("ci", role=TokenRole.SERVICE_ACCOUNT))
        admin = await here.enter("default_ops", await here.token("ops", "default", TokenRole.ADMIN))
        assert (await acknowledged(alice, "hr.submit.acme.alice.rnd.one"))["stream"] == "SUBMIT"
        assert (await acknowledged(ci, "hr.submit.acme.ci.rnd.one"))["stream"] == "SUBMIT"
        assert (await acknowledged(admin, "hr.submit.acme.bob.rnd.one"))["stream"] == "SUBMIT"
        assert (await acknowledged(node, "hr.ledger.node.gpu01"))["stream"] == "LEDGER"
        subjects: asyncio.Queue[str] = asyncio.Queue()

        async def receive(message: Any) -> None:
            subjects.put_nowait(message.subject)

        listener = await here.listener("alice")
        await listener.subscribe("hr.feed.acme.>", cb=receive)
        await listener.flush()
        feed = await here.login("feed")
        await acknowledged(feed, "hr.feed.other.job.ended.x")
        await acknowledged(feed, "hr.feed.acme.job.ended.x")
        assert await asyncio.wait_for(subjects.get(), PATIENCE) == "hr.feed.acme.job.ended.x"


async def test_a_revocation_throws_out_who_is_there_and_lets_them_in_no_more(tmp_path: Path) -> None:
    async with site(tmp_path, doors=2) as here:
        token = await here.token("alice")
        alice, bob, node = await here.enter("acme_alice", token), await here.user("bob"), await here.node("gpu01")
        await here.append_facts(f.TokenRevokedV1(author="a.b", tenant="acme", handle="alice"))
        await gone(alice)

        async def come_and_go() -> (
            None
        ):  # the other door may not have read it yet: whom it lets in, it throws out as soon as it has
            while True:
                await gone(await here.enter("acme_alice", token))

        with pytest.raises(LogRefused):
            await come_and_go()
        assert (bob.is_connected, node.is_connected) == (True, True)
        await here.append_facts(f.GroupAppliedV1(author="a.b", group=Group(tenant="acme", name="rnd")))
        await gone(bob)
        await here.append_facts(f.TokenRevokedV1(author="a.b", handle="gpu01"))
        await gone(node)


async def test_while_it_does_not_answer_services_go_on_and_others_come_in_later(tmp_path: Path) -> None:
    async with site(tmp_path, doors=0) as here:
        token = await here.token("alice")
        knocking = asyncio.create_task(here.enter("acme_alice", token))
        allocator = await here.login("allocator")
        assert (await acknowledged(allocator, "hr.ledger.allocator"))["stream"] == "LEDGER"
        door = await here.open_door()
        alice = await asyncio.wait_for(knocking, PATIENCE)
        door.cancel()
        await asyncio.gather(door, return_exceptions=True)
        here.doors.remove(door)
        assert (await acknowledged(alice, "hr.submit.acme.alice.rnd.one"))["stream"] == "SUBMIT"


class Watched(Link):
    """Sets `reconnected` when it is connected again."""

    def __init__(self, target: ClientDoor, reconnected: asyncio.Event) -> None:
        super().__init__(target)
        self.reconnected = reconnected

    def back(self, server: str) -> None:
        super().back(server)
        self.reconnected.set()


async def test_a_permission_that_runs_out_is_asked_for_again_without_an_interruption(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.callout.permits.LIFETIME", 1)
    async with site(tmp_path) as here:
        back = asyncio.Event()
        link = Watched(ClientDoor(here.server.url, bearer_login(await here.token("alice"))), back)
        await link.open()
        try:
            await asyncio.wait_for(back.wait(), PATIENCE)
            assert json.loads(await link.ask("hr.submit.acme.alice.rnd.one", b"{}"))["stream"] == "SUBMIT"
        finally:
            await link.close()


async def test_a_client_whose_token_is_refused_is_told_so(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        link = Link(ClientDoor(here.server.url, bearer_login(await here.token("nobody"))))
        with pytest.raises(Refused, match="look at its password, or ask for a new token"):
            await link.open()


async def test_an_answer_to_a_stranger_goes_into_the_strangers_account_only(tmp_path: Path) -> None:
    """The redirects: an acknowledgement, an answer, a delivery that would land in the ledger."""
    async with site(tmp_path) as here:
        alice, node, feed = await here.user("alice"), await here.node("gpu01"), await here.login("feed")

        async def answer(question: Any) -> None:
            await question.respond(b"a record, as it were")

        await feed.subscribe("hr.query.orders.node.*", cb=answer)
        await feed.flush()
        before = await here.ledger.tip()
        for reply in ("hr.ledger.allocator", "hr.ledger.node.gpu02", "hr.submit.acme.bob.rnd.one"):
            await alice.publish("hr.submit.acme.alice.rnd.one", b"{}", reply=reply)
            await node.publish("hr.query.orders.node.gpu01", b"{}", reply=reply)
            await node.publish("hr.telemetry.gpu01.heartbeat", b"{}", reply=reply)
        request = {"stream_name": "SUBMIT", "config": {"deliver_subject": "hr.ledger.allocator", "name": "x"}}
        with pytest.raises(LogRefused):
            await alice.ask("$JS.API.CONSUMER.CREATE.SUBMIT.x", json.dumps(request).encode())
        for connection in (alice, node, feed, here.core) * 2:
            await connection.flush()
        assert await here.ledger.tip() == before
        assert json.loads((await here.core.ask("$JS.API.STREAM.INFO.SUBMIT")).data)["state"]["num_subjects"] == 1
