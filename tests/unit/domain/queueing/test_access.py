"""R12: who may use a queue, and enter a pool."""

import pytest

from headrace.contracts.documents.model import Access, Group
from headrace.domain.model.tokens import GroupClaims
from headrace.domain.queueing.access import is_member, may_act, may_enter
from headrace.domain.state.state import GovernanceObject, State
from tests.unit.domain.hall import Hall

DEV = Group(tenant="acme", name="dev", members=("alice",), service_accounts=("ci", "cd"), on_behalf=("ci",))


@pytest.fixture
def state():
    return State(groups={("acme", "dev"): GovernanceObject(DEV, 1)})


def test_members_and_service_accounts_are_in_a_group_and_others_are_not(state):
    assert [is_member(state, "acme", "dev", user, 0) for user in ("alice", "ci", "eve")] == [True, True, False]
    assert not is_member(state, "acme", "none", "alice", 0)
    assert not is_member(state, "rival", "dev", "alice", 0)


def test_a_providers_word_counts_before_the_document_while_it_holds(state):
    state.tokens.claims["acme", "eve"] = GroupClaims(("dev", "gone"), 1, 100)
    state.tokens.claims["acme", "alice"] = GroupClaims((), 1, 100)
    assert [is_member(state, "acme", "dev", user, 99) for user in ("alice", "eve")] == [False, True]
    assert not is_member(state, "acme", "gone", "eve", 99)
    assert [is_member(state, "acme", "dev", user, 100) for user in ("alice", "eve")] == [True, False]


def test_a_group_trusts_service_accounts_of_its_own_with_its_members_alone(state):
    cases = {
        ("ci", "alice"): True,
        ("cd", "alice"): False,
        ("ci", "eve"): False,
        ("ci", "cd"): False,
        ("alice", "alice"): False,
    }
    assert {pair: may_act(state, "acme", "dev", *pair, 0) for pair in cases} == cases
    assert not may_act(state, "acme", "", "ci", "alice", 0)


@pytest.mark.parametrize(
    ("access", "may"),
    [
        (Access(), True),
        (Access(allow=("acme",)), True),
        (Access(allow=("acme/dev",)), True),
        (Access(allow=("rival",)), False),
        (Access(deny=("acme/dev",)), False),
        (Access(allow=("acme",), deny=("acme/dev",)), False),
        (Access(deny=("rival",)), True),
    ],
)
def test_a_pool_lets_in_whom_it_allows_and_does_not_deny(access, may):
    assert may_enter(Hall(access=access).pool, "acme", "dev") is may
