"""Amounts in people's words, moments in local time; as JSON in ISO 8601."""

from __future__ import annotations

import time

import pytest

from headrace.cli.output.formatting import ago, amounts, as_json, gpus, local, plain, rough
from headrace.contracts.messages.queries import AttemptView, JobView, NodeView, PoolKeyView, ScopeView
from headrace.contracts.values.durations import HOUR, SECOND, parse_time

NOON = parse_time("2026-11-21T12:00:00Z")


@pytest.fixture(autouse=True)
def _berlin(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def job(**more):
    return JobView(id="i", job="t.u.i", tenant="t", user="u", name="", queue="p/q", state="running", **more)


def test_moments_are_shown_where_the_reader_is():
    assert (local(NOON), local(0), local(None)) == ("2026-11-21 13:00:00", "", "")


def test_spans_are_shown_by_their_two_largest_units():
    spans = {0: "0s", 999_999: "0s", 59 * SECOND: "59s", 90 * SECOND: "1m30s", 3_661 * SECOND: "1h1m", 52 * HOUR: "2d4h"}
    assert {span: rough(span) for span in spans} == spans
    assert (ago(NOON, NOON + 61 * SECOND), ago(NOON, NOON - 1), ago(0)) == ("1m1s ago", "0s ago", "")


def test_amounts_are_what_people_write():
    assert amounts({"gpu": 63_000, "cpu": 500}) == "cpu 0.5, gpu 0.5"
    assert (gpus(job(request={"gpu": 18_000}, replicas=3)), gpus(job(request={"cpu": 1}))) == ("3/7", "")


def test_json_has_words_and_iso_moments_and_null_for_what_has_not_come():
    view = job(
        request={"gpu": 63_000, "memory": 1024},
        admitted_at=NOON,
        labels={"team": "vision"},
        attempts=(AttemptView(attempt=1, pool="onprem", nodes=("gpu01",), granted_at=NOON),),
    )
    shown = plain(view)
    assert shown["request"] == {"gpu": "0.5", "memory": "1GiB"}
    assert (shown["admitted_at"], shown["ended_at"]) == ("2026-11-21T12:00:00.000Z", None)
    assert shown["labels"] == {"team": "vision"}
    assert shown["attempts"][0]["nodes"] == ["gpu01"]
    assert shown["attempts"][0]["granted_at"] == "2026-11-21T12:00:00.000Z"


def test_json_of_scopes_and_nodes_is_in_the_words_of_their_keys():
    assert plain(ScopeView(key="gpu", used=189_000, reservation=126_000, reserved=126_000, borrowed=63_000)) == {
        "key": "gpu",
        "used": "1.5",
        "reservation": "1",
        "limit": None,
        "reserved": "1",
        "borrowed": "0.5",
    }
    assert plain(PoolKeyView(key="memory", capacity=2048, usable=2048, used=1024, free=1024))["free"] == "1GiB"
    node = plain(NodeView(name="n", pool="p", state="ready", gpus=8, gpu_free=63_000, cpu=96_000, memory=1024, last_heard=NOON))
    shown = [node[name] for name in ("gpus", "gpu_free", "cpu", "memory", "last_heard")]
    assert shown == [8, "0.5", "96", "1GiB", "2026-11-21T12:00:00.000Z"]


def test_json_is_written_for_people_as_well():
    assert as_json([{"name": "Grüße", "at": 0}]) == '[\n  {\n    "name": "Grüße",\n    "at": null\n  }\n]'
