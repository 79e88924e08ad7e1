"""Which connections there are, and for how many more connections of one bearer there is room."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from headrace.bus.nats.permissions import CONNECTIONS
from headrace.callout import connection_limits
from headrace.callout.connection_limits import PROVIDER_CONNECTIONS, PROVIDERS, ConnectionLimits
from headrace.callout.permits import ConnectionTag

ANN, BOB, OTHER = (
    ConnectionTag(*whose, "t1", 0, "tenant member") for whose in (("acme", "ann"), ("acme", "bob"), ("other", "ann"))
)
FULL = "tenant member ann has 4 connections in USERS already"


class Servers:
    """Connections that servers list, a clock, the number of looks, and the number of tenants."""

    def __init__(self):
        self.there = {}
        self.now = 0.0
        self.looks = 0
        self.tenants = 1
        self.places = ConnectionLimits(self.look, lambda: self.tenants, lambda: self.now)
        self._keys = map(str, itertools.count(1))

    async def look(self, account):
        self.looks += 1
        return list(self.there.get(account, []))

    async def take(self, tag, account="USERS", *, stays=True):
        """Ask for one more connection, which the servers list from then on if it `stays`."""
        tag = tag._replace(connection=next(self._keys))
        refusal = await self.places.take(account, tag)
        if not refusal and stays:
            self.there.setdefault(account, []).append(tag)
        return refusal


@pytest.fixture
def servers(monkeypatch):
    monkeypatch.setattr(connection_limits, "PERSON_CONNECTIONS", 4)
    return Servers()


async def test_a_bearer_gets_a_number_of_connections_and_another_gets_its_own(servers):
    refusals = [await servers.take(tag) for tag in (*[ANN] * 6, BOB)]
    assert (refusals, servers.looks) == ([""] * 4 + [FULL, FULL, ""], 1)


async def test_another_token_of_the_same_person_does_not_give_more(servers):
    refusals = [await servers.take(ANN._replace(token=f"t{number}")) for number in range(5)]
    assert refusals == ["", "", "", "", FULL]


async def test_bearers_of_one_handle_and_different_roles_or_tenants_are_counted_apart(servers):
    for _ in range(4):
        await servers.take(ANN)
    refusals = [await servers.take(tag) for tag in (ANN._replace(role="service account"), OTHER, ANN)]
    assert refusals == ["", "", FULL]


async def test_connections_that_have_ended_make_room_and_the_servers_are_asked_once_a_second_at_most(servers):
    for _ in range(4):
        await servers.take(ANN)
    servers.now = 10.0
    assert (await servers.take(ANN), servers.looks) == (FULL, 1)
    servers.there["USERS"].pop()
    servers.now = 10.9
    assert (await servers.take(ANN), servers.looks) == (FULL, 1)
    servers.now = 11.0
    assert (await servers.take(ANN), servers.looks) == ("", 2)
    assert (await servers.take(ANN), servers.looks) == (FULL, 2)


async def test_connections_that_are_let_in_while_the_servers_are_asked_still_count(servers):
    for _ in range(4):
        await servers.take(ANN)
    servers.now, listed, asked = 10.0, asyncio.Event(), asyncio.Event()
    servers.there["USERS"] = []

    async def look(_account):
        found = list(servers.there["USERS"])
        asked.set()
        await listed.wait()
        return found

    servers.places = ConnectionLimits(look, lambda: 1, lambda: servers.now)
    for number in range(4):
        await servers.places.take("USERS", ANN._replace(connection=f"ann{number}"))
    servers.now = 20.0
    waiting = asyncio.create_task(servers.places.take("USERS", ANN._replace(connection="ann4")))
    await asyncio.wait_for(asked.wait(), 10)
    assert [await servers.places.take("USERS", BOB._replace(connection=f"bob{number}")) for number in range(4)] == [""] * 4
    listed.set()
    assert await waiting == ""
    bob = "tenant member bob has 4 connections in USERS already"
    assert await servers.places.take("USERS", BOB._replace(connection="bob4")) == bob


async def test_a_connection_that_is_not_listed_is_forgotten_once_it_would_have_been_listed(servers):
    refusals = [await servers.take(ANN, stays=False) for _ in range(5)]
    servers.now = 4.9
    refusals.append(await servers.take(ANN))
    servers.now = 6.0
    refusals.append(await servers.take(ANN))
    assert refusals == ["", "", "", "", FULL, FULL, ""]


async def test_a_connection_is_counted_once_though_several_instances_are_asked_about_it(servers):
    first, second = servers.places, ConnectionLimits(servers.look, lambda: 1, lambda: servers.now)
    for _ in range(4):
        await servers.take(ANN)
    for tag in servers.there["USERS"]:
        assert await second.take("USERS", tag) == ""
    servers.now = 10.0
    refusals = [await places.take("USERS", ANN._replace(connection="x")) for places in (first, second)]
    assert refusals == [FULL, FULL]


@pytest.mark.parametrize("tenants", [1, 2, 3, 8])
async def test_all_tenants_together_cannot_fill_an_account_and_each_gets_its_share(servers, monkeypatch, tenants):
    monkeypatch.setitem(CONNECTIONS, "USERS", PROVIDER_CONNECTIONS + 64)
    servers.tenants = tenants
    for number in range(tenants):
        for person in range(40):
            await servers.take(ConnectionTag(f"t{number}", f"u{person}", "t1", 0, "tenant member"))
    share = 64 // tenants
    of_tenants = [sum(tag.tenant == f"t{number}" for tag in servers.there["USERS"]) for number in range(tenants)]
    assert of_tenants == [min(share, 40)] * tenants
    assert sum(of_tenants) <= 64


@pytest.mark.parametrize(("tenants", "most"), [(1, 64), (15, 64), (63, 15), (255, 4), (2_000, 4)])
async def test_one_bearer_gets_a_quarter_of_its_tenants_share_at_most(monkeypatch, tenants, most):
    servers = Servers()
    servers.tenants = tenants
    refusals = [await servers.take(ANN) for _ in range(70)]
    assert refusals.count("") == most


@pytest.mark.parametrize("tenants", [1, 63, 2_000])
@pytest.mark.parametrize("account", ["ADMINS", "USERS", "LISTENERS"])
async def test_the_providers_people_have_their_connections_however_many_tenants_there_are(account, tenants):
    servers = Servers()
    servers.tenants = tenants
    ann, *others = (ConnectionTag("default", f"u{number}", "t1", 0, role) for number in range(3) for role in PROVIDERS)
    refusals = [await servers.take(ann, account) for _ in range(40)]
    assert refusals == [""] * 32 + [f"provider admin u0 has 32 connections in {account} already"] * 8
    refusals = [await servers.take(one, account) for one in others for _ in range(40)]
    assert refusals.count("") == 128 - 32
    assert refusals[-1] == f"the provider has 128 connections in {account} already"
    assert await servers.take(ConnectionTag("default", "u0", "t1", 0, "tenant member"), account) == ""


async def test_administrators_and_nodes_are_counted_apart(servers):
    node, admin = ConnectionTag("", "gpu01", "t2", 0, "node"), ANN._replace(role="provider admin", tenant="default")
    for _ in range(4):
        await servers.take(ANN)
    refusals = [await servers.take(admin, "ADMINS"), *[await servers.take(node, "NODES") for _ in range(5)]]
    assert refusals == ["", "", "", "", "", "node gpu01 has 4 connections in NODES already"]


async def test_nodes_have_no_tenant_whose_share_they_could_use_up(monkeypatch):
    servers = Servers()
    refusals = {await servers.take(ConnectionTag("", f"gpu{number}", "t2", 0, "node"), "NODES") for number in range(4_000)}
    assert refusals == {""}
