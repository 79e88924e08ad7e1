"""The server's question and our answer, byte by byte."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from headrace.bus.nats.nkeys import SERVER, AccountKey, spell
from headrace.callout.permits import permit
from headrace.callout.questions import Question, Unreadable, accept, read_question, reject
from headrace.contracts.messages.tokens import inbox_prefix
from headrace.identity.caller import Caller, Role
from tests.unit.callout.authorization_requests import CONNECTION, ME, claims_of, question

NOW = 1_800_000_000
KEY = AccountKey(Ed25519PrivateKey.generate())
ASKED = Question(ME, CONNECTION, "a.b.c", "10.0.0.7", "acme_ann")


def test_a_question_is_read_with_its_token_from_the_password_or_the_token():
    assert read_question(question()) == ASKED
    assert read_question(question(connect_opts={"auth_token": "a.b.c", "user": "acme_ann"})) == ASKED
    assert read_question(question(connect_opts={"user": "x"})).token == ""


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xfe",
        b"a.b.c",
        question({"aud": "somebody-else"}),
        question(type="authorization_response"),
        question(server_id={"id": spell(SERVER, bytes(32))}),
        question(server_id={}),
        question(user_nkey="not a key"),
        question(user_nkey=ME),
        question(connect_opts={"pass": 5}),
        question({"nats": None}),
        question({"iss": spell(SERVER, bytes(32))}),
    ],
)
def test_what_no_server_asks_is_not_answered(payload):
    with pytest.raises(Unreadable):
        read_question(payload)


def test_who_is_let_in_gets_account_rights_limits_and_an_end():
    allowed = permit(
        Caller(Role.TENANT_MEMBER, "acme", "ann", token="t1", expires_at=(NOW + 60) * 1_000_000), "eyJ0.eyJz.c2ln", 0, NOW
    )
    answer = claims_of(accept(KEY, ASKED, allowed, NOW).decode())
    user = claims_of(answer["nats"].pop("jwt"))
    assert answer == {
        "aud": ME,
        "sub": CONNECTION,
        "iat": NOW,
        "jti": CONNECTION,
        "iss": KEY.public,
        "nats": {"type": "authorization_response", "version": 2},
    }
    rights = user.pop("nats")
    assert user == {
        "aud": "USERS",
        "sub": CONNECTION,
        "name": '["acme","ann","t1",0,"tenant member",""]',
        "iat": NOW,
        "exp": NOW + 60,
        "jti": CONNECTION,
        "iss": KEY.public,
    }
    assert rights["pub"]["allow"] == list(allowed.rights.publish)
    assert rights["sub"]["allow"] == [f"{inbox_prefix('', 'eyJ0.eyJz.c2ln')}.>"]
    assert "resp" not in rights


def test_a_node_may_answer_each_question_once():
    allowed = permit(Caller(Role.NODE, "", "gpu01", token="t1", expires_at=(NOW + 60) * 1_000_000), "eyJ0.eyJz.c2ln", 0, NOW)
    user = claims_of(claims_of(accept(KEY, ASKED, allowed, NOW).decode())["nats"]["jwt"])
    assert (user["aud"], user["nats"]["resp"]) == ("NODES", {"max": 1, "ttl": 60_000_000_000})


def test_who_is_kept_out_is_told_nothing():
    answer = claims_of(reject(KEY, ASKED, NOW).decode())
    assert answer["nats"] == {"error": "not let in", "type": "authorization_response", "version": 2}
