"""Which set of jobs has to yield (R26): a legal, sufficient and minimal set of victims, or the reason why no set exists.

Preemption searches with it to propose; the allocator checks a proposal with it before it accepts.

Who may be taken at all is said by `eligibility`, in which order by `eligible`, which of them together by `legality`, how a set is found
by `sweeps`.
Nothing in the state is changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.facts.preemption import Victim
from headrace.contracts.values.amounts import GPU_UNITS, add_to, plus
from headrace.domain.backfill.holds import as_seen_by, fits_without_holds
from headrace.domain.model.job_states import JobState
from headrace.domain.model.requests import choice_at
from headrace.domain.placement.placement import may_hold
from headrace.domain.preemption.eligibility import (
    can_leave,
    can_yield,
    causes,
    counts_as_idle,
    kind_of,
    may_take_from,
    protected_until,
    short_keys,
)
from headrace.domain.preemption.search_in_domains import find_in_domains, leaving_suffices
from headrace.domain.preemption.victim_candidates import VictimCandidates
from headrace.domain.preemption.victim_search import SearchContext, find
from headrace.domain.state.capacity import held_by
from headrace.domain.state.quota import limits_of, over_limit, policy_scope, user_scope
from headrace.domain.state.topology import required_domains, stand_together
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from headrace.contracts.facts.fact import Place
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.preemption.eligibility import VictimGroup
    from headrace.domain.preemption.victim_search import VictimSet
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

VICTIMS_MAX = 3_000
"""Jobs that yield to one preemptor: they and its places stand in one record (R26)."""
FITS_NOW = "there is room for it"
LEAVING = "what is leaving already makes room for it"
"""Reasons that are the whole answer, because no job has to be taken by either cause."""


class VictimPlan(NamedTuple):
    """Victims in the order in which they are taken, where the preemptor goes, and by which cause (R23)."""

    cause: str
    victims: tuple[Victim, ...]
    places: tuple[Place, ...]


class NoPlan(NamedTuple):
    """Why no job is taken. `protected` candidates may be taken from `retry_at` on."""

    why: str
    protected: int = 0
    retry_at: int | None = None


def search(state: State, job: JobRecord, pool: PoolState, now: int) -> VictimPlan | NoPlan:
    """The best plan for `job` in `pool` at log time `now`: by reclaim if its side is within its reservation, else by priority.

    For a job that asks for GPU memory, the one for the first of the GPU models with one (R42).
    """
    none: NoPlan | None = None
    for request in job.request.each:
        with Trial(state) as trial:
            trial.choose(job, request)
            found = _search(state, job, pool, now)
        if isinstance(found, VictimPlan) or found.why in (FITS_NOW, LEAVING):
            return found
        none = found if none is None else _both(none, found)
    return none or NoPlan("it asks for nothing")


def _search(state: State, job: JobRecord, pool: PoolState, now: int) -> VictimPlan | NoPlan:
    if _at_own_limit(state, job, pool):
        return NoPlan("its own limit is in the way")
    none: NoPlan | None = None
    with as_seen_by(state, job, pool, now):
        for cause in causes(state, job, pool):
            found = NoPlan(FITS_NOW) if _fits_within_limits(state, job, pool) else _search_by(state, job, pool, cause, now)
            if isinstance(found, VictimPlan) or found.why in (FITS_NOW, LEAVING):
                return found
            none = found if none is None else _both(none, found)
    return none or NoPlan("it may not take anything back: beyond its reservation")


def _both(first: NoPlan, second: NoPlan) -> NoPlan:
    """No victims by either cause: the first one's reason, and the first moment at which either might find some."""
    moments = [moment for moment in (first.retry_at, second.retry_at) if moment is not None]
    return NoPlan(first.why, max(first.protected, second.protected), min(moments, default=None))


def _fits_within_limits(state: State, job: JobRecord, pool: PoolState) -> bool:
    """True if no victim is needed: since the search opened, enough was freed for the job, within its limits.

    Where a limit has no room before those have left who yield already (R17), it has only to wait for them.
    """
    limits = limits_of(state, job, pool.document.name)
    if over_limit(limits, pool.governed, job.request.total, beyond=job.beyond) is not None or _is_share_stuck(state, job, pool):
        return False
    return fits_without_holds(state, job, pool)


def _at_own_limit(state: State, job: JobRecord, pool: PoolState) -> bool:
    """A policy's own limit, and that of each user, never preempts; under its tenant's, reclaim inside the tenant may make room (R23).

    What its own yielding jobs still hold past their grace counts, because it is unknown when they leave (R17).
    """
    name, policy, user = pool.document.name, job.policy, user_scope(job.policy, job.user)
    own = (policy.wide, policy_scope(policy, name))
    for scope in own if user is None else (*own, user):
        asked = job.request.total
        if scope.leased_minus_use and state.terms.amended:
            whose = job.user if scope is user else ""
            asked = plus(asked, _overdue(policy, name if scope is own[1] else "", asked, whose))
        if over_limit((scope,), pool.governed, asked, beyond=job.beyond) is not None:
            return True
    return False


def _is_share_stuck(state: State, job: JobRecord, pool: PoolState) -> bool:
    """Whether the tenant's limit has no room beside what its jobs hold past their grace, because it is unknown when they leave (R17)."""
    share = state.shares.get((job.tenant, pool.document.name))
    if share is None or not share.leased_minus_use or not pool.overdue or not state.terms.amended:
        return False
    asked = job.request.total
    for policy in state.policies.values():
        if policy.document.tenant == job.tenant:
            asked = plus(asked, _overdue(policy, pool.document.name, asked))
    return over_limit((share,), pool.governed, asked) is not None


def _overdue(policy: PolicyState, pool: str, asked: Amounts, user: str = "") -> Amounts:
    """What jobs of a policy that yield and are overdue hold of the keys that are asked for, in a pool, of a user; empty: of any."""
    found: Amounts = {}
    for job in policy.jobs.values():
        for lease in job.leases.values() if job.yields_to and user in ("", job.user) else ():
            if lease.overdue and pool in ("", lease.pool):
                add_to(found, {key: amount for key, amount in held_by(lease).amounts.items() if asked.get(key)})
    return found


def _search_by(state: State, job: JobRecord, pool: PoolState, cause: str, now: int) -> VictimPlan | NoPlan:
    short = short_keys(state, job, pool)
    eligible = VictimCandidates(state, job, pool, cause, short, now)
    if not eligible.more():
        return NoPlan("nobody here holds borrowed units that would help", *eligible.protected())
    context = SearchContext(state, job, pool, cause)
    domains = required_domains(pool, job.request)
    if state.ladders.moments and (
        context.places((), context.usable()) is not None if domains is None else leaving_suffices(context, domains)
    ):
        return NoPlan(LEAVING)
    found = find(context, eligible) if domains is None else find_in_domains(context, eligible, domains)
    if found is None:
        given_up = "; not all sets were tried" if context.effort_left <= 0 else ""
        return NoPlan(f"no set of borrowed units, taken together, makes room for it{given_up}", *eligible.protected())
    if len(found.victims) > VICTIMS_MAX:
        return NoPlan(f"more than {VICTIMS_MAX:,} jobs would have to yield to it", *eligible.protected())
    return _plan(cause, found)


def _plan(cause: str, found: VictimSet) -> VictimPlan:
    victims = tuple(
        Victim(
            job=candidate.job.key,
            attempt=candidate.job.attempt,
            policy="/".join(candidate.job.policy.key),
            lost=candidate.lost // GPU_UNITS,
        )
        for candidate in found.victims
    )
    return VictimPlan(cause, victims, found.places)


def review(state: State, job: JobRecord, pool: PoolState, plan: VictimPlan, now: int) -> tuple[Place, ...] | str:
    """The places of a proposed plan as they are now, or why it may no longer be carried out: not legal, not sufficient (R26)."""
    place = plan.places[0]
    node, units = state.nodes.get(place.node), sum(share.units for share in place.devices)
    mig = place.devices[0].mig if place.devices else ""
    with Trial(state) as trial:
        trial.choose(job, choice_at(job.request, node.model if node is not None else "", units, mig))
        with as_seen_by(state, job, pool, now):
            return _review(state, job, pool, plan, now)


def _review(state: State, job: JobRecord, pool: PoolState, plan: VictimPlan, now: int) -> tuple[Place, ...] | str:
    if job.state is not JobState.PENDING or job.nomination is not None:
        return "the preemptor waits no longer"
    if plan.cause not in causes(state, job, pool):
        return "the preemptor may no longer take anything back"
    if _at_own_limit(state, job, pool):
        return "the preemptor is at its limit"
    short = short_keys(state, job, pool)
    away = {node.name for node in pool.nodes.values() if not node.healthy}
    gone: list[JobRecord] = []
    kinds: list[VictimGroup] = []
    known: dict[tuple[object, ...], VictimGroup] = {}
    for victim in plan.victims:
        found = state.jobs.get(victim.job)
        if found is not None and not can_leave(found, away):
            return f"a node of {victim.job} is away"
        if found is None or found.attempt != victim.attempt or not can_yield(found, pool.document.name):
            return f"{victim.job} is no longer there to yield"
        until = protected_until(found)
        if until is None or until > now:
            return f"{victim.job} is protected by its minimum run time"
        if not may_take_from(state, job, found.policy, pool, plan.cause):
            return f"{victim.job} need not yield to it any more"
        gone.append(found)
        idle = counts_as_idle(found, plan.cause)
        key = (found.policy, found.request, idle)
        if key not in known:
            known[key] = kind_of(state, job, pool, short, found.policy, found.request, idle=idle)
        kinds.append(known[key])
    if _fits_within_limits(state, job, pool):
        return FITS_NOW
    context = SearchContext(state, job, pool, plan.cause)
    names = dict.fromkeys(place.node for place in plan.places)
    nodes = [pool.nodes[name] for name in names if name in pool.nodes and may_hold(pool, pool.nodes[name], job)]
    is_one_place = len(nodes) == len(names) and stand_together(pool, job.request, names)
    places = context.places(gone, nodes) if is_one_place else None
    if places is None:
        return "it is no longer sufficient"
    return places if context.taken(kinds).is_allowed() else "it is no longer legal"
