"""Every version of every fact that was ever published, decoded for ever.

A golden record is never edited and never removed: it stands for what is in a user's ledger. A new fact, or a new version of
one, brings its own file, with a value in every field; a new field with a default is missing in the old file and may be.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.contracts.facts.levels import AMENDED, FIRST, SINCE, too_early
from headrace.contracts.facts.upcasters import UPCASTERS
from headrace.contracts.facts.writers import may_state
from headrace.contracts.schemas.generate import FACT_TYPES, fact_type
from headrace.contracts.transport.codec import decode_record, encode

FILES = sorted((Path(__file__).parent / "facts").glob("*.json"))
TYPES = {fact_type(kind): kind for kind in FACT_TYPES}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_golden_record_is_read_and_written_again_byte_for_byte(file):
    written = file.read_bytes().removesuffix(b"\n")
    record = decode_record(written)
    (fact,) = record.facts
    if TYPES[file.stem] in UPCASTERS:
        assert type(fact) not in UPCASTERS
    else:
        assert type(fact) is TYPES[file.stem]
        assert encode(record) == written


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_golden_record_was_stated_by_the_one_who_may(file):
    record = decode_record(file.read_bytes())
    assert may_state(record.by, TYPES[file.stem])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_golden_record_has_a_value_in_every_field_so_that_none_can_change_unseen(file):
    (fact,) = json.loads(file.read_bytes())["facts"]
    newer = LATER_FIELDS.get(file.stem, set())
    assert fact.keys() == {"type", *TYPES[file.stem].__struct_fields__} - newer


@pytest.mark.parametrize(
    "file", [file for file in FILES if SINCE.get(TYPES[file.stem], FIRST) > AMENDED], ids=lambda file: file.stem
)
def test_a_newer_fact_is_too_early_in_a_ledger_of_the_level_before(file):
    record, since = decode_record(file.read_bytes()), SINCE[TYPES[file.stem]]
    assert too_early(record.facts, since - 1) == (
        f"{file.stem} may be stated from level {since} on, and the installation is at {since - 1}"
    )
    assert too_early(record.facts, since) == ""


LATER_FIELDS: dict[str, set[str]] = {
    "group.applied.v1": {"on_behalf"},
    "job.admitted.v1": {
        "array",
        "by_model",
        "contained",
        "gpu_memory",
        "mig",
        "on_behalf_of",
        "rules",
        "shares",
        "submitted_by",
    },
    "job.cancel_requested.v1": {"elements"},
    "job.ended.v1": {"elements"},
    "job.requeue_requested.v1": {"elements"},
    "job.rejected.v1": {"contained", "on_behalf_of", "preemptible", "request", "submitted_by"},
    "job.requeued.v1": {"avoid", "avoid_until", "last", "may_overlap"},
    "lease.ended.v1": {"held_by"},
    "lease.granted.v1": {"over_budget"},
    "node.registered.v1": {"levels", "reads"},
    "node.set_aside.v1": {"until"},
    "node.stopped.v1": {"through"},
    "preemption.ordered.v1": {"ladders"},
    "user.applied.v1": {"vouched"},
}
"""Fields, all with defaults, that a fact got after its golden record was written."""


def test_every_fact_that_can_be_read_has_its_golden_record():
    assert {file.stem for file in FILES} == TYPES.keys(), (
        "write tests/golden/facts/<type>.json: one record, a value in every field"
    )
