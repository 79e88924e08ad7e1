"""What can be placed in a pool now, and whose units others might take back."""

from __future__ import annotations

import pytest

from headrace.allocator.candidate_index import CandidateIndex
from headrace.allocator.pool_requests import PoolRequests
from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU_UNITS
from tests.unit.allocator.history import History, gpus, policy


def requests_of(history: History) -> PoolRequests:
    index = CandidateIndex(history.state)
    index.refresh()
    return index.queues["hall"]


def test_what_is_placeable_is_what_some_node_takes():
    history = History(policy("a"))
    history.node(count=1)
    history.admit("a/one")
    history.admit("a/two")
    history.admit("a/half", replicas=3)
    index = CandidateIndex(history.state)
    index.refresh()
    queue = index.queues["hall"]

    assert [queue.placeable() for _ in range(2)] == [0b101, 0b101]
    history.state.nodes["n1"].devices[0].free -= GPU_UNITS // 2
    history.state.pools["hall"].index.put(history.state.nodes["n1"])
    assert queue.placeable() == 0b100


def test_who_asks_for_what_was_asked_for_before_changes_nothing_about_what_is_placeable():
    history = History(policy("a"))
    history.node(count=1)
    first = history.admit("a/one")
    index = CandidateIndex(history.state)
    index.refresh()
    queue = index.queues["hall"]
    queue.placeable()
    remembered = {owners: dict(known) for owners, known in queue.placeable_by_owners.items()}
    history.state.pending.remove(first)
    index.refresh()
    history.admit("a/one")
    index.refresh()

    assert queue.placeable_by_owners == remembered


SHARES = (d.Share(pool="hall", reservation=gpus(2)),)


@pytest.mark.parametrize(
    ("holder", "tenants", "lends"),
    [
        pytest.param("a", (), ["b"], id="nobody takes from itself"),
        pytest.param("b", (), ["a"], id="another policy"),
        pytest.param("theirs", (), ["a", "b"], id="without shares tenants do not matter"),
        pytest.param(
            "theirs", (d.Tenant(name="acme", shares=SHARES),), [], id="inside its share a tenant lends nothing to others"
        ),
    ],
)
def test_to_whom_something_is_lent(holder, tenants, lends):  # R23, R24
    history = History(policy("a"), policy("b"), policy("theirs", tenant="acme"), tenants=tenants)
    history.node(count=4)
    history.run(f"{holder}/two", tenant="acme" if holder == "theirs" else "default")
    for queue in ("a/one", "b/one"):
        history.admit(queue)
    queue = requests_of(history)
    asking = [history.state.policies["default", name] for name in ("a", "b")]

    assert [by.document.name for by in asking if queue.lends_within(by) or queue.lends_across(by)] == lends


def test_a_tenant_above_its_share_lends_to_other_tenants():
    shares = (d.Share(pool="hall", reservation=gpus(1)),)
    history = History(policy("a"), policy("theirs", tenant="acme"), tenants=(d.Tenant(name="acme", shares=shares),))
    history.node(count=4)
    history.run("theirs/two", tenant="acme")
    history.admit("a/one")

    assert requests_of(history).lends_across(history.state.policies["default", "a"])
