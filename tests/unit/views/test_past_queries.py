"""Answers about the past."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headrace.contracts.messages.history import DiffRequest, LedgerPoint, PastRequest
from headrace.contracts.transport.codec import encode
from headrace.service.answering import Refused
from headrace.views import past_queries as module
from headrace.views.past_queries import PastQueries
from headrace.views.state_at import Past
from headrace.views.visibility import ALL_TENANTS


@pytest.fixture
def then(hall):
    hall.admit(hall.job(1))
    return PastQueries(Past(hall.log), hall.log, lambda: hall.now)


async def test_a_tenant_asks_as_itself_and_the_provider_as_all_tenants(then, hall):
    hall.admit(hall.job(2, "rival", "mallory"))
    request = encode(PastRequest())
    own = await then.handlers()["state"]("acme", "alice", request)
    everybodys = await then.handlers(ALL_TENANTS)["state"]("acme", "root", request)
    assert ([job.job for job in own.jobs], len(everybodys.jobs)) == ([hall.job(1)], 2)
    request = encode(DiffRequest(before=LedgerPoint(sequence=2)))
    assert {one.kind for one in (await then.handlers()["diff"]("rival", "mallory", request)).changes} == {"job"}


async def test_the_earlier_point_comes_first(then):
    with pytest.raises(Refused, match="record 3 comes after record 2: name the earlier one first"):
        await then.diff("acme", DiffRequest(before=LedgerPoint(sequence=3), after=LedgerPoint(sequence=2)))


async def test_only_one_looks_into_states_of_the_past_at_a_time(then, monkeypatch):
    second, view = threading.Barrier(2), module.past_view

    def looks(*args):
        """Waits for a second one that looks at the same time."""
        with pytest.raises(threading.BrokenBarrierError):
            second.wait(0.1)
        return view(*args)

    monkeypatch.setattr(module, "past_view", looks)
    views = await asyncio.gather(*(then.state("acme", PastRequest(limit=limit)) for limit in (1, 2)))
    assert [len(view.jobs) for view in views] == [1, 1]


async def test_what_does_not_fit_in_one_answer_is_told(then, monkeypatch):
    monkeypatch.setattr(module, "MESSAGE_BYTES_MAX", module.ENVELOPE + 10)
    with pytest.raises(Refused, match="limit: 1 jobs and the rest are [0-9]+ bytes"):
        await then.state("acme", PastRequest())
