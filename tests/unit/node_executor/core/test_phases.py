"""The steps that all rules share."""

from __future__ import annotations

import pytest

from headrace.contracts.facts import LeaseRungV1
from headrace.contracts.facts.fact import Ladder
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.phases import Lease, Phase, enter, kill, no_later, rung, set_timer


@pytest.fixture
def lease(make_order) -> Lease:
    return Lease(make_order())


def test_a_phase_begins_without_a_timer(lease) -> None:
    out: list[v.Action] = []
    set_timer(lease, 50, out)
    assert (out, lease.deadline) == ([v.SetTimer(lease.id, 50)], 50)
    enter(lease, Phase.TERM, 7)
    assert (lease.phase, lease.since, lease.deadline) == (Phase.TERM, 7, 0)


def test_nothing_lasts_longer_than_the_executor(lease) -> None:
    assert no_later(lease, 90) == 90
    lease.limit = 60
    assert (no_later(lease, 90), no_later(lease, 30)) == (60, 30)


def test_a_rung_tells_how_long_its_phase_took_and_without_a_ladder_no_time_is_told(lease) -> None:
    out: list[v.Action] = []
    rung(lease, "term", 9, "left", out)
    assert out == []
    lease.ladder = Ladder(cause="cancelled", callback_grace=0, term_grace=0)
    enter(lease, Phase.TERM, 4)
    rung(lease, "term", 9, "left", out)
    order = lease.order
    fact = LeaseRungV1(job=order.job, attempt=order.attempt, rank=order.rank, rung="term", at=9, took=5, result="left")
    assert out == [v.State(fact)]


def test_killed_is_killed(lease) -> None:
    out: list[v.Action] = []
    kill(lease, 3, out)
    assert (out, lease.phase, lease.killed) == ([v.Kill(lease.id)], Phase.KILL, True)
