"""Views of the state for a tenant (`contracts.messages.queries`): its own jobs and queues, and totals of pools and nodes. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.contracts.messages.explanation import WhyView
from headrace.contracts.messages.queries import (
    AttemptView,
    BudgetView,
    JobView,
    NodeView,
    PoolKeyView,
    PoolView,
    QueueView,
    ScopeView,
    UserUseView,
)
from headrace.contracts.values.amounts import CPU, GPU, JOB, MEMORY, gpus_first, without_models
from headrace.contracts.values.arrays import format_array
from headrace.contracts.values.ids import split_job_key
from headrace.contracts.values.isolation import levels_by_kind
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.explain.availability import free_on, stocks
from headrace.domain.explain.budget_forecast import warning, warnings
from headrace.domain.explain.explain import explain
from headrace.domain.explain.user_shares import among_users
from headrace.domain.explain.wait_reasons import wait_of
from headrace.domain.model.dedication import owner_of
from headrace.domain.model.job_states import JobState
from headrace.domain.model.node_claims import beyond
from headrace.domain.queueing.freeze_drain import queue_closing
from headrace.domain.queueing.gates import opens_at
from headrace.domain.queueing.ranking import user_share
from headrace.domain.state.idleness import idle_since, is_idle
from headrace.domain.state.meters import hours, name_of, used
from headrace.domain.state.quota import borrowed
from headrace.views.job_index import QueueCounts, Rejected
from headrace.views.maintenance import maintenance_of
from headrace.views.shown_states import elements_by_state, is_whole_array, next_of, state_of
from headrace.views.visibility import ALL_TENANTS, OTHER_TENANT, hide_others, sees_node, sees_pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.attempts import Attempt
    from headrace.domain.model.devices import DeviceState
    from headrace.domain.model.jobs import JobRecord, PolicyState, Scope
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State
    from headrace.views.job_index import Queue

COMPUTED_MAX = 100


class WaitReasons:
    """Reasons why jobs wait, for one answer. Jobs of one group differ only in their position, so two of them are computed for all.

    `computed` counts the computed reasons; after `computed_max` of them the other jobs of a list get none, because each may need a walk
    over a whole pool.
    """

    def __init__(self, state: State, now: int, computed_max: int = COMPUTED_MAX) -> None:
        self.computed = 0
        self.state = state
        self._now = now
        self._computed_max = computed_max
        self._known: dict[tuple[JobGroup, bool], tuple[str, str]] = {}

    def of(self, job: JobRecord) -> tuple[str, str]:
        """(reason, message) of a pending job."""
        group = self.state.pending.group_of(job)
        if group is None:  # it is not in a queue for a reason of its own
            return self._compute(job)
        place = (group, group.head() is job)
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = self._compute(job)
        return found

    def _compute(self, job: JobRecord) -> tuple[str, str]:
        if self.computed >= self._computed_max:
            return "", ""
        self.computed += 1
        wait = wait_of(self.state, job, self._now)
        return wait.reason.value, hide_others(wait.message, job.tenant)


def job_view(job: JobRecord, waits: WaitReasons, *, all_attempts: bool) -> JobView:
    """View of a job, with all its attempts or the latest only."""
    tenant, user, job_id = split_job_key(job.key)
    reason, message = (job.reason, job.message) if job.state is not JobState.PENDING else waits.of(next_of(job))
    array = job.array if is_whole_array(job) else None
    choices = job.request.choices
    return JobView(
        id=job_id,
        job=job.key,
        tenant=tenant,
        user=user,
        name=job.name,
        queue=job.queue,
        state=state_of(job),
        preemptible=job.preemptible,
        priority=job.priority,
        request=job.request.amounts if choices is None else without_models(job.request.amounts),
        replicas=job.request.replicas,
        admitted_at=job.admitted_at,
        ended_at=job.ended_at,
        preemptions=job.preemptions,
        reason=reason,
        message=message,
        exit_code=job.exit_code,
        checkpoint=job.checkpoint,
        labels=job.labels,
        mig=job.request.shape.mig,
        attempts=tuple(_attempt_view(attempt) for attempt in (job.attempts if all_attempts else job.attempts[-1:])),
        array="" if array is None else format_array(array.range),
        elements={} if array is None else elements_by_state(array),
        idle_at=idle_since(job),
        idle_yields=is_idle(job),
        gpu_memory=0 if choices is None else choices.memory,
        shares=() if choices is None else tuple(choices.shares),
    )


def _attempt_view(attempt: Attempt) -> AttemptView:
    return AttemptView(
        attempt=attempt.number,
        pool=attempt.pool,
        nodes=attempt.nodes,
        devices=attempt.devices,
        granted_at=attempt.granted_at,
        started_at=attempt.started_at,
        ended_at=attempt.ended_at,
        exit_code=attempt.exit_code,
        cause=attempt.cause,
        resume_from=attempt.resume_from,
    )


def rejected_view(rejected: Rejected) -> JobView:
    """View of a job that admission rejected."""
    fact = rejected.fact
    tenant, user, job_id = split_job_key(fact.job)
    return JobView(
        id=job_id,
        job=fact.job,
        tenant=tenant,
        user=user,
        name=fact.name,
        queue=f"{fact.policy}/{fact.profile}",
        state=JobState.REJECTED.value,
        ended_at=rejected.at,
        reason=fact.reason,
        message=fact.message,
    )


def why_view(state: State, job: JobRecord, now: int) -> WhyView:
    """Why a job waits, as its tenant may know it (R22)."""
    whole, job = job, next_of(job)
    if whole is not job or is_whole_array(job):
        return msgspec.structs.replace(_why_array(state, whole, job, now), job=whole.key)
    return _why(state, job, now)


def _why_array(state: State, whole: JobRecord, job: JobRecord, now: int) -> WhyView:
    """Of an array: why its next element waits; if all have left the line, how many are where."""
    if job is not whole or job.waits_for or job.doomed_by or job.state is not JobState.PENDING:
        return _why(state, job, now)
    counts = elements_by_state(whole.array) if whole.array is not None else {}
    message = ", ".join(f"{count} {name}" for name, count in counts.items())
    return WhyView(job=whole.key, state=state_of(whole), reason="", message=message, sequence=state.sequence, now=now)


def _why(state: State, job: JobRecord, now: int) -> WhyView:
    why = explain(state, job, now)
    own = tuple(shown for blocker in why.blockers if (shown := hide_others(blocker, job.tenant)) == blocker)
    pools = tuple(msgspec.structs.replace(need, message=hide_others(need.message, job.tenant)) for need in why.pools)
    message = hide_others(why.message, job.tenant)
    notes = (
        tuple(warnings(job.policy, now)) if job.state is JobState.PENDING and why.reason != WaitReason.BUDGET_EXHAUSTED else ()
    )
    if job.state is JobState.PENDING:
        notes += tuple(among_users(job))
    return msgspec.structs.replace(
        why, state=state_of(job), message=message, blockers=own, pools=pools, notes=why.notes + notes
    )


def rejected_why(rejected: Rejected) -> WhyView:
    """Why a rejected job will never run."""
    fact = rejected.fact
    return WhyView(job=fact.job, state=JobState.REJECTED.value, reason=fact.reason, message=fact.message)


def queue_views(state: State, lines: Mapping[Queue, QueueCounts], tenant: str, now: int) -> Iterator[QueueView]:
    """The queues of a tenant, by name."""
    for key in sorted(key for key in state.policies if key[0] == tenant):
        policy = state.policies[key]
        scopes, budgets = tuple(_scope_views(state, policy)), tuple(_budget_views(policy, now))
        users = tuple(_user_views(state, policy))
        opens = (opens_at(state, policy, now) or 0) if policy.gate is not None and policy.gate.shut else 0
        for link in sorted(policy.document.profiles, key=lambda link: link.name):
            line = lines.get((*key, link.name), QueueCounts())
            closing = queue_closing(state, policy, link.name)
            yield QueueView(
                name=f"{key[1]}/{link.name}",
                tenant=tenant,
                policy=key[1],
                profile=link.name,
                pending=line.pending,
                running=line.holding,
                scopes=scopes,
                closed=closing.mode if closing is not None else "",
                shut=policy.gate is not None and policy.gate.shut,
                opens_at=opens,
                budgets=budgets,
                fair_among=policy.document.fair_among or "",
                users=users,
            )


def _budget_views(policy: PolicyState, now: int) -> Iterator[BudgetView]:
    for budget in policy.document.budgets:
        meter = policy.meters[name_of(budget)]
        yield BudgetView(
            key=budget.key,
            hours=budget.hours,
            per=budget.per,
            then=budget.then,
            used=hours(budget.key, used(meter, min(now, meter.ends))),
            spent=policy.gate is not None and name_of(budget) in policy.gate.spent,
            ends_at=meter.ends,
            warning=warning(policy, budget, now),
        )


def _user_views(state: State, policy: PolicyState) -> Iterator[UserUseView]:
    """The users of a policy who hold or wait for anything, the one with the most in use first (R15)."""
    per_user, keys = policy.document.per_user, {*_governed(state, policy), JOB}
    accounts = policy.users or {}
    for user in sorted(accounts, key=lambda user: (-user_share(state, policy, user), user)):
        held = {key: units for key, units in gpus_first(accounts[user].leased) if key in keys and units}
        waiting = policy.user_pending.get(user, 0)
        if held or waiting:
            yield UserUseView(
                user=user,
                used=held,
                limit=dict(accounts[user].limit),
                pending=waiting,
                max_pending=(per_user.max_pending or 0) if per_user is not None else 0,
            )


def _scope_views(state: State, policy: PolicyState) -> Iterator[ScopeView]:
    """The policy's use over all pools, for each governed key of the pools it may use (R5, R17)."""
    for key in _gpu_first(_governed(state, policy)):
        yield _scope_view(policy.wide, key)


def _scope_view(scope: Scope, key: str) -> ScopeView:
    used, more = scope.leased.get(key, 0), borrowed(scope, key)
    reservation = (scope.reservation or {}).get(key, 0)
    return ScopeView(
        key=key, used=used, reservation=reservation, limit=scope.limit.get(key), reserved=used - more, borrowed=more
    )


def _governed(state: State, policy: PolicyState) -> set[str]:
    keys = {GPU}
    for link in policy.document.profiles:
        profile = state.profile(policy.document.tenant, link.name)
        for name in profile.pools if profile is not None else ():
            if name in state.pools:
                keys |= state.pools[name].governed
    return keys


def _gpu_first(keys: set[str] | frozenset[str]) -> list[str]:
    return sorted(keys, key=lambda key: (key != GPU, key))


def pool_views(state: State, lines: Mapping[Queue, QueueCounts], tenant: str) -> Iterator[PoolView]:
    """The pools a tenant sees, by name: the use of all tenants in total, jobs of its own only."""
    for name in sorted(state.pools):
        pool = state.pools[name]
        if sees_pool(tenant, pool.document):
            running, pending = jobs_of_pool(state, lines, tenant, name)
            yield PoolView(
                name=name,
                nodes=len(pool.nodes),
                keys=pool_keys(state, pool),
                running=running,
                pending=pending,
            )


def pool_keys(state: State, pool: PoolState) -> tuple[PoolKeyView, ...]:
    """Capacity of each governed key, what is free, and what is unusable and why (R6)."""
    return tuple(
        PoolKeyView(
            key=key,
            capacity=stock.capacity,
            usable=pool.usable.get(key, 0),
            used=stock.used,
            free=stock.free,
            kept=stock.kept,
            unusable=stock.unusable,
            causes=stock.causes,
        )
        for key, stock in stocks(state, pool, _gpu_first(pool.governed)).items()
    )


def jobs_of_pool(state: State, lines: Mapping[Queue, QueueCounts], tenant: str, pool: str) -> tuple[int, int]:
    """Number of a tenant's jobs that hold leases in a pool, and of those that wait and may go to it."""
    return _running_in(state, tenant, pool), _pending_for(state, lines, tenant, pool)


def _running_in(state: State, tenant: str, pool: str) -> int:
    holders = (job for key, policy in state.policies.items() if tenant in (ALL_TENANTS, key[0]) for job in policy.jobs.values())
    return sum(any(lease.pool == pool for lease in job.leases.values()) for job in holders)


def _pending_for(state: State, lines: Mapping[Queue, QueueCounts], tenant: str, pool: str) -> int:
    """Number of waiting jobs that may go to the pool."""
    total = 0
    for (owner, _, name), line in lines.items():
        profile = state.profile(owner, name) if tenant in (ALL_TENANTS, owner) else None
        if profile is not None and pool in profile.pools:
            total += line.pending
    return total


def node_views(state: State, last_seen: Mapping[str, int], tenant: str) -> Iterator[NodeView]:
    """The nodes a tenant sees, by name. `last_seen`: time of each one's last heartbeat, microseconds since 1970."""
    for name in sorted(state.nodes):
        node = state.nodes[name]
        if sees_node(state, tenant, node):
            yield node_view(state, node, last_seen.get(name, 0), tenant)


def node_state(state: State, node: NodeState) -> str:
    """State of a node for people: `ready`, `cordoned`, `draining` and so on."""
    if node.name in state.excluded:
        return "excluded"
    approval = state.approvals.get(node.name)
    if not node.healthy:
        return node.status
    if not node.cordoned:
        if node.maintenance is not None:
            return "maintenance"
        return node.status if approval is None or approval.joins else "unapproved"
    if node.draining:
        return "draining" if node.leases else "drained"
    return "cordoned"


def node_view(state: State, node: NodeState, last_seen: int, tenant: str) -> NodeView:
    """View of a node for a tenant; `last_seen`: time of its last heartbeat."""
    return NodeView(
        name=node.name,
        pool=node.pool,
        state=node_state(state, node),
        labels=node.labels,
        model=node.model,
        gpus=len(node.devices),
        gpu_free=free_on(node, GPU),
        cpu=node.cpu,
        cpu_free=free_on(node, CPU),
        memory=node.memory,
        memory_free=free_on(node, MEMORY),
        leases=sum(tenant in (ALL_TENANTS, lease.job.tenant) for lease in node.leases.values()),
        last_heard=last_seen,
        slices={device.name: _slices(device) for device in node.devices if device.mig},
        dedicated_to=_owner(state, node, tenant),
        isolation=levels_by_kind(node.levels),
        unfit={device.name: device.unfit for device in node.devices if device.unfit},
        unapproved=beyond(node.claims, state.approvals.get(node.name)) if node.claims is not None else (),
        reason=state.excluded.get(node.name, node.cordoned if tenant == ALL_TENANTS else ""),
        maintenance=maintenance_of(state, node, tenant),
    )


def _owner(state: State, node: NodeState, tenant: str) -> str:
    """Owner of a node, as the tenant may know it."""
    pool = state.pool_of(node)
    owner = owner_of(pool.document, node.labels) if pool is not None else ""
    return owner if not owner or tenant in (ALL_TENANTS, owner.partition("/")[0]) else OTHER_TENANT


def _slices(device: DeviceState) -> tuple[str, ...]:
    return tuple(f"{name}@{start}" for start, name in sorted(device.slices + device.kept))
