"""A state as plain values, deep, so that two of them can be compared: what is true, and none of the aids to finding it fast.

Aids that are left out: memos, the classes of the node index, heaps with entries of jobs that have left, and accounts that were made
because they were read. `naive` works out every derived number anew, to hold the kept ones against.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from operator import attrgetter
from types import NoneType
from typing import Any

import msgspec

from headrace.contracts.facts.fact import Place
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, MEMORY, add_to, is_gpu, take_from
from headrace.contracts.values.arrays import size
from headrace.domain.indexes.pending import Pending
from headrace.domain.indexes.running_index import RunningIndex, grant_of, last_lease, loses_since, may_yield
from headrace.domain.model.deadlines import Deadlines
from headrace.domain.model.jobs import ArrayState, JobRecord, PolicyState, Preemption, Scope
from headrace.domain.model.nodes import NodeState
from headrace.domain.model.requests import Request
from headrace.domain.state.capacity import held_by
from headrace.domain.state.pools import PoolState
from headrace.domain.state.quota import counts_users
from headrace.domain.state.state import State

ATOMS = {bool, int, str, NoneType}
AIDS = {
    "share_base",
    "census",
    "totals",
    "by_name",
    "stale",
    "index",
    "heap",
    "lines",
    "avoiding",
    "running",
    "job_ids",
    "users",
}


def snapshot(state: State) -> dict[str, Any]:
    """Everything in the state by value; objects that stand in a table of the state appear elsewhere by their name only."""
    whole = _opened(state)
    for table in ("jobs", "nodes", "pools", "policies", "preemptions"):
        whole[table] = {key: _opened(value) for key, value in getattr(state, table).items()}
    whole["arrays"] = {key: _opened(array) | {"job": _opened(array.job)} for key, array in state.arrays.items()}
    return whole


def _shown(value: Any) -> Any:
    show = _way_to_show(type(value))
    return value if show is None else show(value)


def _each_shown(values: Iterable[Any]) -> list[Any]:
    return [value if type(value) in ATOMS else _shown(value) for value in values]


def _table_shown(table: dict[Any, Any]) -> dict[Any, Any]:
    return {
        key: child if type(child) in ATOMS else _shown(child)
        for key, child in table.items()
        if not (type(child) is Scope and _is_untouched(child))
    }


@cache
def _way_to_show(kind: type) -> Callable[[Any], Any] | None:
    """What shows a value of this class; None: it is shown as it is."""
    if kind in ATOMS:
        return None
    ways: tuple[tuple[Any, Callable[[Any], Any] | None], ...] = (
        (JobRecord, lambda job: ("job", job.key)),
        (ArrayState, lambda array: ("array", array.job.key)),
        (PolicyState, lambda policy: ("policy", policy.key)),
        (NodeState, lambda node: ("node", node.name)),
        (PoolState, lambda pool: ("pool", pool.document.name)),
        (Preemption, lambda preemption: ("preemption", preemption.id)),
        (Request, lambda request: ("request", request.order, request.amounts, request.replicas, request.shape)),
        (Pending, _line),
        (Deadlines, lambda deadlines: dict(deadlines.moments)),
        (dict, _table_shown),
        ((list, tuple, deque), _each_shown),
        ((set, frozenset), sorted),
        (msgspec.Struct, None),
    )
    return next((way for of, way in ways if issubclass(kind, of)), _opened if is_dataclass(kind) else None)


def _opened(value: Any) -> dict[str, Any]:
    names, values = _reader(type(value))
    return dict(zip(names, _each_shown(values(value)), strict=True))


@cache
def _reader(kind: type) -> tuple[tuple[str, ...], Callable[[Any], Iterable[Any]]]:
    """The names of the fields that are shown of a class, and what reads their values."""
    names = tuple(field.name for field in fields(kind) if field.name not in AIDS)
    return names, attrgetter(*names) if len(names) > 1 else lambda value: [getattr(value, name) for name in names]


def _is_untouched(scope: Scope) -> bool:
    return scope.reservation is None and not (scope.limit or scope.leased_minus_use or scope.use or scope.firm)


def _lasting(state: State, pool: str) -> dict[str, int]:
    """What is held in a pool by who does not end by itself, and by who should have ended."""
    total = Counter()
    for job in state.jobs.values():
        for lease in job.leases.values():
            if lease.pool == pool and (lease.overdue or (not job.preemptible and job.time_limit is None)):
                total.update(held_by(lease).amounts)
    return {key: value for key, value in total.items() if value}


def _overdue(state: State, pool: str) -> int:
    return sum(lease.overdue for job in state.jobs.values() for lease in job.leases.values() if lease.pool == pool)


def _line(pending: Pending) -> list[str]:
    """Who stands in line or aside: an index follows time whenever it is read, so both are one."""
    return sorted({*pending.ineligible, *(key for group in pending.groups.values() for key in group.members)})


def kept(state: State) -> dict[str, Any]:
    """The derived numbers that the fold keeps up to date."""
    return {
        "accounts": {name: (scope.leased, scope.use, scope.firm) for name, scope in _accounts(state).items()},
        "users": {
            (*policy.key, user): (scope.leased, scope.use)
            for policy in state.policies.values()
            for user, scope in (policy.users or {}).items()
            if scope.use or scope.leased_minus_use
        },
        "pools": {name: (pool.leased, pool.use, pool.nominated) for name, pool in state.pools.items()},
        "lasting": {name: (pool.lasting, pool.overdue) for name, pool in state.pools.items()},
        "nodes": {
            node.name: (
                node.cpu_free,
                node.memory_free,
                node.cpu_nominated,
                node.memory_nominated,
                {device.name: (device.free, device.nominated, device.slices, device.kept) for device in node.devices},
            )
            for node in state.nodes.values()
        },
        "pending": {policy.key: policy.pending for policy in state.policies.values()},
        "holding": {policy.key: sorted(policy.jobs) for policy in state.policies.values()},
        "running": {policy.key: _running(index) for policy, index in state.jobs_that_may_yield().items()},
        "charged": {
            policy.key: {name: meter.held for name, meter in policy.meters.items()} for policy in state.policies.values()
        },
    }


def _running(index: RunningIndex) -> dict[Any, list[Any]]:
    """By pool and request: when each job was granted, which it is, since when it loses, where it stands alone, what guards it."""
    return {
        (pool, request.order, request.shape): [
            (grant, job.key, since, site, grant in block.guarded)
            for block in bucket.blocks
            for grant, job, since, site in zip(block.grants, block.jobs, block.sinces, block.sites, strict=True)
        ]
        for pool, buckets in index.by_pool.items()
        for request, bucket in buckets.items()
    }


def _running_anew(state: State, policy: PolicyState) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for job in state.jobs.values():
        if job.policy is policy and may_yield(job):
            lease = last_lease(job)
            alone = len(job.leases) == 1 and lease.amounts == job.request.total
            site = lease.node if alone else ""
            row = (grant_of(lease), job.key, loses_since(job), site, job.min_runtime > 0)
            found.setdefault((lease.pool, job.request.order, job.request.shape), []).append(row)
    return {key: sorted(rows) for key, rows in found.items()}


def naive(state: State) -> dict[str, Any]:  # noqa: C901, PLR0912  # one loop for each kind of account
    """What `kept` has to be, summed up from the leases and the nominations."""
    accounts = {name: ({}, {}, {}) for name in _accounts(state)}
    pools = {name: ({}, {}, {}) for name in state.pools}
    cut = {name: (Counter(), Counter(), Counter()) for name in state.pools}
    nodes = {
        node.name: [node.cpu, node.memory, 0, 0, {d.name: [GPU_UNITS, 0, (), ()] for d in node.devices}]
        for node in state.nodes.values()
    }
    for job in state.jobs.values():
        for lease in job.leases.values():
            names = _accounts_of(state, job, lease.pool)
            for total in (pools[lease.pool], *(accounts[name] for name in names if name in accounts)):
                add_to(total[0], held_by(lease).amounts)
                if not job.yields_to or (lease.suspended_at and job.nomination is None):
                    add_to(total[1], held_by(lease).amounts)
            for name in names:
                if not job.preemptible:
                    add_to(accounts[name][2], held_by(lease).amounts)
            _hold(nodes[lease.node], held_by(lease), 0, -1)
            for charges in cut[lease.pool][: 1 if job.yields_to else 2]:
                _cut(charges, held_by(lease))
    for preemption in state.preemptions.values():
        if not preemption.kept:
            continue
        add_to(pools[preemption.pool][2], preemption.total)
        for total in (
            pools[preemption.pool],
            *(accounts[name] for name in _accounts_of(state, preemption.job, preemption.pool)),
        ):
            add_to(total[1], preemption.total)
        for name in _accounts_of(state, preemption.job, preemption.pool):
            if not preemption.job.preemptible:
                add_to(accounts[name][2], preemption.total)
        for place in preemption.places:
            _hold(nodes[place.node], place, 1, 1)
            for charges in cut[preemption.pool][1:]:
                _cut(charges, place)
    for name, totals in pools.items():
        for total, charges in zip(totals, cut[name], strict=True):
            for (key, _, _), units in charges.items():
                add_to(total, {key: -max(0, units - GPU_UNITS)})
    for total in (*accounts.values(), *pools.values()):
        for amounts in total:
            take_from(amounts, {key: 0 for key, value in amounts.items() if not value})
    return {
        "accounts": accounts,
        "users": _users(state),
        "pools": pools,
        "lasting": {name: (_lasting(state, name), _overdue(state, name)) for name in state.pools},
        "nodes": {
            name: (cpu, memory, cpu_kept, memory_kept, {device: tuple(units) for device, units in devices.items()})
            for name, (cpu, memory, cpu_kept, memory_kept, devices) in nodes.items()
        },
        "pending": {
            policy.key: sum(job.policy is policy and job.state == "pending" for job in state.jobs.values())
            + sum(size(array.waiting) for array in state.arrays.values() if array.job.policy is policy)
            for policy in state.policies.values()
        },
        "holding": {
            policy.key: sorted(job.key for job in state.jobs.values() if job.policy is policy and job.leases)
            for policy in state.policies.values()
        },
        "running": {
            policy.key: found
            for policy in {job.policy for job in state.jobs.values()}
            if (found := _running_anew(state, policy))
        },
        "charged": {
            policy.key: {name: _charged(state, policy, meter.key) for name, meter in policy.meters.items()}
            for policy in state.policies.values()
        },
    }


def _users(state: State) -> dict[tuple[str, str, str], tuple[dict[str, int], dict[str, int]]]:
    """What each user's jobs hold and use, of policies that are fair among users or limit each."""
    found: dict[tuple[str, str, str], tuple[Counter, Counter]] = {}
    counting = [policy for policy in state.policies.values() if counts_users(policy.document)]
    for job in state.jobs.values():
        for lease in job.leases.values() if job.policy in counting else ():
            held, used = found.setdefault((*job.policy.key, job.user), (Counter(), Counter()))
            held.update(held_by(lease).amounts)
            if not job.yields_to or (lease.suspended_at and job.nomination is None):
                used.update(held_by(lease).amounts)
    for preemption in state.preemptions.values():
        if preemption.kept and preemption.job.policy in counting:
            job = preemption.job
            found.setdefault((*job.policy.key, job.user), (Counter(), Counter()))[1].update(preemption.total)
    shown = {name: tuple({key: value for key, value in sums.items() if value} for sums in both) for name, both in found.items()}
    return {name: both for name, both in shown.items() if any(both)}


def _charged(state: State, policy: PolicyState, key: str) -> int:
    """What counts against a budget now: what jobs of the policy hold that have started, but GPUs that are not back from a suspension."""
    total = 0
    for job in state.jobs.values():
        if job.policy is policy and job.leases and job.attempts[-1].started_at:
            total += sum(
                lease.amounts.get(key, 0)
                for lease in job.leases.values()
                if key != GPU or not (lease.suspended_at or lease.resuming)
            )
    return total


def _hold(node: list[Any], place: Place, which: int, sign: int) -> None:
    """Count a place as held (`which` 0: the first numbers) or as kept (1: the second ones)."""
    node[2 * which] += sign * place.amounts.get(CPU, 0)
    node[2 * which + 1] += sign * place.amounts.get(MEMORY, 0)
    for share in place.devices:
        if share.device in node[4] and share.mig:
            node[4][share.device][2 + which] = tuple(sorted((*node[4][share.device][2 + which], (share.start, share.mig))))
        elif share.device in node[4]:
            node[4][share.device][which] += sign * share.units


def _cut(charges: Counter[tuple[str, str, str]], held: Any) -> None:
    """Sum up the charges of slices, key by key and device by device: the pool counts no more than one GPU of each (R4, R43)."""
    for share in held.devices:
        for key in held.amounts if share.mig else ():
            if is_gpu(key):
                charges[key, held.node, share.device] += share.units


def _accounts(state: State) -> dict[str, Scope]:
    accounts = {scope.name: scope for scope in state.shares.values()}
    for policy in state.policies.values():
        accounts |= {scope.name: scope for scope in (policy.wide, *policy.scopes.values())}
    return accounts


def _accounts_of(state: State, job: JobRecord, pool: str) -> list[str]:
    tenant, policy = job.policy.key
    names = [f"policy {tenant}/{policy}", f"policy {tenant}/{policy} in pool {pool}"]
    if (tenant, pool) in state.shares:
        names.append(f"tenant {tenant} in pool {pool}")
    known = _accounts(state)
    return [name for name in names if name in known]


def differences(left: Any, right: Any, at: str = "") -> list[str]:
    """Where two snapshots are not the same, one line each."""
    if isinstance(left, dict) and isinstance(right, dict):
        keys = [*left, *(key for key in right if key not in left)]
        return [line for key in keys for line in differences(left.get(key), right.get(key), f"{at}/{key}")]
    return [] if left == right else [f"{at}: {left!r} is not {right!r}"]
