from __future__ import annotations

import pytest

from headrace.accounting.reports.history import _check_names, _names, check
from headrace.accounting.reports.usage import InvalidQuery
from headrace.contracts.messages.audit import AuditRequest
from headrace.domain.state.state import State


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        (AuditRequest(after=-1), "after, since, until, limit: they must not be negative, and limit is 1 to 1000"),
        (AuditRequest(limit=1_001), "after, since, until, limit:"),
        (AuditRequest(since=5, until=5), "since, until: the time ends before it begins"),
        (AuditRequest(user="Alice"), "user: invalid name 'Alice'"),
        (AuditRequest(node="a b"), "node: invalid name 'a b'"),
        (AuditRequest(kinds=("leases",)), "kinds: unknown kind 'leases'; use one of account, calendar, checkpoint,"),
    ],
)
def test_a_question_that_makes_no_sense_is_refused_with_its_field(question: AuditRequest, complaint: str) -> None:
    with pytest.raises(InvalidQuery) as refusal:
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


class Books:
    """Answers whether a person is named as it was told to, and remembers of whom it was asked."""

    def __init__(self, named: bool) -> None:
        self.named = named
        self.asked: list[tuple[object, ...]] = []

    async def fetchval(self, _statement: str, *arguments: object) -> bool:
        self.asked.append(arguments)
        return self.named


async def test_a_node_or_a_user_of_whom_no_record_speaks_is_refused_by_name() -> None:
    for question, says in (
        (AuditRequest(node="gpu77"), "node: no record speaks of a node gpu77"),
        (AuditRequest(user="zoe"), "user: no record speaks of a user zoe of tenant acme"),
    ):
        with pytest.raises(InvalidQuery, match=says):
            await _check_names(Books(named=False), "acme", question, State())
        await _check_names(Books(named=True), "acme", question, State())


async def test_who_was_erased_is_asked_for_by_the_pseudonym_alone() -> None:
    state, books = State(), Books(named=False)
    state.tokens.erased["acme", "alice"] = "erased-1"
    await _check_names(books, "acme", AuditRequest(user="erased-1"), state)
    with pytest.raises(InvalidQuery, match="no record speaks of a user alice"):
        await _check_names(books, "acme", AuditRequest(user="alice"), state)
    assert books.asked == [([], "alice", [])]
