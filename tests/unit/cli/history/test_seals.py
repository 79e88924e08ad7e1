"""`headrace audit seals`: out of the ledger, to look at and into a file."""

from __future__ import annotations

import json

import pytest

from headrace.audit.seal_store import read_seals
from headrace.contracts.facts.records import Record
from headrace.contracts.messages.queries import RecordsAnswer, StoredRecord
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import ledger
from tests.unit.audit.ledgers import played
from tests.unit.audit.seals_made import KEY, altered_base64, seals_over


@pytest.fixture(scope="module")
def made():
    return seals_over(played("V02"), 5)


@pytest.fixture
def sealed(made, monkeypatch, tmp_path):
    """The answer of an installation elsewhere, whose ledger holds these seals, and a damaged one."""
    monkeypatch.setenv("HEADRACE_DATA", str(tmp_path))
    other = made[0].__class__(
        **{name: getattr(made[0], name) for name in made[0].__struct_fields__} | {"signature": altered_base64("x")}
    )

    def stated(sequence, seal):
        record = Record(by="audit", now=1, engine="x", as_of=sequence - 1, facts=(seal,))
        return StoredRecord(sequence=sequence, subject=ledger("audit"), stamped=1, payload=encode(record))

    stored = tuple(stated(number, seal) for number, seal in enumerate([*made, other], 1))
    broken = StoredRecord(sequence=len(stored) + 1, subject=ledger("audit"), stamped=1, payload=b"x")
    node = StoredRecord(sequence=len(stored) + 2, subject=ledger("node.n"), stamped=1, payload=b"x")
    whole = (*stored, broken, node)
    return lambda after: RecordsAnswer(tip=len(whole), records=whole if after == 0 else ())


def test_they_are_listed(headrace, made, sealed):
    ran = headrace("audit seals", records=sealed)
    assert [line.split() for line in ran.out.splitlines()] == [
        ["SEAL", "FIRST", "LAST", "CONTENTS", "KEY"],
        *([str(seal.number), str(seal.first), str(seal.last), seal.contents[:16], KEY.public] for seal in made),
    ]


def test_programs_get_them_whole(headrace, made, sealed):
    printed = json.loads(headrace("audit seals --json", records=sealed).out)
    assert [(seal["first"], seal["signature"]) for seal in printed] == [(seal.first, seal.signature) for seal in made]


def test_they_are_written_as_verify_reads_them(headrace, made, sealed, tmp_path):
    file = tmp_path / "kept.jsonl"
    ran = headrace(f"audit seals --out {file}", records=sealed)
    assert (ran.code, read_seals(file)) == (0, made)
    assert ran.out == f"{len(made)} seals, through record {made[-1].last}, key {KEY.public}: {file}\n"
    ran = headrace(f"audit seals --out {tmp_path / 'no' / 'where'}", records=sealed)
    assert (ran.code, ran.err.startswith("headrace: --out: ")) == (1, True)


def test_an_empty_result_says_so(headrace, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADRACE_DATA", str(tmp_path))
    answer = RecordsAnswer(tip=0)
    assert headrace("audit seals", records=answer).out == "No seals yet.\n"
    ran = headrace(f"audit seals --out {tmp_path / 'kept'}", records=answer)
    assert (ran.code, ran.err) == (1, "headrace: no seals yet: the first comes a minute after the first record\n")
