"""An executor is ready once it is connected and has been told what is to run."""

from __future__ import annotations

from types import SimpleNamespace

from headrace.health.health import Health
from headrace.node_executor.metrics import show


async def test_what_is_seen_of_an_executor():
    health, link = Health("node-gpu01"), SimpleNamespace(is_connected=False, was_answered=False)
    journal = SimpleNamespace(unsent=[1, 2, 3])
    show(health, link, SimpleNamespace(running=2), journal, 8, "headrace-node/1")
    assert (await health.readiness()).checks == {
        "nats": "the bus is away; jobs go on, and facts wait on the disk",
        "ledger": "the feed has not answered yet what this node is to run",
    }
    link.is_connected = link.was_answered = True
    assert (await health.readiness()).ready
    text = (await health.text()).decode()
    for line in (
        "headrace_node_leases 2.0",
        "headrace_node_devices 8.0",
        "headrace_node_unsent_facts 3.0",
        "headrace_nats_connected 1.0",
    ):
        assert line in text
