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


async def quiet() -> None:
    """Until nothing is read ahead."""
    while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(tasks)


async def test_after_a_step_back_the_next_ones_are_read_ahead(hall, called):
    for number in range(1, 20):
        hall.admit(hall.job(number))
    counting, tip = Counting(), await hall.log.tip()
    overviews = PastOverviews(counting)
    made = []
    for sequence in range(tip, tip - 10, -1):
        found = await overviews.at(LedgerPoint(sequence=sequence), called())
        assert found == await naive(hall, sequence, "", {})
        await quiet()
        made.append([one - tip for one, _ in counting.made])
        counting.made.clear()
    assert made == [[0], [-1, *range(-9, -1)], [], [], [], [], [-14, -13, -12, -11, -10], [], [], []]


async def test_a_step_back_that_is_being_read_ahead_is_waited_for_and_made_once(hall, called):
    for number in range(1, 20):
        hall.admit(hall.job(number))
    counting, tip = Counting(), await hall.log.tip()
    overviews = PastOverviews(counting)
    for sequence in (tip, tip - 2, tip - 4, tip - 6):
        assert await overviews.at(LedgerPoint(sequence=sequence), called()) == await naive(hall, sequence, "", {})
    await quiet()
    assert [one - tip for one, _ in counting.made] == [0, -2, *range(-18, -2, 2)]


async def test_what_is_read_ahead_in_vain_is_given_up(hall, called):
    for number in range(1, 60):
        hall.admit(hall.job(number))
    counting, tip = Counting(), await hall.log.tip()
    overviews = PastOverviews(counting)
    for sequence in (tip, tip - 1, 40, 39):
        await overviews.at(LedgerPoint(sequence=sequence), called())
    await quiet()
    made = [one for one, _ in counting.made]
    assert made[:2] == [tip, tip - 1]
    assert made[-8:] == [*range(31, 39)]
    assert set(range(tip - 9, tip - 1)) - set(made), "the first ones were not all made"


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
    for number in range(1, 40):
        hall.admit(hall.job(number))
    monkeypatch.setattr(module, "KEPT", 2)
    counting, tip = Counting(), await hall.log.tip()
    overviews = PastOverviews(counting)

    async def makes(sequence: int) -> list[int]:
        """The moments whose overviews are made for this one, and ahead of the next."""
        counting.made.clear()
        await overviews.at(LedgerPoint(sequence=sequence), called())
        await quiet()
        return [one - tip for one, _ in counting.made]

    assert [await makes(tip - number) for number in (0, 1)] == [[0], [-1, *range(-9, -1)]]
    assert await makes(tip - 2) == [*range(-10, -3)], "two were kept, one of them is the next step's"
    monkeypatch.setattr(module, "KEPT_FOR", 0.0)
    assert await makes(tip - 5) == [*range(-29, -7, 3)]
    await asyncio.sleep(0.01)
    assert await makes(tip - 5) == [-5]
