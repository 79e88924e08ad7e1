from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.tree import tree_of
from headrace.contracts.messages.queries import ApplyAnswer, Change, DeleteRequest
from headrace.governance.calendars import TimeZones
from headrace.governance.decide import Decision, Governance, applying, deleting, first_of

ADMIN = "default.admin"
ZONES = TimeZones(lambda _zone, since, _until: ((since, 3_600),), lambda: ["Europe/Berlin"])


def documents(**kinds):
    return read_documents(tree_of(kinds))


def user(handle, **fields):
    return applying(documents(users=[{"handle": handle}]), ADMIN, **fields)


def created(name, kind="user"):
    return Change(kind=kind, name=f"default/{name}", action="create")


class Talk:
    """A decider, its state, and everything it has answered, in order."""

    def __init__(self, installation):
        self.installation = installation
        self.governance = Governance(installation.state, ZONES)
        self.answers: list[tuple[str, Decision | Exception]] = []

    def ask(self, name, operation):
        self.governance.ask(operation, lambda outcome: self.answers.append((name, outcome)))

    def decide(self):
        """One round of the loop: decide, append, read back. The facts."""
        facts = self.governance.decide(0)
        if facts:
            self.installation.append_facts(*facts)
        return facts


@pytest.fixture
def talk(site):
    return Talk(site)


def test_with_nothing_to_do_nothing_is_said(talk):
    assert talk.decide() == ()
    assert talk.governance.next_wakeup() is None


def test_each_request_is_a_record_of_its_own_answered_when_that_has_come_back(talk):
    talk.ask("first", user("ann"))
    talk.ask("second", user("bob"))
    assert [fact.user.handle for fact in talk.decide()] == ["ann"]
    assert talk.answers == []
    assert [fact.user.handle for fact in talk.decide()] == ["bob"]
    assert talk.decide() == ()
    assert talk.answers == [
        (name, Decision(ApplyAnswer(changes=(created(handle),), applied=True, revision=revision), facts=(fact,)))
        for name, handle, revision, fact in (
            ("first", "ann", 4, f.UserAppliedV1(author=ADMIN, user=documents(users=[{"handle": "ann"}]).users[0])),
            ("second", "bob", 5, f.UserAppliedV1(author=ADMIN, user=documents(users=[{"handle": "bob"}]).users[0])),
        )
    ]


def test_a_later_request_sees_what_an_earlier_one_wrote(talk):
    talk.ask("pool", applying(documents(pools=[{"name": "north", "selector": {"site": "north"}}]), ADMIN))
    talk.ask("profile", applying(documents(profiles=[{"name": "x", "request": {"gpu": 1}, "pools": ["north"]}]), ADMIN))
    while talk.decide():
        pass
    assert [(name, outcome.code) for name, outcome in talk.answers] == [("pool", ""), ("profile", "")]


def test_what_changes_nothing_is_answered_at_once_and_the_next_has_its_turn(talk):
    talk.ask("kept", applying(documents(groups=[{"name": "all", "members": ["ann"]}]), ADMIN))
    talk.ask("dry", user("ann", dry_run=True))
    talk.ask("wrong", applying(documents(groups=[{"name": "g", "tenant": "x"}, {"name": "h", "tenant": "y"}]), ADMIN))
    talk.ask("good", user("bob"))
    assert [fact.user.handle for fact in talk.decide()] == ["bob"]
    (_, kept), (_, dry), (_, wrong) = talk.answers
    assert kept == Decision(
        ApplyAnswer(changes=(Change(kind="group", name="default/all", action="keep", revision=1),), applied=True)
    )
    assert dry == Decision(ApplyAnswer(changes=(created("ann"),)))
    errors = (
        "groups[0].tenant: there is no tenant x; there is default",
        "groups[1].tenant: there is no tenant y; there is default",
    )
    assert (wrong.code, wrong.error, wrong.answer.errors, wrong.answer.applied) == (
        "INVALID",
        "groups[0].tenant: there is no tenant x; there is default (and 1 more)",
        errors,
        False,
    )


def test_an_overtaken_revision_is_refused_with_the_new_plan(talk):
    operation = applying(documents(groups=[{"name": "all", "members": ["bob"]}]), ADMIN, revisions={"group/default/all": 1})
    talk.ask("first", operation)
    talk.ask("again", operation)
    while talk.decide():
        pass
    (_, first), (_, again) = talk.answers
    assert (first.code, again.code) == ("", "STALE")
    assert again.answer.changes == (Change(kind="group", name="default/all", action="keep", revision=4),)


def test_the_reason_is_written_and_cut_to_a_sentence(talk):
    talk.ask("first", user("ann", reason="x" * 1_000))
    assert [fact.reason for fact in talk.decide()] == ["x" * 500]


def test_what_goes_wrong_in_judging_is_told_only_to_the_one_who_asked(talk):
    def broken(_state, _now):
        raise ZeroDivisionError

    talk.ask("broken", broken)
    talk.ask("good", user("ann"))
    assert len(talk.decide()) == 1
    ((name, outcome),) = talk.answers
    assert (name, type(outcome)) == ("broken", ZeroDivisionError)


def test_a_deletion_is_a_record_too(talk):
    talk.ask("delete", deleting(DeleteRequest(kind="profile", name="three"), ADMIN))
    assert talk.decide() == (f.ProfileDeletedV1(author=ADMIN, name="three"),)
    talk.decide()
    ((_, outcome),) = talk.answers
    assert outcome.answer == ApplyAnswer(
        changes=(Change(kind="profile", name="three", action="delete", revision=1),), applied=True, revision=4
    )


def test_a_refused_deletion_says_why(talk):
    talk.ask("delete", deleting(DeleteRequest(kind="pool", name="west"), ADMIN))
    assert talk.decide() == ()
    error = "pool west is named by profile one, profile three, profile both: change or delete those first (R11)"
    assert talk.answers == [("delete", Decision(ApplyAnswer(changes=(), errors=(error,)), code="REFUSED", error=error))]


def test_one_error_stands_for_itself():
    assert first_of(("a",)) == "a"
    assert first_of(("a", "b", "c")) == "a (and 2 more)"
