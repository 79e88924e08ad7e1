"""`headrace audit verify` on a ledger that governance hands out a page at a time."""

from __future__ import annotations

import json

import pytest

from headrace.cli.history import verify
from headrace.cli.history.verify import shown
from headrace.client import HeadraceError
from headrace.contracts.messages.audit import Finding, VerifyReport
from headrace.contracts.messages.queries import RecordsAnswer, StoredRecord
from headrace.contracts.transport.codec import encode
from headrace.service.engine_version import ENGINE
from headrace.simulate.virtual_system import ENGINE as SIMULATED
from tests.unit.audit.ledgers import played
from tests.unit.audit.seals_made import KEY, seals_over


@pytest.fixture(scope="module")
def ledger():
    return tuple(StoredRecord(**message._asdict()) for message in played("V02"))


@pytest.fixture
def another_place(monkeypatch, tmp_path):
    """No installation on this machine; records are asked for."""
    monkeypatch.setenv("HEADRACE_DATA", str(tmp_path))
    monkeypatch.setattr(verify, "ENGINE", SIMULATED)


def pages(ledger, size=4):
    return lambda after: RecordsAnswer(
        tip=ledger[-1].sequence, records=tuple(record for record in ledger if record.sequence > after)[:size]
    )


def test_a_whole_ledger_is_read_page_by_page_and_nothing_is_found(headrace, ledger, another_place):
    ran = headrace("audit verify", records=pages(ledger))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[0] == f"records    {len(ledger)} read, through record {len(ledger)}"
    assert (
        ran.out.splitlines()[1]
        == "seals      none: nothing shows whether records of nodes, or the last record of each service, were changed"
    )
    assert ran.out.splitlines()[-1] == "Nothing found."
    assert {call[0] for call in ran.calls} == {"records"}


def test_a_finding_is_shown_and_fails(headrace, ledger, another_place):
    ran = headrace("audit verify", records=pages(ledger[:5] + ledger[6:]))
    assert ran.code == 1
    assert "  6            removed    record 6 is missing: behind 5 comes 7" in ran.out.splitlines()
    assert "           checked through record 5 only: after sequence 5 comes 7: records are missing" in ran.out


def test_programs_get_the_report(headrace, ledger, another_place):
    ran = headrace("audit verify --json --chains", records=pages(ledger))
    assert json.loads(ran.out) == {"through": len(ledger), "records": len(ledger)}


def test_seals_of_a_file_are_what_the_ledger_is_held_against(headrace, ledger, another_place, tmp_path):
    file = tmp_path / "kept.jsonl"
    file.write_bytes(b"".join(encode(seal) + b"\n" for seal in seals_over(ledger, 5)))
    ran = headrace(f"audit verify --seals {file}", records=pages(ledger))
    made, through = len(ledger) // 5, len(ledger) // 5 * 5
    rest = f"; the {len(ledger) - through} after it are not sealed yet" if through < len(ledger) else ""
    assert (ran.code, ran.out.splitlines()[1]) == (
        0,
        f"seals      {made} are valid, through record {through}{rest}; key {KEY.public}",
    )
    cut = headrace(f"audit verify --seals {file}", records=pages(ledger[:7]))
    assert (cut.code, f"  8-{through:<10} removed    records 8 to {through}, which were sealed, are gone" in cut.out) == (
        1,
        True,
    )


def test_a_file_that_holds_no_seals_is_refused(headrace, another_place, tmp_path):
    file = tmp_path / "kept.jsonl"
    for content, complaint in ((b"", f"--seals: {file} has no seals; "), (b"x\n", f"{file}, line 1, is not a seal: ")):
        file.write_bytes(content)
        ran = headrace(f"audit verify --seals {file}")
        assert (ran.code, ran.err.startswith(f"headrace: {complaint}")) == (1, True)
    assert headrace(f"audit verify --seals {tmp_path / 'nothing'}").err.startswith(
        f"headrace: {tmp_path / 'nothing'} cannot be read"
    )


def test_decisions_of_other_software_are_counted(headrace, ledger, another_place, monkeypatch):
    monkeypatch.setattr(verify, "ENGINE", "headrace/0.0")
    assert f"by {SIMULATED}: headrace/0.0 cannot repeat these" in headrace("audit verify", records=pages(ledger)).out


def test_who_may_not_ask_is_told(headrace, another_place):
    ran = headrace("audit verify", records=HeadraceError("only an administrator may ask that"))
    assert (ran.code, ran.err) == (1, "headrace: only an administrator may ask that\n")


def test_everything_that_a_report_says_is_told_to_people():
    finding = Finding(kind="decision", sequence=7, through=9, text="it differs", recorded=({"a": 1},), computed=({"b": 2},))
    report = VerifyReport(
        through=9,
        records=9,
        facts=20,
        voids={"n1": 2},
        recomputed=3,
        decision_facts=5,
        judged=2,
        untold={"MALFORMED": 3, "RUNTIME_RULE": 1},
        other_engines={"headrace/9": 4},
        observed={"governance": 1},
        late=6,
        seals=2,
        sealed_through=6,
        key="K",
        folded=8,
        stopped="a hole",
        found=2,
        findings=(finding,),
    )
    assert shown(report).splitlines() == [
        "records    9 read, through record 9",
        "seals      2 are valid, through record 6; the 3 after it are not sealed yet; key K",
        "void       2 records of nodes are void (n1: 2)",
        "decisions  3 repeated, with 5 of 20 facts",
        (
            "           of them 2 verdicts of admission, as far as the ledger says what was submitted; "
            "4 that only the submission itself could explain (MALFORMED: 3, RUNTIME_RULE: 1)"
        ),
        f"           4 by headrace/9: {ENGINE} cannot repeat these",
        "           1 that depend on more than the ledger has (governance: 1)",
        "           6 based on records too far back",
        "           checked through record 8 only: a hole",
        "found      2, the first 1 of them:",
        "  7-9          decision   it differs",
        "    recorded  {'a': 1}",
        "    computed  {'b': 2}",
    ]
