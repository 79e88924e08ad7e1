"""What the server answers, put into the words of the log."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from headrace.bus.log import LogRefused, LogUnavailable, Message
from headrace.bus.nats.jetstream import CLUSTER_TIMEOUT, JetStreamLog
from headrace.nats_client.connection import Connection
from tests.unit.bus.nats.scripted import Scripted


def _log(scripted: Scripted) -> JetStreamLog:
    return JetStreamLog(cast("Connection", scripted), "LEDGER")


def _fault(code: int, text: str = "no", http: int = 400) -> dict[str, object]:
    return {"error": {"code": http, "err_code": code, "description": text}}


@pytest.mark.parametrize(
    ("expected_last", "headers"),
    [
        (None, {}),
        (0, {"Nats-Expected-Last-Subject-Sequence": "0"}),
        (7, {"Nats-Expected-Last-Subject-Sequence": "7"}),
    ],
)
async def test_an_append_states_its_condition_in_the_headers_and_nothing_else(
    expected_last: int | None, headers: dict[str, str]
) -> None:
    scripted = Scripted({"stream": "LEDGER", "seq": 8})
    assert await _log(scripted).append("hr.ledger.x", b"payload", expected_last) == 8
    assert scripted.asked == [("hr.ledger.x", b"payload", headers)]


async def test_of_several_servers_one_who_appends_behind_something_asks_again_soon_and_others_as_their_connection_does() -> (
    None
):
    answers = [{"stream": "LEDGER", "seq": 8}] * 3
    alone, several = Scripted(*answers), Scripted(*answers)
    several.several = True
    for scripted in (alone, several):
        await _log(scripted).append("hr.ledger.x", b"payload", 7)
        await _log(scripted).append("hr.submit.x", b"payload", None)
        await JetStreamLog(cast("Connection", scripted), "LEDGER", timeout=9.0).append("hr.ledger.x", b"payload", 7)
    assert (alone.within, several.within) == ([None, None, 9.0], [CLUSTER_TIMEOUT, None, 9.0])


async def test_a_message_is_stamped_in_microseconds() -> None:
    stored = {"subject": "hr.ledger.x", "seq": 3, "time": "2026-11-21T04:15:06.123456789Z", "data": "aGk="}
    expected = Message(3, "hr.ledger.x", 1_795_234_506_123_456, b"hi")
    assert await _log(Scripted({"message": stored})).last("hr.ledger.x") == expected
    headers = {"Nats-Sequence": "3", "Nats-Subject": "hr.ledger.x", "Nats-Time-Stamp": stored["time"]}
    assert await _log(Scripted(SimpleNamespace(data=b"hi", headers=headers))).get(3) == expected


async def test_a_replica_that_lacks_a_message_is_not_believed() -> None:
    missing = SimpleNamespace(data=b"", headers={"Status": "404"})
    stored = {"subject": "hr.ledger.x", "seq": 3, "time": "1970-01-01T00:00:00.000001Z"}
    scripted = Scripted(missing, {"message": stored})
    assert await _log(scripted).get(3) == Message(3, "hr.ledger.x", 1, b"")
    assert [subject for subject, _, _ in scripted.asked] == ["$JS.API.DIRECT.GET.LEDGER", "$JS.API.STREAM.MSG.GET.LEDGER"]
    assert await _log(Scripted(missing, _fault(10037, http=404))).get(3) is None


async def test_a_purge_stops_at_the_end_of_the_stream() -> None:
    info = {"state": {"first_seq": 1, "last_seq": 4}, "ts": "2026-11-21T04:15:06Z"}
    scripted = Scripted(info, {"success": True})
    await _log(scripted).purge_through(9)
    assert scripted.asked[-1] == ("$JS.API.STREAM.PURGE.LEDGER", b'{"seq":5}', {})
    with pytest.raises(LogRefused):
        await _log(Scripted(info, _fault(10052))).purge_through(9)


async def test_the_server_tells_its_time_with_the_state_of_the_stream() -> None:
    info = {"state": {"first_seq": 1, "last_seq": 4}, "ts": "1970-01-01T00:00:01.5Z"}
    assert await _log(Scripted(info)).now() == 1_500_000
    assert await _log(Scripted(info)).tip() == 4


async def test_where_a_stream_ends_is_what_only_its_leader_says() -> None:
    state, leader = {"state": {"first_seq": 1, "last_seq": 7}}, {"leader": "headrace-1"}
    assert await _log(Scripted(state)).tip() == 7
    assert await _log(Scripted(state | {"cluster": leader})).tip() == 7
    with pytest.raises(LogUnavailable, match="^LEDGER has no leader$"):
        await _log(Scripted(state | {"cluster": {"replicas": [{"name": "headrace-1"}]}})).tip()
