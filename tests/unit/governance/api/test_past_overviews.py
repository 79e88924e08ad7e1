"""Overviews at moments of the past: steps in any direction give what a fold from the beginning gives."""

from __future__ import annotations

import asyncio
import random
from types import SimpleNamespace

import pytest

from headrace.contracts.messages.history import LedgerPoint
from headrace.domain.state.state import State
from headrace.governance.api import past_overviews as module
from headrace.governance.api.context import CallContext
from headrace.governance.api.overview import overview_of
from headrace.governance.api.past_overviews import PastOverviews
from headrace.identity.caller import Caller, Role
from headrace.views.job_index import queue_counts
from headrace.views.past_queries import PastQueries
from headrace.views.state_at import PastStates
from tests.unit.feed.conftest import hall, policy_of, story

__all__ = ["hall", "policy_of", "story"]


class Counting:
    """Makes overviews, and counts them."""

    def __init__(self) -> None:
        self.made = []

    def __call__(self, state, tenant, now):
        self.made.append((state.sequence, tenant))
        return overview_of(state, queue_counts(state), tenant, now)


@pytest.fixture
def erased():
    """People who were erased by now."""
    return {}


@pytest.fixture
def called(hall, erased):
    """A call of the provider, or of an administrator of acme."""
    past = PastQueries(PastStates(hall.log, erased=erased), hall.log, lambda: 2**60)
    state = State()
    state.tokens.erased = erased
    backend = SimpleNamespace(past_queries=past, state=state)

    def call(role=Role.PROVIDER_ADMIN) -> CallContext:
        return CallContext(Caller(role, "acme", "boss"), "GetOverview", 30.0, backend)

    return call


async def naive(hall, sequence: int, tenant: str, erased):
    tip = await hall.log.tip()
    state = await PastStates(hall.log, erased=erased).behind(sequence, 0, tip)
    found = overview_of(state, queue_counts(state), tenant, state.now)
    found.tip = str(tip)
    return found


async def test_steps_back_are_made_on_the_way_of_the_first_one(hall, called):
    for number in range(1, 20):
        hall.admit(hall.job(number))
    counting, tip = Counting(), await hall.log.tip()
    overviews = PastOverviews(counting)
    for sequence in range(tip, tip - 10, -1):
        found = await overviews.at(LedgerPoint(sequence=sequence), called())
        assert found == await naive(hall, sequence, "", {})
    one, next_ones = [tip], [*range(tip - 1 - module.STEPS, tip)]
    assert [sequence for sequence, _ in counting.made[: 2 + module.STEPS]] == one + next_ones
    assert len(counting.made) == 2 + module.STEPS


async def test_moments_by_chance_while_records_arrive_are_those_of_a_fold_from_the_beginning(hall, called, erased):
    chance, overviews, number = random.Random(3), PastOverviews(Counting()), 0
    at = 2
    for _ in range(80):
        if chance.random() < 0.4:
            number += 1
            hall.admit(hall.job(number, *chance.choice(((), ("rival", "mallory")))))
        if number == 9:
            erased["acme", "alice"] = "erased-1"
        tip = await hall.log.tip()
        at = min(tip, max(1, at + chance.choice((-5, -3, -2, -1, -1, 1, 1, 4))))
        role, tenant = chance.choice(((Role.PROVIDER_ADMIN, ""), (Role.TENANT_ADMIN, "acme")))
        assert await overviews.at(LedgerPoint(sequence=at), called(role)) == await naive(hall, at, tenant, erased)


async def test_what_is_kept_is_bounded_and_dropped_when_no_question_comes(hall, called, monkeypatch):
    for number in range(1, 9):
        hall.admit(hall.job(number))
    monkeypatch.setattr(module, "KEPT", 2)
    counting, tip = Counting(), await hall.log.tip()
    overviews = PastOverviews(counting)

    async def makes(sequence: int) -> int:
        """Number of overviews that this one takes."""
        before = len(counting.made)
        await overviews.at(LedgerPoint(sequence=sequence), called())
        return len(counting.made) - before

    assert [await makes(tip - number) for number in (0, 1, 2, 3)] == [1, 1 + module.STEPS, 0, 0]
    monkeypatch.setattr(module, "KEPT_FOR", 0.0)
    assert await makes(tip - 2) == 0
    await asyncio.sleep(0.01)
    assert await makes(tip - 2) == 1
