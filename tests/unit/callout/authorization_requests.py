"""Authorization requests as a NATS server sends them, and what an answer claims."""

from __future__ import annotations

import base64
import json

from headrace.bus.nats.nkeys import SERVER, USER, spell
from tests.unit.bus.nats.signing_key import RAW, signed

ME = spell(SERVER, RAW)

CONNECTION = spell(USER, bytes(range(32)))


def question(claims=None, **nats):
    whole = {
        "server_id": {"id": ME, "name": "n1"},
        "user_nkey": CONNECTION,
        "client_info": {"host": "10.0.0.7", "id": 5},
        "connect_opts": {"user": "acme_ann", "pass": "a.b.c", "lang": "go"},
        "type": "authorization_request",
        "version": 2,
    } | nats
    return signed({"iss": ME, "aud": "nats-authorization-request", "nats": whole} | (claims or {})).encode()


def claims_of(token):
    return json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
