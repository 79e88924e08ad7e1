"""Who may stay, and who is asked to leave."""

from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import pytest

from headrace.bus.nats.permissions import CONNECTIONS
from headrace.callout import connection_limits, server_status
from headrace.callout.eviction import Eviction, may_stay
from headrace.callout.permits import ConnectionTag
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group
from headrace.contracts.messages.tokens import TokenRole
from tests.unit.identity.issuing import NOW, SECOND, Ledger, grant

ANN = ConnectionTag("acme", "ann", "t1", 0)
THEIRS = ConnectionTag("acme", "ann", "theirs", NOW * SECOND)


@pytest.fixture
def ledger():
    ledger = Ledger()
    ledger.give(grant())
    ledger.give(grant(TokenRole.NODE, "", "gpu01", "t2"))
    return ledger


@pytest.mark.parametrize(
    ("facts", "tag", "stays"),
    [
        ((), ANN, True),
        ((), ConnectionTag("acme", "bob", "t1", 0), False),
        ((), ConnectionTag("acme", "ann", "never-given", 0), False),
        ((f.TokenRevokedV1(author="a.b", token="t1"),), ANN, False),
        ((f.TokenRevokedV1(author="a.b", token="t2"),), ANN, True),
        ((f.UserDeletedV1(author="a.b", tenant="acme", handle="ann"),), ANN, False),
        ((f.TenantDeletedV1(author="a.b", name="acme"),), ANN, False),
        (
            tuple(f.GroupAppliedV1(author="a.b", group=Group(tenant="acme", name=name)) for name in ("vision", "audio")),
            ANN,
            False,
        ),
        ((), ConnectionTag("", "gpu01", "t2", 0), True),
        ((f.TokenRevokedV1(author="a.b", handle="gpu01"),), ConnectionTag("", "gpu01", "t2", 0), False),
        ((f.NodeExcludedV1(node="gpu01", reason="x"),), ConnectionTag("", "gpu01", "t2", 0), False),
        (
            (f.NodeExcludedV1(node="gpu01", reason="x"), f.NodeUncordonedV1(author="a.b", node="gpu01")),
            ConnectionTag("", "gpu01", "t2", 0),
            True,
        ),
        ((), ConnectionTag("", "box", "", 0, "node"), True),
        ((f.NodeExcludedV1(node="box", reason="x"),), ConnectionTag("", "box", "", 0, "node"), False),
        ((), ConnectionTag("acme", "ann", "", 0, "tenant member"), False),
        ((), THEIRS, True),
        ((f.TokenRevokedV1(author="a.b", token="theirs"),), THEIRS, False),
        ((f.TokenRevokedV1(author="a.b", tenant="acme", handle="ann"),), THEIRS, False),
    ],
)
def test_who_may_stay(ledger, facts, tag, stays):
    ledger.append_facts(*facts)
    assert may_stay(ledger.state, tag) is stays


class FakeSystem:
    """Two servers with their connections; what was asked to be ended is `kicked`. They answer once all of `accounts` were asked about."""

    def __init__(self, connections, accounts=()):
        self.connections = connections
        self.kicked = []
        self._callbacks = {}
        self._awaited = set(accounts)
        self._unanswered = []
        self._inboxes = map("_INBOX_x.{}".format, itertools.count())

    def new_inbox(self):
        return next(self._inboxes)

    async def subscribe(self, inbox, cb):
        self._callbacks[inbox] = cb

        async def unsubscribe():
            return None

        return SimpleNamespace(unsubscribe=unsubscribe)

    async def publish(self, subject, payload, reply):
        assert subject == "$SYS.REQ.SERVER.PING.CONNZ"
        asked = json.loads(payload)
        self._awaited.discard(asked["acc"])
        self._unanswered.append((asked, self._callbacks[reply]))
        while self._unanswered and not self._awaited:
            await self._answer(*self._unanswered.pop())

    async def _answer(self, asked, callback):
        for server, connections in self.connections.items():
            here = [one for one in connections if one["account"] == asked["acc"]][
                asked["offset"] : asked["offset"] + asked["limit"]
            ]
            answer = {"server": {"id": server}, "data": {"total": len(connections), "connections": here}}
            await callback(SimpleNamespace(data=json.dumps(answer).encode()))
        await callback(SimpleNamespace(data=b"no json"))
        await callback(SimpleNamespace(data=b'{"server": {"id": "N3"}, "error": {"code": 500}}'))

    async def ask(self, subject, payload):
        self.kicked.append((subject, json.loads(payload)["cid"]))


async def test_each_server_is_asked_about_all_accounts_at_once_and_ends_its_own_connections_however_many_there_are(
    ledger, monkeypatch
):
    monkeypatch.setattr(server_status, "ANSWER_WITHIN", 0.01)
    monkeypatch.setattr(connection_limits, "PAGE", 2)
    ledger.append_facts(f.TokenRevokedV1(author="a.b", token="t1"))

    def one(cid, user, account="USERS"):
        return {"cid": cid, "authorized_user": user, "account": account}

    system = FakeSystem(
        accounts=CONNECTIONS,
        connections={
            "N1": [one(1, "owner"), one(2, str(ANN)), one(3, "x|y"), one(4, str(ANN)), one(5, str(THEIRS))],
            "N2": [
                one(1, str(ConnectionTag("", "gpu01", "t2", 0)), "NODES"),
                one(7, str(ConnectionTag("", "gpu02", "t9", 0)), "NODES"),
            ],
        },
    )
    assert await Eviction(system).run(ledger.state) == 3
    paused = FakeSystem({"N1": [one(1, str(ConnectionTag("", "gpu01", "t2", 0)), "NODES"), one(2, "node_gpu01", "NODES")]})
    assert await Eviction(paused).run(ledger.state, {"gpu01", "acme"}) == 1
    assert paused.kicked == [("$SYS.REQ.SERVER.N1.KICK", 1)]
    assert sorted(system.kicked) == [
        ("$SYS.REQ.SERVER.N1.KICK", 2),
        ("$SYS.REQ.SERVER.N1.KICK", 4),
        ("$SYS.REQ.SERVER.N2.KICK", 7),
    ]
