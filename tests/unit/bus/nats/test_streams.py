"""Which streams there are and how they are compared; making them is tested on a real server."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.bus.log import LogRefused, LogUnavailable
from headrace.bus.nats.streams import STREAMS, StreamMismatch, ensure_stream
from headrace.contracts.transport.subjects import FEED_STREAM, LEDGER_STREAM, SUBMIT_STREAM, SUBMIT_SUBJECTS
from headrace.nats_client.connection import Connection


class Server:
    """Has one stream, or none, or refuses."""

    def __init__(
        self, config: dict[str, Any] | None = None, refusal: dict[str, object] | None = None, replicas_max: int = 3
    ) -> None:
        self.config = config
        self.refusal = refusal
        self.replicas_max = replicas_max
        self.written: list[tuple[str, dict[str, Any]]] = []

    async def ask(self, subject: str, payload: bytes = b"") -> Any:
        what = subject.removeprefix("$JS.API.STREAM.")
        if not what.startswith("INFO"):
            self.written.append((what, json.loads(payload)))
        answer: dict[str, Any] = {"config": self.config}
        if self.refusal is not None:
            answer = {"error": self.refusal}
        elif payload and json.loads(payload)["num_replicas"] > self.replicas_max:
            answer = {"error": {"err_code": 10005, "description": "no suitable peers for placement"}}
        elif self.config is None:
            answer = {"error": {"err_code": 10059, "description": "stream not found"}} if what.startswith("INFO") else {}
        return SimpleNamespace(data=json.dumps(answer).encode())


async def _ensure(server: Server, name: str, replicas: int = 1) -> list[tuple[str, dict[str, Any]]]:
    await ensure_stream(cast("Connection", server), name, replicas)
    return server.written


def _as_is(name: str, **changes: object) -> dict[str, Any]:
    return {"name": name, "num_replicas": 1, "max_age": 0, "allow_rollup_hdrs": False} | STREAMS[name] | changes


def test_the_ledger_is_on_disk_and_nothing_in_it_is_ever_discarded_or_deleted() -> None:
    ledger = STREAMS[LEDGER_STREAM]
    assert (ledger["storage"], ledger["discard"], ledger["deny_delete"]) == ("file", "new", True)
    assert not {"max_age", "max_msgs", "max_bytes", "max_msgs_per_subject"} & set(ledger)


def test_no_stream_lets_a_publisher_roll_up_expire_batch_or_schedule() -> None:
    for config in STREAMS.values():
        assert not [key for key in config if key.startswith("allow_") and key != "allow_direct"]
        assert "persist_mode" not in config


async def test_a_missing_stream_is_made() -> None:
    assert await _ensure(Server(), FEED_STREAM, replicas=3) == [
        ("CREATE.FEED", {"name": "FEED", "num_replicas": 3} | STREAMS[FEED_STREAM])
    ]


async def test_a_stream_in_memory_makes_do_with_most_of_its_replicas_while_there_are_no_servers_for_all() -> None:
    server = Server(replicas_max=2)
    written = await _ensure(server, FEED_STREAM, replicas=3)
    assert [(what, config["num_replicas"]) for what, config in written] == [("CREATE.FEED", 3), ("CREATE.FEED", 2)]
    has_two = Server(_as_is(FEED_STREAM, num_replicas=2), replicas_max=2)
    assert [what for what, _ in await _ensure(has_two, FEED_STREAM, replicas=3)] == ["UPDATE.FEED"]


async def test_a_stream_on_disks_waits_for_servers_for_all_its_replicas() -> None:
    server = Server(replicas_max=2)
    with pytest.raises(LogUnavailable, match="no suitable peers"):
        await _ensure(server, LEDGER_STREAM, replicas=3)
    assert [config["num_replicas"] for _, config in server.written] == [3]


async def test_a_stream_as_it_should_be_is_left_alone() -> None:
    assert await _ensure(Server(_as_is(SUBMIT_STREAM)), SUBMIT_STREAM) == []


@pytest.mark.parametrize(
    "change", [{"num_replicas": 3}, {"max_msgs_per_subject": 5}, {"max_msg_size": 5}, {"allow_direct": False}]
)
async def test_what_may_change_is_updated_and_what_others_set_is_kept(change: dict[str, Any]) -> None:
    server = Server(_as_is(SUBMIT_STREAM, description="ours", **change))
    assert await _ensure(server, SUBMIT_STREAM) == [("UPDATE.SUBMIT", _as_is(SUBMIT_STREAM, description="ours"))]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"storage": "memory"}, "storage is memory, has to be file"),
        ({"deny_delete": False}, "deny_delete is off, has to be True"),
        ({"discard": "old"}, "discard is old, has to be new"),
        ({"max_age": 5}, "max_age is 5, has to be off"),
        ({"allow_rollup_hdrs": True}, "allow_rollup_hdrs is True, has to be off"),
        ({"persist_mode": "async"}, "persist_mode is async, has to be off"),
        ({"subjects": ["hr.ledger.>"]}, "subjects is"),
    ],
)
async def test_a_stream_that_could_lose_something_is_refused_and_not_repaired(change: dict[str, Any], complaint: str) -> None:
    server = Server(_as_is(LEDGER_STREAM, **change))
    with pytest.raises(StreamMismatch, match=complaint):
        await _ensure(server, LEDGER_STREAM)
    assert server.written == []


async def test_a_stream_is_given_the_subjects_that_have_come_since_it_was_made() -> None:
    server = Server(_as_is(SUBMIT_STREAM, subjects=["hr.submit.*.*.*.*", "hr.cancel.*.*.*"]))
    await _ensure(server, SUBMIT_STREAM)
    ((what, config),) = server.written
    assert (what, config["subjects"]) == (f"UPDATE.{SUBMIT_STREAM}", list(SUBMIT_SUBJECTS))


async def test_a_server_that_refuses_says_why() -> None:
    with pytest.raises(LogRefused, match="no room"):
        await _ensure(Server(refusal={"err_code": 10047, "description": "no room"}), LEDGER_STREAM)
