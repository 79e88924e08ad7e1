"""A pool: its index knows its document, and what leases hold in it is what counts plus what stands apart."""

from __future__ import annotations

from headrace.contracts.documents.model import Owner
from headrace.contracts.values.amounts import GPU
from headrace.domain.state.pools import FailedSearch, PoolState
from tests.unit.domain.site import pool


def test_the_index_knows_the_document_in_force():  # R21
    first, second = pool(), pool(dedicated_to=Owner(tenant="ops"))
    hall = PoolState(first, 1)
    seen = [hall.index.document]
    hall.set_document(second, 2)
    assert [*seen, hall.index.document] == [first, second]
    assert (hall.document, hall.revision) == (second, 2)


def test_what_leases_hold_is_what_is_used_and_what_stands_apart():  # R17
    hall = PoolState(pool(), 1, use={GPU: 3})
    seen = [hall.leased]
    hall.leased_minus_use[GPU] = -1
    assert [*seen, hall.leased] == [{GPU: 3}, {GPU: 2}]


def test_two_searches_that_found_the_same_are_two():
    assert FailedSearch(1, 0, None) != FailedSearch(1, 0, None)
