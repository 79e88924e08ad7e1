"""`headrace audit log`: page by page, a line for each fact."""

from __future__ import annotations

import json

import pytest

from headrace.cli.history import audit
from headrace.cli.output.formatting import local
from headrace.contracts.messages.audit import AuditAnswer, AuditLine, AuditRequest
from headrace.contracts.values.durations import parse_time

AT = parse_time("2026-11-21T08:00:00Z")
JOB = "acme.alice.01jd3v8k5w2m4x6z8b0c2e4g6h"


def line(sequence, **more):
    fields = {
        "by": "allocator",
        "type": "lease.granted.v1",
        "about": JOB,
        "text": "attempt 1 granted",
        "rule": "R15",
        "as_of": sequence - 1,
    }
    return AuditLine(sequence=sequence, place=2, at=AT, **(fields | more))


def test_it_asks_until_there_is_no_more_and_keeps_nothing(headrace):
    first, second = AuditAnswer(through=9, lines=(line(3),), next=5), AuditAnswer(through=9, lines=(line(7, rule=""),))
    ran = headrace(
        "audit log --from 2026-11-21 --owner alice --node n1 --kind lease,job.ended --all-tenants", audit_lines=[first, second]
    )
    request = AuditRequest(
        since=parse_time("2026-11-21"), user="alice", node="n1", kinds=("lease", "job.ended"), limit=audit.PAGE
    )
    assert ran.calls == [("audit_lines", (request,), {"all_tenants": True})]
    assert ran.out.splitlines() == [
        f"{local(AT)}  3.2        allocator    R15  alice.01jd3v8k5w2m4x6z8b0c2e4g6h: attempt 1 granted",
        f"{local(AT)}  7.2        allocator    -    alice.01jd3v8k5w2m4x6z8b0c2e4g6h: attempt 1 granted",
    ]


def test_programs_get_an_object_a_line_with_what_it_was_decided_on(headrace):
    ran = headrace("audit log --json", audit_lines=AuditAnswer(through=9, lines=(line(3, fact={"job": JOB}), line(4))))
    printed = [json.loads(row) for row in ran.out.splitlines()]
    assert [row["sequence"] for row in printed] == [3, 4]
    assert (printed[0]["as_of"], printed[0]["rule"], printed[0]["fact"]) == (2, "R15", {"job": JOB})


def test_causes_are_named_as_lines_are(headrace):
    answer = AuditAnswer(through=9, lines=(line(3), line(4, because=("3.2",))))
    ran = headrace("audit log --causes 4.2", audit_lines=answer)
    assert ran.calls[0][1][0] == AuditRequest(causes="4.2", limit=audit.PAGE)
    assert ran.out.splitlines()[1].endswith("attempt 1 granted  (because of 3.2)")


def test_no_more_than_asked_for_is_shown(headrace):
    answer = AuditAnswer(through=9, lines=(line(3), line(4), line(5)), next=6)
    ran = headrace("audit log --limit 2", audit_lines=answer)
    assert (len(ran.out.splitlines()), len(ran.calls)) == (2, 1)


def test_what_others_have_written_does_not_move_the_cursor(headrace):
    answer = AuditAnswer(through=9, lines=(line(3, text="\x1b[2Jgone", about="pool"),))
    assert headrace("audit log", audit_lines=answer).out.endswith("pool: ?[2Jgone\n")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("audit log --causes 4 --job x", "--causes takes no other filter"),
        ("audit log --from 2026-11-02 --to 2026-11-01", "--from 2026-11-02 is not before --to 2026-11-01"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(headrace, words, complaint):
    ran = headrace(words)
    assert (ran.code, ran.err.startswith(f"headrace: {complaint}")) == (1, True)


def test_nothing_that_fits_is_said(headrace):
    assert headrace("audit log --job 01jd3v8k5w2m4x6z8b0c2e4g6h", audit_lines=AuditAnswer(through=9)).out == "No facts match.\n"
