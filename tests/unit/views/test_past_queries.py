"""Answers about the past."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headrace.contracts.messages.history import DiffRequest, LedgerPoint
from headrace.service.answering import Refused
from headrace.views.past_queries import PastQueries
from headrace.views.state_at import PastStates
from headrace.views.visibility import ALL_TENANTS


@pytest.fixture
def then(hall):
    hall.admit(hall.job(1))
    return PastQueries(PastStates(hall.log), hall.log, lambda: hall.now)


async def test_a_tenant_sees_its_own_changes_and_the_provider_all(then, hall):
    hall.admit(hall.job(2, "rival", "mallory"))
    request = DiffRequest(before=LedgerPoint(sequence=2))
    found = {tenant: await then.diff(tenant, request) for tenant in ("rival", ALL_TENANTS)}
    assert {tenant: sum(one.kind == "job" for one in view.changes) for tenant, view in found.items()} == {
        "rival": 1,
        ALL_TENANTS: 2,
    }


async def test_the_earlier_point_comes_first(then):
    with pytest.raises(Refused, match="record 3 comes after record 2: name the earlier one first"):
        await then.diff("acme", DiffRequest(before=LedgerPoint(sequence=3), after=LedgerPoint(sequence=2)))


async def test_only_one_looks_into_states_of_the_past_at_a_time(then):
    second = threading.Barrier(2)

    def looks(number):
        """Waits for a second one that looks at the same time."""
        with pytest.raises(threading.BrokenBarrierError):
            second.wait(0.1)
        return number

    assert await asyncio.gather(*(then.run(looks, number) for number in (1, 2))) == [1, 2]
