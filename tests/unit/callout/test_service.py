"""The authority: questions come in, answers go out, and nothing that is shown to it ends it."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import structs

from headrace.bus.log import LogUnavailable
from headrace.bus.nats.nkeys import USER, AccountKey, spell
from headrace.callout.permits import ConnectionTag, read_tag
from headrace.callout.questions import ASKED_ON
from headrace.callout.service import PAUSE, STATUS, ConnectionAuthority
from headrace.contracts import facts as f
from headrace.contracts.messages.queries import Answer, ClaimRequest
from headrace.contracts.messages.tokens import PERSON_CONNECTIONS, PauseRequest, TokenRole
from headrace.contracts.transport.codec import decode, encode
from headrace.identity.signing import SigningKeys
from headrace.identity.verifier import Verifier
from tests.unit.callout.authorization_requests import claims_of, question
from tests.unit.identity.issuing import CORP, RSA, Ledger, grant, jwks, signed

CLAIMING = structs.replace(CORP, membership="claims")


ANN = "tenant member acme.ann by t1"


class FakeConnection:
    def __init__(self):
        self.sent = []
        self.asked = []
        self.callbacks = {}
        self.answer = Answer(sequence=9)

    async def subscribe(self, subject, cb):
        self.callbacks[subject] = cb

    async def flush(self):
        pass

    async def publish(self, subject, payload):
        self.sent.append((subject, payload))

    async def ask(self, subject, payload, within=0.0):
        self.asked.append((subject, decode(payload, ClaimRequest).token))
        if isinstance(self.answer, Exception):
            raise self.answer
        return SimpleNamespace(data=encode(self.answer))


class Scene:
    """A authority on a ledger that a test writes; `late` facts stand in the ledger and have not been read."""

    def __init__(self, directory):
        self.connection = FakeConnection()
        self.keys = SigningKeys(directory)
        self.ledger = Ledger()
        self.verifier = Verifier(self.keys, (CLAIMING,), fetch=self.fetch)
        key, eviction = AccountKey(Ed25519PrivateKey.generate()), SimpleNamespace(run=self.evict)
        self.authority = ConnectionAuthority(self.connection, self.verifier, key, eviction, None, list_tags=self.look)
        self.authority.follower.directory.state = self.ledger.state
        self.late = []
        self.there = {}
        self.shown = 0
        self.authority.follower.catch_up = self.catch_up
        self.authority.follower.run = asyncio.Event().wait

    async def evict(self, _state, _paused):
        return 0

    async def look(self, account):
        return self.there.get(account, [])

    async def fetch(self, _url):
        return jwks(k1=RSA)

    async def catch_up(self):
        for made in self.late:
            self.ledger.give(made)
        self.late.clear()

    def token(self, *, late=False, **claims):
        begins = int(time.time())
        made = grant(issued_at=begins, expires_at=begins + 60, **claims)
        if late:
            self.late.append(made)
        else:
            self.ledger.give(made)
        return self.keys.sign(made)

    async def ask(self, payload):
        before = asyncio.all_tasks()
        await self.connection.callbacks[ASKED_ON](SimpleNamespace(data=payload, reply="_INBOX.r"))
        while asyncio.all_tasks() - before:
            await asyncio.sleep(0)
        sent, self.connection.sent = self.connection.sent, []
        return [claims_of(answer.decode())["nats"] for subject, answer in sent if subject == "_INBOX.r"]

    async def shows(self, token):
        """The role, tenant, handle and token of a connection that is let in, or the error."""
        self.shown += 1
        key = spell(USER, self.shown.to_bytes(32))
        (answer,) = await self.ask(question(connect_opts={"pass": token}, user_nkey=key))
        if "jwt" not in answer:
            return answer["error"]
        tag = read_tag(claims_of(answer["jwt"])["name"])
        assert tag.connection == key
        return f"{tag.role} {tag.tenant}.{tag.handle} by {tag.token}"


@pytest.fixture
async def scene(tmp_path):
    scene = Scene(tmp_path)
    running = asyncio.create_task(scene.authority.run())
    await scene.authority.ready.wait()
    yield scene
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_good_token_is_let_in(scene):
    assert await scene.shows(scene.token()) == ANN


async def test_a_bearer_with_as_many_connections_as_one_may_have_is_kept_out(scene):
    token = scene.token()
    tag = ConnectionTag("acme", "ann", "t1", 0, "tenant member")
    scene.there = {"FORMER": [tag._replace(connection=f"U{number}") for number in range(PERSON_CONNECTIONS)]}
    shown = [await scene.shows(token) for _ in range(PERSON_CONNECTIONS + 2)]
    assert shown == [ANN] * PERSON_CONNECTIONS + ["not let in"] * 2


async def test_a_connection_that_asks_for_the_feed_hears_it_and_may_say_nothing(scene):
    (answer,) = await scene.ask(question(connect_opts={"user": "acme_ann_feed", "pass": scene.token()}))
    user = claims_of(answer["jwt"])
    assert (user["aud"], user["nats"]["pub"], user["nats"]["sub"]) == (
        "LISTENERS",
        {"deny": [">"]},
        {"allow": ["hr.feed.acme.>"]},
    )


async def test_a_token_that_was_made_a_moment_ago_is_let_in(scene):
    assert await scene.shows(scene.token(late=True)) == ANN


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "e30.e30.e30", "\ufffd" * 3, "[" * 9_000])
async def test_no_token_and_bad_ones_are_kept_out(scene, token):
    assert await scene.shows(token) == "not let in"


async def test_a_token_for_an_unknown_user_is_kept_out(scene):
    assert await scene.shows(scene.token(handle="nobody")) == "not let in"


@pytest.mark.parametrize("payload", [b"", b"a.b.c", b"\xff", question(type="x")])
async def test_what_no_server_asks_gets_no_answer(scene, payload):
    assert await scene.ask(payload) == []


async def test_an_error_lets_no_caller_in_and_the_next_is_served(scene, monkeypatch):
    token = scene.token()
    monkeypatch.setattr("headrace.callout.service.permit", lambda *_: 1 / 0)
    assert await scene.shows(token) == "not let in"
    monkeypatch.undo()
    assert await scene.shows(token) == ANN


def theirs(**more):
    begins = int(time.time())
    return signed(iat=begins, exp=begins + 600, **more)


@pytest.mark.parametrize("answer", [Answer(sequence=9), Answer(sequence=9, error="no"), LogUnavailable("away")])
async def test_what_a_providers_token_claims_is_put_on_record_and_its_bearer_let_in_whether_or_not_it_is(scene, answer):
    scene.connection.answer = answer
    token = theirs(groups=["vision"])
    assert (await scene.shows(token)).startswith("tenant member acme.ann by ")
    assert scene.connection.asked == [("hr.query.governance.claim.acme.ann", token)]


async def test_what_is_on_record_is_not_asked_for_again(scene):
    token = theirs(groups=["vision"])
    claims = await scene.verifier.claims(token)
    scene.ledger.append_facts(
        f.MembershipClaimedV1(
            tenant="acme", handle="ann", groups=("vision",), issued_at=claims.issued_at, until=claims.expires_at
        )
    )
    assert (await scene.shows(token)).startswith("tenant member acme.ann by ")
    assert scene.connection.asked == []


async def test_it_says_how_far_it_has_read(scene):
    sequences = []

    async def respond(payload):
        sequences.append(decode(payload, Answer).sequence)

    await scene.connection.callbacks[STATUS](SimpleNamespace(respond=respond, reply="_INBOX.r"))
    assert sequences == [scene.ledger.state.sequence]


async def test_a_node_that_is_paused_is_not_let_in_and_one_that_is_excluded_is_let_in_when_an_operator_says_so(scene):
    token = scene.token(role=TokenRole.NODE, tenant="", handle="gpu01")
    assert await scene.shows(token) == "node .gpu01 by t1"
    answered = []

    async def respond(payload):
        answered.append(decode(payload, Answer).error)

    await scene.connection.callbacks[PAUSE](
        SimpleNamespace(data=encode(PauseRequest(node="gpu01")), respond=respond, reply="_INBOX.r")
    )
    await scene.connection.callbacks[PAUSE](SimpleNamespace(data=b"no json", respond=respond))
    assert (answered, await scene.shows(token)) == ([""], "not let in")
    scene.ledger.append_facts(f.NodeExcludedV1(node="gpu01", reason="it floods"))
    assert await scene.shows(token) == "not let in"
    scene.ledger.append_facts(f.NodeUncordonedV1(author="a.b", node="gpu01"))
    assert await scene.shows(token) == "node .gpu01 by t1"
