from __future__ import annotations

import pytest

from headrace.accounting.history import _names, check
from headrace.accounting.usage import BadQuestion
from headrace.contracts.audit import AuditRequest


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        (AuditRequest(after=-1), "after, since, until, limit: none is less than 0, and limit is 1 to 1000"),
        (AuditRequest(limit=1_001), "after, since, until, limit:"),
        (AuditRequest(since=5, until=5), "since, until: the time ends before it begins"),
        (AuditRequest(user="Alice"), "user: 'Alice' is no name"),
        (AuditRequest(node="a b"), "node: 'a b' is no name"),
        (AuditRequest(kinds=("leases",)), "kinds: 'leases' is none; there are calendar, checkpoint,"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_its_field(question: AuditRequest, complaint: str) -> None:
    with pytest.raises(BadQuestion) as refusal:
        check(question)
    assert str(refusal.value).startswith(complaint)


def test_kinds_are_nouns_or_nouns_with_their_verbs() -> None:
    check(AuditRequest(kinds=("lease", "lease.granted", "preemption")))


def test_what_is_a_tenants_lies_between_two_names_and_nothing_else_does() -> None:
    first, beyond = _names("acme", "")
    ours = ["acme.alice.x", "acme/rnd", "acme.zoe.y"]
    others = ["acme", "acme-2.alice.x", "acme0.bob.x", "acmf.alice.x", "hq"]
    assert [name for name in [*ours, *others] if first <= name < beyond] == ours
    first, beyond = _names("acme", "alice")
    assert [name for name in ("acme.alice.x", "acme.alice-2.x", "acme.alicf.x") if first <= name < beyond] == ["acme.alice.x"]
    assert _names("", "alice") == ("", "")
