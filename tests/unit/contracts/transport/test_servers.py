"""One server, or several that stand in for each other."""

from __future__ import annotations

from headrace.contracts.transport.servers import PING_ALONE, PING_AMONG, ping_interval, servers


def test_an_address_names_one_server_or_several() -> None:
    assert servers("nats://a:1") == ["nats://a:1"]
    assert servers("nats://a:1, nats://b:2,nats://c:3,") == ["nats://a:1", "nats://b:2", "nats://c:3"]


def test_a_server_that_others_stand_in_for_is_asked_more_often_whether_it_lives() -> None:
    assert (ping_interval("nats://a:1"), ping_interval("nats://a:1,nats://b:2")) == (PING_ALONE, PING_AMONG)
