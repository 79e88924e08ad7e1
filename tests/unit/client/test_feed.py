"""A message on FEED is believed only where it is a fact, and belongs to the tenant in its subject."""

from __future__ import annotations

import json

import pytest

from headrace.client.feed import FeedFact, read_fact

JOB = "01jd3v8k5w2m4x6z8b0c2e4g6h"
SUBJECT = f"hr.feed.acme.job.ended.{JOB}"
ENDED = {"type": "job.ended.v1", "at": 5, "sequence": 7, "number": 1, "job": f"acme.alice.{JOB}", "state": "failed"}


def test_a_fact_has_its_name_its_time_its_place_and_its_fields():
    assert read_fact(SUBJECT, json.dumps(ENDED).encode()) == FeedFact("job.ended.v1", 5, 7, 1, ENDED)


@pytest.mark.parametrize(
    ("kind", "is_end"),
    [
        ("job.ended.v1", True),
        ("job.rejected.v1", True),
        ("job.dismissed.v1", True),
        ("job.admitted.v1", False),
        ("lease.ended.v1", False),
    ],
)
def test_a_story_ends_with_an_end_a_rejection_or_a_dismissal(kind, is_end):
    assert FeedFact(kind, 1, 1, 1, {}).is_end is is_end


@pytest.mark.parametrize(
    ("subject", "payload"),
    [
        (SUBJECT, b"{"),
        (SUBJECT, b"[]"),
        (SUBJECT, b'{"type": "job.ended.v1"}'),
        (SUBJECT, json.dumps(ENDED | {"type": 1}).encode()),
        (SUBJECT, json.dumps(ENDED | {"at": "now"}).encode()),
        (SUBJECT, json.dumps(ENDED | {"job": f"other.eve.{JOB}"}).encode()),
        ("_INBOX_alice.x", json.dumps(ENDED).encode()),
        ("hr.feed.acme.job.ended", json.dumps(ENDED).encode()),
    ],
)
def test_what_is_not_a_fact_or_does_not_belong_there_is_nothing(subject, payload):
    assert read_fact(subject, payload) is None
