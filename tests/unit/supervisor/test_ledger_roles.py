"""Who leads the ledger, as it is told."""

from __future__ import annotations

import json

from headrace.contracts.messages.installation import FollowerStatus, StreamStatus
from headrace.supervisor.ledger_roles import roles, summary
from headrace.supervisor.nats.servers import standing

LED = {"error": None, "cluster": {"leader": "headrace-2", "replicas": [{"name": "headrace-1", "current": True}]}}


def test_who_leads_is_told_with_how_far_the_others_are():
    led = standing(json.dumps(LED).encode())
    assert led == StreamStatus(leader="headrace-2", replicas=(FollowerStatus(name="headrace-1", current=True),))
    away = FollowerStatus(name="headrace-3", offline=True, lag=12)
    found = roles(StreamStatus(leader="headrace-2", replicas=(away, *(led.replicas or ()))))
    assert found == {
        "nats-server-1": {"ledger": "follows", "lag": 0},
        "nats-server-2": {"ledger": "leads", "lag": 0},
        "nats-server-3": {"ledger": "away", "lag": 12},
    }
    assert (
        summary(found)
        == "The ledger: nats-server-1 follows (0 behind), nats-server-2 leads, nats-server-3 is away (12 behind)."
    )
    assert (roles(StreamStatus(replicas=None)), roles(standing(b"no")), roles(standing(b"{}"))) == ({}, {}, {})
