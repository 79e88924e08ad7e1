"""The one cheapest change that would start a waiting job (R22), found by trying: never guessed. Pure.

Strategy: a change makes a job that is not there, which is held against the rules as the real one is (`waits`), and counts only if in some
pool of its order nothing is in its way. They are tried in the order of what they cost its owner: to wait a little, to have a time limit
that ends before maintenance, to ask for fewer GPUs, another profile of the same policy, to be preemptible, another queue, a node to be
uncordoned, to wait longer. What a trial changes in the state is put back.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from headrace.contracts.messages.explanation import ChangeView
from headrace.contracts.values.amounts import GPU, GPU_MEMORY, GPU_UNITS, format_amount, format_amounts
from headrace.contracts.values.durations import MINUTE, format_duration
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.explain.availability import cause_text, out_of_service
from headrace.domain.explain.maintenance_reasons import shorter_limits
from headrace.domain.explain.wait_reasons import pools_of, wait_in
from headrace.domain.model.nodes import SELF
from headrace.domain.model.requests import asked_of, is_steady, make_request
from headrace.domain.preemption.eligibility import RECLAIM, causes
from headrace.domain.preemption.victims import VictimPlan, search
from headrace.domain.queueing.access import is_member
from headrace.domain.queueing.admissible import Rejection, models_that_fit, never_fits
from headrace.domain.queueing.queue_position import groups_ahead
from headrace.domain.state.gpu_shares import most_of, with_share
from headrace.domain.state.quota import open_user
from headrace.domain.state.trial import Trial, holding_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.contracts.documents.model import Profile
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.explain.forecast import Forecast
    from headrace.domain.explain.wait_reasons import Wait
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.requests import Request
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

A_LITTLE = 5 * MINUTE
"""To wait so long costs less than any change."""
QUEUES_TRIED = 50
HOLDERS_TRIED = 100
NODES_TRIED = 20
FRACTIONS = tuple(GPU_UNITS * part // 20 for part in (15, 10, 5, 4, 2, 1))
"""Parts of a GPU that are tried, from 3/4 down to 1/20."""

_ONLY_TIME_HELPS = frozenset({WaitReason.DEPENDENCY, WaitReason.AT_ARRAY_LIMIT, WaitReason.WAITING_FOR_PREEMPTION})


def cheapest_change(
    state: State, job: JobRecord, pools: Sequence[PoolState], wait: Wait, forecast: Forecast, now: int
) -> ChangeView | None:
    """The change, and the start it would give; None if no tried change would start it."""
    waiting = _waiting(job, forecast)
    if wait.reason in _ONLY_TIME_HELPS or (waiting is not None and (waiting.start or 0) - now <= A_LITTLE):
        return waiting
    for change, changed in _changes(state, job):
        other = _submitted_now(state, changed, now)
        with Trial(state) as trial:
            _release_own(trial, state, job, other)
            _open_account(trial, other)
            pool = _starts_in(state, other, now)
        if pool is not None:
            return msgspec.structs.replace(change, start=now, pool=pool)
    return _uncordoned(state, job, pools, now) or waiting or _without_one(state, job, pools, now)


def _waiting(job: JobRecord, forecast: Forecast) -> ChangeView | None:
    """To wait for the one job whose end makes room, where it is of the same tenant."""
    after = forecast.after
    if after is None or forecast.start is None:
        return None
    if after.tenant != job.tenant:
        return ChangeView(kind="wait", text="wait for work of another tenant to end", start=forecast.start)
    return ChangeView(kind="wait", text=f"wait for job {after.key} to end", start=forecast.start, job=after.key)


def _uncordoned(state: State, job: JobRecord, pools: Sequence[PoolState], now: int) -> ChangeView | None:
    """The first node that a person has cordoned or drained and on which the job would start now, if it took work again."""
    for pool in pools:
        nodes = (node for _, node in sorted(pool.nodes.items()) if node.healthy and node.cordoned and not node.leaves)
        for node in islice((node for node in nodes if node.cordoned_by not in ("", SELF)), NODES_TRIED):
            cause = out_of_service(node)
            with Trial(state) as trial:
                _uncordon(trial, pool, node)
                in_the_way = wait_in(state, job, pool, now)
            if in_the_way is None and cause is not None:
                text = f"ask for node {node.name} to be uncordoned ({cause_text(cause)})"
                return ChangeView(kind="node", text=text, start=now, pool=pool.document.name)
    return None


def _uncordon(trial: Trial, pool: PoolState, node: NodeState) -> None:
    """On trial the node takes work again."""
    cordoned = node.cordoned

    def cordon(reason: str) -> None:
        node.cordoned = reason
        pool.index.put(node)

    cordon("")
    trial.note(lambda: cordon(cordoned))


def _without_one(state: State, job: JobRecord, pools: Sequence[PoolState], now: int) -> ChangeView | None:
    """The first job of its own tenant without which it would start, although nothing says when that ends."""
    for pool in pools:
        policies = [policy for key, policy in state.policies.items() if key[0] == job.tenant]
        there = (one for policy in policies for one in policy.jobs.values())
        for holder in islice(there, HOLDERS_TRIED):
            holding = holding_of(state, holder)
            if holding is None:
                continue
            with Trial(state) as trial:
                trial.release(holding)
                in_the_way = wait_in(state, job, pool, now)
            if in_the_way is None:
                text = f"wait for job {holder.key} to end; nothing says when"
                return ChangeView(kind="wait", text=text, pool=pool.document.name, job=holder.key)
    return None


def _changes(state: State, job: JobRecord) -> Iterator[tuple[ChangeView, JobRecord]]:
    """What might be changed, cheapest first, with the job as it would be then."""
    profile = state.profile(job.tenant, job.profile)
    for limit in shorter_limits(state, job, state.now) if state.maintenance else ():
        yield (
            ChangeView(kind="time", text=f"submit it with --time-limit {format_duration(limit)} or less"),
            replace(job, time_limit=limit),
        )
    if profile is not None:
        if GPU_MEMORY in asked_of(job.request):
            yield from _less_memory(state, job, profile)
        else:
            yield from _smaller(state, job, profile)
    yield from _in_other_queues(state, job, [job.policy])
    if not job.preemptible:
        yield ChangeView(kind="preemptible", text="submit it as preemptible"), _as_preemptible(job, profile)
    yield from _in_other_queues(state, job, _other_policies(state, job))


def _as_preemptible(job: JobRecord, profile: Profile | None) -> JobRecord:
    request, shape = job.request, job.request.shape
    if shape.steady:
        request = make_request(
            *(request.amounts, request.replicas, profile, shape.mig),
            contained=shape.contained,
            memory=0 if request.choices is None else request.choices.memory,
            shares=() if request.choices is None else request.choices.shares,
            by_model=request.choices is not None and request.choices.by_model,
        )
    return replace(job, preemptible=True, request=request)


def _smaller(state: State, job: JobRecord, profile: Profile) -> Iterator[tuple[ChangeView, JobRecord]]:
    """The same with fewer GPUs, the largest first (R3); a slice is what it is (R4)."""
    if job.request.shape.mig:
        return
    mine = asked_of(job.request)
    asked = mine.get(GPU, 0)
    whole = range(asked // GPU_UNITS * GPU_UNITS, 0, -GPU_UNITS)
    for units in (*whole, *FRACTIONS):
        if units < asked:
            amounts = {**mine, GPU: units}
            each = " for each replica" if job.request.replicas > 1 else ""
            text = f"ask for {format_amount(GPU, units)} gpu{each} instead of {format_amount(GPU, asked)}"
            shape, smaller = job.request.shape, ChangeView(kind="request", text=text, request={GPU: units})
            if job.request.choices is None:
                request = make_request(amounts, job.request.replicas, profile, contained=shape.contained, steady=shape.steady)
                yield smaller, replace(job, request=request)
                continue
            found = _in_queue(state, job, job.policy, profile, amounts, beyond=job.beyond)
            for one in found.each if found is not None else ():
                yield smaller, replace(job, request=one)


def _less_memory(state: State, job: JobRecord, profile: Profile) -> Iterator[tuple[ChangeView, JobRecord]]:
    """The same with less GPU memory (R42), the most first, with the share of each GPU model."""
    asked = asked_of(job.request)
    for part in FRACTIONS:
        memory = asked[GPU_MEMORY] * part // GPU_UNITS
        amounts = {**asked, GPU_MEMORY: memory}
        request = _in_queue(state, job, job.policy, profile, amounts, beyond=job.beyond) if memory else None
        if request is not None:
            each = " for each replica" if request.replicas > 1 else ""
            less, was = (format_amount(GPU_MEMORY, amount) for amount in (memory, asked[GPU_MEMORY]))
            text = f"ask for {less} gpu_memory{each} instead of {was}"
            for one in request.each:
                yield ChangeView(kind="request", text=text, request={GPU_MEMORY: memory}), replace(job, request=one)


def _in_queue(
    state: State, job: JobRecord, policy: PolicyState, profile: Profile, amounts: Amounts, *, beyond: bool
) -> Request | None:
    """What a job like this would ask for in a queue with these amounts; None if it could never run there."""
    contained = job.request.shape.contained
    steady = is_steady(profile, state.terms.level, preemptible=job.preemptible)
    flags = {"preemptible": job.preemptible, "beyond": beyond, "contained": contained}
    found = models_that_fit(state, policy, profile, amounts, **flags)
    if isinstance(found, Rejection):
        return None
    shares, by_model = ((), False) if found is None else found
    request = make_request(
        *(with_share(amounts, shares[0]) if shares else amounts, profile.replicas, profile, profile.mig),
        contained=contained,
        steady=steady,
        memory=amounts.get(GPU_MEMORY, 0),
        shares=shares,
        by_model=by_model,
    )
    never = never_fits(state, policy, profile, request, preemptible=job.preemptible, beyond=beyond)
    return request if never is None else None


def _in_other_queues(state: State, job: JobRecord, policies: Sequence[PolicyState]) -> Iterator[tuple[ChangeView, JobRecord]]:
    """The same in another queue: with its own request where the profile gives as much; in one of its own policy, else what that gives."""
    queues = [
        (policy, link.name)
        for policy in policies
        for link in policy.document.profiles
        if not link.submitters or job.user in link.submitters
    ]
    for policy, name in queues[:QUEUES_TRIED]:
        profile = state.profile(job.tenant, name)
        if profile is None or (policy is job.policy and name == job.profile):
            continue
        given, mine = most_of(state, profile), asked_of(job.request)
        mig = "" if GPU_MEMORY in mine else job.request.shape.mig
        fits = (profile.replicas, profile.mig) == (job.request.replicas, mig) and all(
            amount <= given.get(key, 0) or (key == GPU and profile.mig) for key, amount in mine.items()
        )
        if not fits and policy is not job.policy:
            continue
        amounts = {**given, **mine} | ({GPU: given[GPU]} if profile.mig else {}) if fits else given
        less = {key: amount for key, amount in amounts.items() if amount != given.get(key)}
        beyond = job.user in policy.document.beyond_limit
        request = _in_queue(state, job, policy, profile, amounts, beyond=beyond)
        for one in request.each if request is not None else ():
            other = replace(job, policy=policy, profile=name, request=one, beyond=beyond)
            queue = f"{policy.document.name}/{name}"
            what = "" if fits else f", which gives {format_amounts(amounts)}"
            yield ChangeView(kind="queue", text=f"submit it to queue {queue}{what}", queue=queue, request=less), other


def _other_policies(state: State, job: JobRecord) -> list[PolicyState]:
    """Policies of its tenant whose group its user is in, by name (R12)."""
    found = [policy for key, policy in sorted(state.policies.items()) if key[0] == job.tenant and policy is not job.policy]
    return [
        policy
        for policy in found
        if not policy.document.group or is_member(state, job.tenant, policy.document.group, job.user, state.now)
    ]


def _release_own(trial: Trial, state: State, job: JobRecord, other: JobRecord) -> None:
    """On trial nothing is kept for the job itself (R16), unless another job would go before `other` there then."""
    holds, own = state.holds, state.holds.get(job.key)
    if own is not None and not _anybody_before(state, job, other, state.pools[own.pool]):
        state.holds = {key: hold for key, hold in holds.items() if hold is not own}
        trial.note(lambda: setattr(state, "holds", holds))


def _open_account(trial: Trial, job: JobRecord) -> None:
    """On trial its user has an account in its policy, where that keeps any: in another policy than its own there may be none yet."""
    users = job.policy.users
    if users is not None and job.user not in users:
        open_user(job.policy, job.user)
        trial.note(lambda: users.pop(job.user))


def _anybody_before(state: State, job: JobRecord, other: JobRecord, pool: PoolState) -> bool:
    """Whether a job other than `job` ranks before `other` in the pool, or may go on there where it was suspended (R29)."""
    name = pool.document.name
    if any(lease.pool == name for suspended in state.suspended.values() for lease in suspended.leases.values()):
        return True
    return any(before is not job for _, members in groups_ahead(state, other, pool) for _, before in members)


def _submitted_now(state: State, job: JobRecord, now: int) -> JobRecord:
    """As it would stand in line if it were submitted now: behind all that are there, with no past of its own."""
    nodes, pools = state.maintenance.outlasted(job, now) if state.maintenance else ((), ())
    return replace(
        job,
        admitted_at=now,
        pending_since=now,
        last_since=0,
        order=(state.sequence + 1, 0),
        array=None,
        barred_from="",
        not_before=0,
        avoids={},
        avoiding=nodes,
        outlasts=pools,
        nomination=None,
    )


def _starts_in(state: State, job: JobRecord, now: int) -> str | None:
    """The first pool of its order in which nothing is in its way, unless it would first take back its own in an earlier one (R19)."""
    profile = state.profile(job.tenant, job.profile)
    for pool in pools_of(state, job):
        if wait_in(state, job, pool, now) is None:
            return pool.document.name
        reclaims = profile is not None and profile.reclaim_before_spill and RECLAIM in causes(state, job, pool)
        if reclaims and isinstance(search(state, job, pool, now), VictimPlan):
            return None
    return None
