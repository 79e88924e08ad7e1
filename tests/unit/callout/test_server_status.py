"""How the servers are, as all of them say over the system's login."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from headrace.callout import server_status
from headrace.callout.server_status import SERVER, STREAMS, Servers
from headrace.contracts.messages.tokens import StorageReport
from headrace.health.health import Health


def store(name, leader, *replicas):
    stream = {"name": "LEDGER", "state": {"messages": 9, "bytes": 900}}
    if leader:
        stream["cluster"] = {"leader": leader, "replicas": list(replicas)}
    details = [{"name": "CORE", "stream_detail": [stream]}]
    return {"server": {"name": name}, "data": {"storage": 900, "config": {"max_storage": 5_000}, "account_details": details}}


def server(name, **data):
    return {"server": {"name": name, "id": "N"}, "data": {"connections": 3, "slow_consumers": 1, "mem": 7, "cpu": 0.5, **data}}


class System:
    """The system's login; `answers` by subject."""

    def __init__(self, answers):
        self.answers = answers
        self.callbacks = {}
        self.inboxes = 0

    def new_inbox(self):
        self.inboxes += 1
        return f"_INBOX.{self.inboxes}"

    async def subscribe(self, inbox, cb):
        self.callbacks[inbox] = cb

        async def unsubscribe():
            del self.callbacks[inbox]

        return SimpleNamespace(unsubscribe=unsubscribe)

    async def publish(self, subject, _payload, reply):
        for answer in self.answers[subject]:
            await self.callbacks[reply](
                SimpleNamespace(data=answer if isinstance(answer, bytes) else json.dumps(answer).encode())
            )


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    monkeypatch.setattr(server_status, "ANSWER_WITHIN", 0.02)


async def lines(system):
    health = Health("callout-1")
    Servers(system).show(health)
    return [
        line for line in (await health.text()).decode().splitlines() if line.startswith(("headrace_nats", "headrace_stream"))
    ]


async def test_one_server_leads_all_its_streams():
    found = await lines(System({SERVER: [server("one")], STREAMS: [store("one", "")]}))
    assert found == [
        "headrace_nats_servers 1.0",
        'headrace_nats_connections{server="one"} 3.0',
        'headrace_nats_slow_consumers{server="one"} 1.0',
        'headrace_nats_memory_bytes{server="one"} 7.0',
        'headrace_nats_cpu_percent{server="one"} 0.5',
        'headrace_nats_storage_bytes{server="one"} 900.0',
        'headrace_nats_storage_limit_bytes{server="one"} 5000.0',
        'headrace_stream_messages{server="one",stream="LEDGER"} 9.0',
        'headrace_stream_bytes{server="one",stream="LEDGER"} 900.0',
        'headrace_stream_replicas_away{server="one",stream="LEDGER"} 0.0',
    ]


async def test_of_a_cluster_each_stream_is_told_by_its_leader_with_what_its_replicas_lack():
    behind, gone = {"name": "two", "current": False, "lag": 40}, {"name": "three", "current": True, "offline": True}
    reports = [store("one", "one", behind, gone), store("two", "one"), store("three", "one")]
    found = await lines(System({SERVER: [server("one"), server("two"), b"no json"], STREAMS: reports}))
    assert [line for line in found if "stream" in line or "servers" in line] == [
        "headrace_nats_servers 2.0",
        'headrace_stream_messages{server="one",stream="LEDGER"} 9.0',
        'headrace_stream_bytes{server="one",stream="LEDGER"} 900.0',
        'headrace_stream_replica_lag_messages{replica="two",server="one",stream="LEDGER"} 40.0',
        'headrace_stream_replica_lag_messages{replica="three",server="one",stream="LEDGER"} 0.0',
        'headrace_stream_replicas_away{server="one",stream="LEDGER"} 2.0',
    ]


async def test_where_no_server_answers_none_is_there():
    assert await lines(System({SERVER: [], STREAMS: [b"no json"]})) == ["headrace_nats_servers 0.0"]


async def test_the_fullest_server_is_told_and_one_without_a_limit_is_not():
    full = {"server": {"name": "two"}, "data": {"storage": 80, "config": {"max_storage": 100}}}
    unlimited = {"server": {"name": "three"}, "data": {"storage": 800}}
    system = System({STREAMS: [store("one", ""), full, unlimited, b"no json"]})
    assert await Servers(system).fullest() == StorageReport(used=80, limit=100)
    assert await Servers(System({STREAMS: [unlimited]})).fullest() is None
