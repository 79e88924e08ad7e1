"""How long units are kept for a job that has waited for room, and to whom they are lent meanwhile (R16).

From `backfill_for` on, counted from when the job last became pending, they are kept without end where what stands in the way surely ends
(`surely`). Behind anything else they are kept for the pool's `keep_for`, then not for a rest of the same length, which doubles each time up
to a day. All moments are computed from the job and the pool's document; no fact records them. Below the amended level units are kept
without end behind whatever may end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.durations import DAY
from headrace.domain.backfill.backfill_placement import awaited_places, occupants, still_awaited
from headrace.domain.backfill.certain_placement import (
    free_at,
    sums_suffice,
    surely_awaited,
    surely_awaited_places,
)
from headrace.domain.model.maintenance import end_of
from headrace.domain.queueing.fairness_sides import lends_as, share_side, side_below, stays_within
from headrace.domain.queueing.gates import may_borrow, must_borrow
from headrace.domain.queueing.ranking import may_hold_inside
from headrace.domain.state.quota import is_above, policy_side
from headrace.domain.state.topology import stand_together

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Pool
    from headrace.contracts.facts.fact import Place
    from headrace.domain.backfill.backfill_placement import Occupancy
    from headrace.domain.backfill.certain_placement import Takes
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.model.preemption_state import Hold
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

PAUSE_MAX = DAY
NOT_LENT = 0
"""In place of a moment: all leases would end after it."""


class HoldTurn(NamedTuple):
    """Whether units are kept at a moment behind leases with an unknown end, and until when that holds; None: for ever."""

    keeps: bool
    until: int | None


ALWAYS = HoldTurn(keeps=True, until=None)
"""The turn of all jobs below the amended level."""


def turn_of(pool: Pool, since: int, now: int) -> HoldTurn:
    """The turn at log time `now` for a job that became pending at `since`."""
    start, keep_for = since + pool.backfill_for, pool.keep_for
    if now < start:
        return HoldTurn(keeps=False, until=start)
    if not keep_for:
        return HoldTurn(keeps=False, until=None)
    pause = min(keep_for, PAUSE_MAX)
    while True:
        if pause == PAUSE_MAX:  # from here on all turns are alike
            start += (now - start) // (keep_for + pause) * (keep_for + pause)
        if now < start + keep_for:
            return HoldTurn(keeps=True, until=start + keep_for)
        start += keep_for + pause
        if now < start:
            return HoldTurn(keeps=False, until=start)
        pause = min(2 * pause, PAUSE_MAX)


def takes_of(state: State, job: JobRecord, pool: PoolState) -> Takes:
    """The policies from which the job may take in a pool, by reclaim or by priority (R23), and on which keys that it asks for (R24)."""
    mine, name = job.policy, pool.document.name
    lower = mine.document.preemption.preempt_lower_priority
    sides = () if must_borrow(mine) else (policy_side(mine, name), share_side(state, mine, pool))
    if not lower and not any(side and stays_within(side, job, pool) for side in sides):
        return {}
    if not may_borrow(job) and not may_hold_inside(state, job, pool):
        return {}
    asked = [key for key, amount in job.request.total.items() if amount and key in pool.governed]
    takes: dict[PolicyState, tuple[str, ...]] = {}
    for theirs in state.policies.values():
        held = theirs.scopes.get(name)
        if theirs is mine or held is None or not theirs.jobs:
            continue
        by_priority = lower and theirs.document.tenant == job.tenant and theirs.document.priority < mine.document.priority
        if not by_priority and (not sides or not stays_within(side_below(state, mine, theirs, pool), job, pool)):
            continue
        side = lends_as(state, theirs, mine, pool)
        keys = tuple(key for key in asked if held.leased.get(key) and is_above(side, key))
        if keys:
            takes[theirs] = keys
    return takes


def places_to_keep(
    state: State, job: JobRecord, pool: PoolState, now: int, on: Occupancy = occupants
) -> tuple[Place, ...] | None:
    """The places to keep for a job that is due and has no room: places that surely come free before others; None without any now."""
    if not state.terms.amended:
        return awaited_places(state, job, pool, on)
    places = surely_awaited_places(state, job, pool, takes_of(state, job, pool), on)
    if places is not None or not turn_of(pool.document, job.pending_since, now).keeps:
        return places
    return awaited_places(state, job, pool, on)


def is_still_kept(state: State, hold: Hold, now: int, on: Occupancy = occupants) -> bool:
    """Whether the kept places are to be had, and time is not up for what nothing is known to end of."""
    pool, job = state.pools[hold.pool], hold.job
    if not stand_together(pool, job.request, {place.node for place in hold.places}):
        return False
    if not state.terms.amended or turn_of(pool.document, job.pending_since, now).keeps:
        return still_awaited(pool, hold.places, on)
    return surely_awaited(job, pool, hold.places, takes_of(state, job, pool), on)


def next_turn(state: State, hold: Hold, now: int) -> int | None:
    """When the keep may end by time alone."""
    if not state.terms.amended or hold.pool not in state.pools:
        return None
    return turn_of(state.pools[hold.pool].document, hold.job.pending_since, now).until


class Keep(NamedTuple):
    """What is known of a hold.

    `lent_until`: jobs that end by then may use the units; `kept_until`: when they are let go (None: not by time).
    """

    lent_until: int
    kept_until: int | None


def keep_of(state: State, hold: Hold, now: int, on: Occupancy = occupants) -> Keep:
    """Until when the units of a hold may be lent, and are kept.

    They are lent until the job could start by time limits and graces; if that time is unknown, until the keep ends; if the job
    may take what is in its way, they are not lent.
    """
    pool, job = state.pools[hold.pool], hold.job
    if not state.terms.amended:
        return Keep(NOT_LENT, None)
    known = free_at(state, hold.places, {}, on)
    if known is not None and sums_suffice(job, pool, hold.places, {}, on):
        return Keep(known, None)
    takes = takes_of(state, job, pool)
    if takes and free_at(state, hold.places, takes, on) is not None and sums_suffice(job, pool, hold.places, takes, on):
        return Keep(NOT_LENT, None)
    until = turn_of(pool.document, job.pending_since, now).until
    return Keep(until or NOT_LENT, until)


def ends_at(state: State, job: JobRecord, now: int) -> int | None:
    """When a job would have ended by its time limit and grace if it were granted now; None: it has none, so nothing is lent to it."""
    return end_of(job, now) if state.terms.amended else None


def is_lent_to(state: State, hold: Hold, job: JobRecord, now: int) -> bool:
    """Whether the job may use the units of the hold, because it has ended before they are needed."""
    end = ends_at(state, job, now)
    return end is not None and end <= keep_of(state, hold, now).lent_until
