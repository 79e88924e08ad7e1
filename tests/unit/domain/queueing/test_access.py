"""R12: who may use a queue, and enter a pool."""

import pytest

from headrace.contracts.documents import Access, Group
from headrace.domain.queueing.access import is_member, may_enter
from tests.unit.domain.hall import Hall


def test_members_and_service_accounts_are_in_a_group_and_nobody_is_in_none():
    group = Group(name="dev", members=("alice",), service_accounts=("ci",))
    assert [is_member(group, user) for user in ("alice", "ci", "eve")] == [True, True, False]
    assert not is_member(None, "alice")


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
