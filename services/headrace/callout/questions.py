"""The NATS server's authorization requests and the responses to them, both tokens in NATS' own form."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.bus.nats.nkeys import USER, AccountKey, NkeyError, read_claims, read_key
from headrace.callout.permits import Permit

ASKED_ON = "$SYS.REQ.USER.AUTH"
ANSWER_NANOSECONDS = 60_000_000_000

_REQUEST = "authorization_request"
_AUDIENCE = "nats-authorization-request"


class Unreadable(Exception):
    """The request was not signed by a NATS server, or is malformed."""


class Question(msgspec.Struct, frozen=True):
    """Authorization request: the server's id, the connection's key, the token shown (may be empty), the client's host and its user name."""

    server: str
    connection: str
    token: str
    host: str
    user: str = ""


class _Server(msgspec.Struct):
    id: str


class _Options(msgspec.Struct):
    auth_token: str = ""
    user: str = ""
    password: str = msgspec.field(default="", name="pass")


class _Client(msgspec.Struct):
    host: str = ""


class _Asked(msgspec.Struct):
    server_id: _Server
    user_nkey: str
    connect_opts: _Options
    client_info: _Client
    type: str


def read_question(payload: bytes) -> Question:
    """Decode a message on `ASKED_ON`. Raises Unreadable if it is malformed or not signed by the server."""
    try:
        claims = read_claims(payload.decode("ascii"))
        asked = msgspec.convert(claims.get("nats"), _Asked)
        read_key(USER, asked.user_nkey)
    except (NkeyError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise Unreadable(str(error)) from None
    if claims.get("aud") != _AUDIENCE or asked.type != _REQUEST or claims.get("iss") != asked.server_id.id:
        raise Unreadable("it is a token for something else")
    options = asked.connect_opts
    token = options.auth_token or options.password
    return Question(asked.server_id.id, asked.user_nkey, token, asked.client_info.host, options.user)


def accept(key: AccountKey, question: Question, permit: Permit, now: int) -> bytes:
    """Response that accepts a connection with the permit's rights until the permit expires. `now` in seconds since 1970."""
    publish = {"allow": list(permit.rights.publish)} if permit.rights.publish else {"deny": [">"]}
    allow = {"pub": publish, "sub": {"allow": list(permit.rights.subscribe)}}
    answers = {"resp": {"max": 1, "ttl": ANSWER_NANOSECONDS}} if permit.rights.answers else {}
    user = {
        "aud": permit.account,
        "sub": question.connection,
        "name": str(permit.whose),
        "iat": now,
        "exp": permit.until,
        "jti": question.connection,
        "nats": {
            **allow,
            **answers,
            "subs": -1,
            "data": -1,
            "payload": -1,
            "type": "user",
            "version": 2,
        },
    }
    return _answer(key, question, now, {"jwt": key.sign(user)})


def reject(key: AccountKey, question: Question, now: int) -> bytes:
    """Response that refuses a connection. The reason goes only to this service's log."""
    return _answer(key, question, now, {"error": "not let in"})


def _answer(key: AccountKey, question: Question, now: int, answer: dict[str, Any]) -> bytes:
    claims = {
        "aud": question.server,
        "sub": question.connection,
        "iat": now,
        "jti": question.connection,
        "nats": {**answer, "type": "authorization_response", "version": 2},
    }
    return key.sign(claims).encode()
