"""Several servers: where they listen, when they have agreed, and who leads."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from headrace.bus.log import LogUnavailable
from headrace.bus.nats.streams import STREAMS
from headrace.supervisor.installation import Settings
from headrace.supervisor.nats import servers
from headrace.supervisor.nats.servers import Ports, choose, have_all, until_led

LED = {"error": None, "cluster": {"leader": "headrace-2", "replicas": [{"name": "headrace-1", "current": True}]}}


class Bus:
    """Gives one answer after the other; the last for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def ask(self, subject):
        self.asked.append(subject)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(data=json.dumps(answer).encode())


def test_the_ports_of_the_last_time_are_taken_again_and_a_named_one_is_the_first_of_three():
    free = choose(Settings(host="a", nats_servers=3))
    assert len({*free.clients, *free.routes}) == 6
    first, *others = free.clients
    kept = Settings(host="a", nats_servers=3, nats_port=first, nats_ports=tuple(others), route_ports=free.routes)
    assert choose(kept) == free
    named = choose(kept, first=free.clients[0])
    assert (named.clients, named.routes) == (tuple(first + number for number in range(3)), free.routes)
    assert choose(Settings(host="a", nats_port=first)) == Ports((first,))


def test_the_address_names_all_of_them():
    assert Ports((1, 2)).url("tls", "box") == "tls://box:1,tls://box:2"


async def test_servers_are_there_when_the_ledger_has_a_leader_or_does_not_exist_yet(monkeypatch):
    monkeypatch.setattr(servers, "AGAIN", 0.001)
    nobody = {"cluster": {"leader": "", "replicas": []}}
    awaited = Bus(LogUnavailable("no answer"), {"error": {"err_code": 10008}}, nobody, LED)
    await until_led(awaited)
    assert awaited.answers == [LED]
    await until_led(Bus({"error": {"err_code": 10059}}))
    with pytest.raises(LogUnavailable, match="elected no leader within 0 s: check that most of them run"):
        await until_led(Bus(nobody), patience=0)


def listed(leader="headrace-1", **replica):
    """What the servers say of their streams while the second is away; `replica`: what is different about the third in one of them."""
    away = {"name": "headrace-2", "current": False, "offline": True, "lag": 7}
    third = {"name": "headrace-3", "current": True}
    streams = [
        {"config": {"name": name, "num_replicas": 3}, "cluster": {"leader": leader, "replicas": [away, third]}}
        for name in STREAMS
    ]
    streams[-1]["cluster"]["replicas"][1] = third | replica
    streams[0]["cluster"]["replicas"][0] = away | {"name": "Server name unknown at this time (peerID: CfhLartK)"}
    alone = {"config": {"name": "OTHER", "num_replicas": 1}, "cluster": {"leader": "headrace-2"}}
    in_memory = {"config": {"name": "PASSING", "num_replicas": 3, "storage": "memory"}, "cluster": {"replicas": [away]}}
    return {"total": len(streams) + 2, "streams": [*streams, alone, in_memory]}


@pytest.mark.parametrize(
    ("answer", "has"),
    [
        (listed(), True),
        (listed(current=False), False),
        (listed(lag=1), False),
        (listed(offline=True), False),
        (listed(leader=""), False),
        (listed() | {"missing": ["SUBMIT"]}, False),
        (listed() | {"total": 300}, False),
        (listed() | {"streams": []}, False),
        ({"error": {"err_code": 10008}}, False),
        (LogUnavailable("no answer"), False),
    ],
)
async def test_the_others_have_everything_when_of_each_stream_the_one_leads_and_the_other_is_as_far(answer, has):
    bus = Bus(answer)
    assert (await have_all(bus, "nats-server-2"), bus.asked) == (has, ["$JS.API.STREAM.LIST"])


@pytest.mark.parametrize(("away", "distrusted"), [("nats-server-1", ()), ("nats-server-2", ("nats-server-1",))])
async def test_who_is_to_go_or_is_distrusted_lets_another_lead_first(away, distrusted):
    bus = Bus(listed())
    assert not await have_all(bus, away, distrusted)
    assert bus.asked == ["$JS.API.STREAM.LIST", *(f"$JS.API.STREAM.LEADER.STEPDOWN.{name}" for name in STREAMS)]
