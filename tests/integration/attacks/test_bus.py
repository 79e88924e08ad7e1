"""What must not work on the bus, tried on a real server by people, nodes and strangers who mean harm. Each attempt fails closed."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import jwt
import nats
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from nats import errors

from headrace.bus.log import LogRefused
from headrace.bus.nats.permissions import SUBSCRIPTIONS
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group
from headrace.contracts.messages.tokens import TokenRole, inbox_prefix
from tests.integration.doors import Site, enters, site
from tests.patience import PATIENCE

JOB = "01jd3v8k5w2m4x6z8b0c2e4g6h"
STREAMS_API = (
    *("INFO", "STREAM.NAMES", "STREAM.INFO.LEDGER", "STREAM.PURGE.LEDGER", "STREAM.DELETE.LEDGER", "STREAM.UPDATE.LEDGER"),
    *("STREAM.MSG.GET.LEDGER", "STREAM.MSG.DELETE.LEDGER", "STREAM.SNAPSHOT.LEDGER", "STREAM.RESTORE.X", "STREAM.CREATE.X"),
    *("DIRECT.GET.LEDGER", "CONSUMER.CREATE.LEDGER.x", "CONSUMER.DURABLE.CREATE.LEDGER.x", "CONSUMER.MSG.NEXT.LEDGER.x"),
    *("STREAM.PURGE.SUBMIT", "STREAM.MSG.GET.FEED", "META.LEADER.STEPDOWN", "STREAM.LEADER.STEPDOWN.LEDGER"),
)
FORBIDDEN_TO_PUBLISH: dict[str, tuple[str, ...]] = {
    "alice": (
        *("hr.submit.acme.bob.rnd.one", "hr.submit.other.alice.rnd.one", f"hr.cancel.acme.bob.{JOB}"),
        *(f"hr.cancel.other.alice.{JOB}", f"hr.requeue.acme.bob.{JOB}", f"hr.requeue.other.alice.{JOB}"),
        *("hr.query.feed.jobs.acme.bob", "hr.query.feed.jobs.other.alice", "hr.query.feed.logs.other.alice"),
        *(f"hr.query.feed.{what}.acme.alice" for what in ("jobs", "job", "why", "facts", "logs", "queues", "nodes", "state")),
        *(f"hr.query.accounting.{what}.acme.alice" for what in ("usage", "statement", "audit")),
        *("hr.query.provider.usage.acme.alice", "hr.query.feed.status.acme.alice", "hr.query.governance.claim.acme.alice"),
        *(
            f"hr.query.governance.{what}.acme.alice"
            for what in ("apply", "delete", "get", "records", "token-create", "erase", "drain")
        ),
        *("hr.query.orders.node.gpu01", "hr.query.admission.apply.acme.alice", "hr.query.callout.apply.acme.alice"),
        *(f"hr.ledger.{writer}" for writer in ("admission", "allocator", "preemption", "governance", "node.gpu01", "alice")),
        *("hr.feed.acme.job.ended.x", "hr.feed.other.job.ended.x", "hr.orders.gpu01", "hr.logs.gpu01"),
        *(
            "hr.telemetry.gpu01.heartbeat",
            "_INBOX_acme_bob.x",
            "_INBOX_operator.x",
            "_R_.x",
            "$JS.ACK.LEDGER.x",
            "$JS.FC.LEDGER.x",
        ),
        *("$SYS.REQ.SERVER.PING", "$SYS.REQ.SERVER.PING.CONNZ", "$SYS.REQ.USER.AUTH", "$SYS.ACCOUNT.CORE.CONNECT", "anything"),
        *(f"$JS.API.{what}" for what in STREAMS_API),
    ),
    "gpu01": (
        *("hr.ledger.node.gpu02", "hr.ledger.allocator", "hr.telemetry.gpu02.heartbeat", "hr.query.orders.node.gpu02"),
        *(
            "hr.orders.gpu01",
            "hr.orders.gpu02",
            "hr.logs.gpu02",
            "hr.submit.acme.alice.rnd.one",
            "hr.query.feed.jobs.acme.alice",
        ),
        *(
            "hr.query.governance.apply.default.root",
            "_INBOX_node_gpu02.x",
            "$JS.API.STREAM.PURGE.LEDGER",
            "$SYS.REQ.SERVER.PING",
        ),
    ),
    "viewer": (
        *("hr.submit.acme.alice.rnd.one", f"hr.cancel.acme.alice.{JOB}", "hr.query.governance.apply.default.eye"),
        *("hr.query.governance.token-create.default.eye", "hr.query.feed.logs.acme.alice", "$JS.API.STREAM.MSG.GET.LEDGER"),
        *("hr.query.feed.jobs.acme.alice", "hr.query.provider.audit.default.eye", "hr.query.governance.status.default.eye"),
    ),
    "admin": (
        *(f"hr.query.governance.{what}.default.ops" for what in ("apply", "token-create", "records", "status", "storage")),
        *("hr.query.callout.pause.default.ops", "hr.query.provider.usage.default.ops", "hr.query.feed.jobs.acme.alice"),
        "hr.ledger.governance",
        "hr.feed.acme.job.ended.x",
        "hr.orders.gpu01",
        "$JS.API.STREAM.PURGE.LEDGER",
        "$SYS.REQ.SERVER.PING",
    ),
}
"""By whom, and where they must not speak."""

FORBIDDEN_TO_SUBSCRIBE: dict[str, tuple[str, ...]] = {
    "alice": (
        *(
            ">",
            "*",
            "hr.>",
            "hr.*.>",
            "hr.feed.>",
            "hr.feed.acme.>",
            "hr.feed.other.>",
            "hr.feed.*.job.>",
            "hr.submit.>",
            "hr.submit.acme.>",
            "hr.ledger.>",
        ),
        *(
            "hr.orders.gpu01",
            "hr.query.>",
            "hr.logs.gpu01",
            "_INBOX.>",
            "_INBOX_acme_bob.>",
            "_INBOX_other_alice.>",
        ),
        *("$SYS.>", "$SYS.REQ.USER.AUTH", "$JS.>", "_R_.>"),
    ),
    "gpu01": (
        *("hr.orders.gpu02", "hr.orders.>", "hr.orders.*", "hr.logs.gpu02", "hr.feed.>", "hr.ledger.>", "hr.submit.>", ">"),
        *("_INBOX_node_gpu02.>", "$SYS.>"),
    ),
    "viewer": (">", "hr.submit.>", "hr.ledger.>", "hr.query.>", "$SYS.>"),
}
"""By whom, and where they must not listen."""


async def people(here: Site) -> dict[str, tuple[str, str]]:
    """(login, token) of each."""
    return {
        "alice": ("acme_alice", await here.token("alice")),
        "gpu01": ("node_gpu01", await here.token("gpu01", "", TokenRole.NODE)),
        "viewer": ("default_eye", await here.token("eye", "default", TokenRole.VIEWER)),
        "admin": ("default_ops", await here.token("ops", "default", TokenRole.ADMIN)),
    }


async def test_no_user_publishes_to_subjects_of_others(tmp_path: Path) -> None:
    assert sum(map(len, FORBIDDEN_TO_PUBLISH.values())) >= 60
    async with site(tmp_path) as here:
        before = await here.ledger.tip()
        done = []
        for who, (name, token) in (await people(here)).items():
            connection = await here.enter(name, token)
            before = await here.ledger.tip()
            for subject in FORBIDDEN_TO_PUBLISH[who]:
                with suppress(LogRefused):
                    done.append((who, subject, (await connection.ask(subject, b"{}")).data))
            assert connection.is_connected
        assert done == []
        assert await here.ledger.tip() == before
        submits = json.loads((await here.core.ask("$JS.API.STREAM.INFO.SUBMIT")).data)["state"]["messages"]
        assert submits == 0


async def test_no_user_listens_to_subjects_of_others(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        for who, (name, token) in (await people(here)).items():
            complaints: list[str] = []

            async def complain(error: Exception, complaints: list[str] = complaints) -> None:
                complaints.append(str(error))

            client = await nats.connect(
                here.server.url, user=name, password=token, inbox_prefix=inbox_prefix(name, token), error_cb=complain
            )
            try:
                for subject in FORBIDDEN_TO_SUBSCRIBE.get(who, ()):
                    await client.subscribe(subject)
                await here.until(
                    lambda who=who, complaints=complaints: len(complaints) >= len(FORBIDDEN_TO_SUBSCRIBE.get(who, ()))
                )
            finally:
                await client.close()
            refused = {line.rpartition("to ")[2].strip('"') for line in complaints}
            assert refused == {subject.lower() for subject in FORBIDDEN_TO_SUBSCRIBE.get(who, ())}


async def test_a_users_token_for_an_administrators_handle_does_not_hear_what_the_administrator_is_answered(
    tmp_path: Path,
) -> None:
    """Administrators of the tenant `default` may give a user's token for any handle of it, and so for that of the provider's people."""
    async with site(tmp_path) as here:
        await here.append_facts(
            f.GroupAppliedV1(author="a.b", group=Group(tenant="default", name="all", members=("ops",))),
        )
        admin, user = await here.token("ops", "default", TokenRole.ADMIN), await here.token("ops", "default")
        inboxes = {f"{inbox_prefix('default_ops', shown)}.>" for shown in (admin, "")}
        refused: set[str] = set()

        async def complain(error: Exception) -> None:
            refused.add(str(error).rpartition("to ")[2].strip('"'))

        spy = await nats.connect(
            here.server.url, user="default_ops", password=user, inbox_prefix=inbox_prefix("", user), error_cb=complain
        )
        try:
            for inbox in inboxes:
                await spy.subscribe(inbox)
            await here.until(lambda: refused == {inbox.lower() for inbox in inboxes})
        finally:
            await spy.close()
        asking = await here.enter("default_ops", admin)
        assert json.loads((await asking.ask("hr.submit.acme.bob.rnd.one", b"{}")).data)["stream"] == "SUBMIT"


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


async def forged(here: Site) -> dict[str, str]:
    """Invalid tokens, by what is wrong with them."""
    good = await here.token("alice")
    header, payload, signature = good.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    name = jwt.get_unverified_header(good)["kid"]
    public = here.keys.public(name)
    assert public is not None
    secrets = {
        "raw": public.public_bytes(Encoding.Raw, PublicFormat.Raw),
        "pem": public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
    }

    def shared(secret: bytes) -> str:
        body = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': name})}.{payload}"
        return (
            f"{body}.{base64.urlsafe_b64encode(hmac.new(secret, body.encode(), hashlib.sha256).digest()).rstrip(b'=').decode()}"
        )

    mine = Ed25519PrivateKey.generate()
    own = here.stolen_key(name)

    def by(key: Ed25519PrivateKey, **more: object) -> str:
        return jwt.encode({**claims, **more}, key, algorithm="EdDSA", headers={"kid": name})

    now = int(time.time())
    revoked = await here.token("bob")
    await here.append_facts(
        f.TokenRevokedV1(author="a.b", token=jwt.decode(revoked, options={"verify_signature": False})["jti"])
    )
    return {
        "nothing": "",
        "no token": "hunter2",
        "a bare object": "e30.e30.e30",
        "no algorithm": f"{part({'alg': 'none', 'kid': name})}.{payload}.",
        "no algorithm, another spelling": f"{part({'alg': 'None', 'kid': name})}.{payload}.{signature}",
        "the public key as a secret": shared(secrets["raw"]),
        "the public key as a secret, as a file": shared(secrets["pem"]),
        "an empty secret": shared(b""),
        "another's key": by(mine),
        "another's key, under its own name": jwt.encode(claims, mine, algorithm="EdDSA", headers={"kid": "mine"}),
        "a key in the token": jwt.encode(claims, mine, algorithm="EdDSA", headers={"kid": name, "jwk": {"kty": "OKP"}}),
        "a key elsewhere": jwt.encode(
            claims, mine, algorithm="EdDSA", headers={"kid": name, "jku": "https://evil.example/keys"}
        ),
        "a key on the disk": jwt.encode(claims, mine, algorithm="EdDSA", headers={"kid": "../../../../etc/passwd"}),
        "another's payload": f"{header}.{part({**claims, 'handle': 'bob', 'role': 'admin'})}.{signature}",
        "no signature": f"{header}.{payload}.",
        "expired": by(own, exp=now - 60),
        "not good yet": by(own, nbf=now + 600),
        "for another audience": by(own, aud="grafana"),
        "of another issuer": by(own, iss="https://evil.example"),
        "of an issuer spelt like ours": by(own, iss="headrace "),
        "never given": by(own, jti="01jd3v8k5w2m4x6z8b0c2e4g6h"),
        "without an id": by(own, jti=None),
        "revoked": revoked,
        "for nobody": await here.token("nobody"),
        "for a service account that is a person": await here.token("alice", role=TokenRole.SERVICE_ACCOUNT),
        "of a tenant that there is not": await here.token("alice", "no-such"),
        "very long": good + "A" * 20_000,
        "twice": f"{good} {good}",
    }


async def test_an_invalid_token_is_not_let_in(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        tokens = await forged(here)
        assert [what for what, token in tokens.items() if await enters(here, token)] == []
        good = await here.token("alice")
        assert await enters(here, good)
        strangers = [("owner", "wrong"), ("operator", good), ("allocator", good), ("callout", good), ("callout-system", "")]
        assert [name for name, secret in strangers if await enters(here, secret, name)] == []
        assert not await enters(here, "", "")


async def test_whatever_name_a_stranger_gives_the_token_says_who_it_is(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        alice = await here.enter("acme_bob", await here.token("alice"))
        for subject in ("hr.submit.acme.bob.rnd.one", "hr.submit.other.alice.rnd.one"):
            try:
                await alice.ask(subject, b"{}")
            except LogRefused:
                continue
            raise AssertionError(subject)
        assert await here.ledger.tip() == here.governance.last


async def test_a_message_that_is_too_large_is_refused_or_costs_its_sender_the_connection(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        alice, bob = await here.user("alice"), await here.user("bob")
        refused = json.loads((await alice.ask("hr.submit.acme.alice.rnd.one", b"x" * 3 * 1024 * 1024)).data)
        assert "maximum" in refused["error"]["description"]
        size = 9 * 1024 * 1024
        with suppress(errors.Error, ConnectionError):
            await alice._send_publish("hr.submit.acme.alice.rnd.one", "", b"x" * size, size, None)  # past the client's own look
            await alice._flush_pending()
        await here.until(lambda: not alice.is_connected)
        assert json.loads((await bob.ask("hr.submit.acme.bob.rnd.one", b"{}")).data)["stream"] == "SUBMIT"


async def test_a_user_who_listens_too_much_is_stopped(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        token = await here.token("alice")
        asking, listener = await here.enter("acme_alice", token), await here.enter("acme_alice_feed", token)
        for connection, subject, most in (
            (asking, f"{inbox_prefix('', token)}.{{}}", SUBSCRIPTIONS["USERS"]),
            (listener, "hr.feed.acme.job.x{}.>", SUBSCRIPTIONS["LISTENERS"]),
        ):
            for number in range(most - 1):
                await connection.subscribe(subject.format(number))
            await connection.flush()
            assert connection.is_connected
            with suppress(errors.Error):
                for number in range(most, most + 2):
                    await connection.subscribe(subject.format(number))
                await connection.flush()
            await here.until(lambda connection=connection: not connection.is_connected)


async def test_a_reader_that_does_not_read_does_not_hold_up_the_others(tmp_path: Path) -> None:
    async with site(tmp_path) as here:
        token = await here.token("alice")
        url = here.server.url.removeprefix("nats://").split(":")
        reader, writer = await asyncio.open_connection(url[0], int(url[1]), limit=1_024)
        hello = {"user": "acme_alice_feed", "pass": token, "verbose": False, "pedantic": False, "lang": "x", "version": "1"}
        writer.write(b"CONNECT " + json.dumps(hello).encode() + b"\r\nSUB hr.feed.acme.> 1\r\nPING\r\n")
        await writer.drain()
        while b"PONG" not in await reader.readline():
            pass
        feed = await here.login("feed")
        received = asyncio.Event()

        async def receive(_message: Any) -> None:
            received.set()

        bob = await here.listener("bob")
        await bob.subscribe("hr.feed.acme.job.last.x", cb=receive)
        await bob.flush()
        for number in range(64):
            await feed.ask(f"hr.feed.acme.job.n{number}.x", b"x" * 512 * 1024)
        await feed.ask("hr.feed.acme.job.last.x", b"{}")
        await asyncio.wait_for(received.wait(), PATIENCE)
        writer.close()


async def test_headers_of_a_node_that_would_change_the_ledger_or_stand_for_another_are_refused(tmp_path: Path) -> None:
    """Those of users do not reach a stream: `test_headers.py`."""
    async with site(tmp_path) as here:
        node = await here.node("gpu01")
        for header in (
            {"Nats-Rollup": "all"},
            {"Nats-Rollup": "sub"},
            {"Nats-TTL": "1s"},
            {"Nats-Batch-Id": "x", "Nats-Batch-Sequence": "1"},
            {"Nats-Expected-Stream": "NONE"},
            {"Nats-Expected-Last-Sequence": "99"},
            {"Nats-Incr": "5"},
            {"Nats-Schedule": "@every 1s"},
        ):
            assert "error" in json.loads((await node.ask("hr.ledger.node.gpu01", b"{}", header)).data), header
        assert await here.ledger.tip() == here.governance.last
