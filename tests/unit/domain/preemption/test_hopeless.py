"""A search ends before it begins where all victims together may not lose enough (R24, R26)."""

from __future__ import annotations

import pytest

from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.domain.placement.placement_after_preemption import AccountShortage
from headrace.domain.preemption.hopeless import is_hopeless
from tests.unit.domain.preemption.lenders import QUARTERS, context, lent


@pytest.mark.parametrize(
    ("reserved", "lacks", "hopeless"),
    [
        pytest.param(0, 8, False, id="all of it is borrowed"),
        pytest.param(6, 2, False, id="two are"),
        pytest.param(6, 3, True, id="three would be one more than is borrowed"),
    ],
)
def test_an_account_lacks_more_than_all_sides_may_lose(reserved, lacks, hopeless):
    hall, job = lent(*QUARTERS, lender=reserved)
    _, eligible = context(hall, job)
    assert is_hopeless([AccountShortage({GPU: lacks * GPU_UNITS}, "", {})], eligible) is hopeless


def test_a_search_is_never_hopeless_where_no_account_lacks_anything():
    hall, job = lent(*QUARTERS, lender=6)
    _, eligible = context(hall, job)
    assert not is_hopeless([], eligible)
