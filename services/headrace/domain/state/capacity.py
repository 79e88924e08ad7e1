"""Taking and giving back: the one place where leases, nominations and yielding change what is free and what is used.

Every function has an inverse, which `Trial` notes. The fold uses the same functions, and nothing else changes these numbers.
Conservation is asserted: a device never holds more than it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.facts.fact import Place
from headrace.contracts.values.amounts import CPU, GPU_UNITS, MEMORY, is_gpu
from headrace.domain.model.devices import counted
from headrace.domain.model.job_states import JobState
from headrace.domain.state.quota import counts_users, limits_of, open_scope, open_user, totals_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from headrace.contracts.facts.fact import DeviceShare
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.devices import HeldDevices
    from headrace.domain.model.jobs import JobRecord, LeaseState, PolicyState, Preemption
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


def take(state: State, job: JobRecord, pool: PoolState, place: HeldDevices) -> None:
    """A lease of `job` now holds `place`."""
    _occupy(state, state.nodes[place.node], job, place, 1)
    _charge(state, job, pool, place, 1, place.amounts)


def give_back(state: State, job: JobRecord, pool: PoolState, place: HeldDevices) -> None:
    """The inverse of `take`. A node that has vanished has nothing to give back to, its accounts still do."""
    node = state.nodes.get(place.node)
    if node is not None:
        _occupy(state, node, job, place, -1)
    _charge(state, job, pool, place, -1, place.amounts)


def take_for_trial(state: State, job: JobRecord, pool: PoolState, place: HeldDevices, charged: Amounts, sign: int) -> None:
    """As `take`, or with sign -1 `give_back`, until it is undone: only `charged` of its amounts is counted meanwhile.

    That may leave out what nothing bounds anywhere (`scopes.unbounded`).
    """
    _occupy(state, state.nodes[place.node], job, place, sign)
    _charge(state, job, pool, place, sign, charged)


def _occupy(state: State, node: NodeState, job: JobRecord, place: HeldDevices, sign: int) -> None:
    """Count the place as taken on its node, or as free again. One function with its loop: it runs three times for each grant."""
    amounts, by_name = place.amounts, node.by_name
    if not by_name:
        by_name = node.by_name = {device.name: device for device in node.devices}
    for share in place.devices:
        device = by_name.get(share.device)
        if device is None:
            continue
        if share.mig:
            device.cut(share, sign)
            continue
        free = device.free = device.free - sign * share.units
        if not 0 <= free <= GPU_UNITS:
            raise AssertionError(f"{node.name}/{device.name} would have {free} units free")
    node.cpu_free -= sign * amounts.get(CPU, 0)
    node.memory_free -= sign * amounts.get(MEMORY, 0)
    if node.pool:
        index = state.pools[node.pool].index
        index.touch(node)
        if index.steers:
            index.hold(node, job.request.shape, amounts, sign)


def held_by(lease: LeaseState) -> HeldDevices:
    """What a lease holds now: while it is suspended, neither its devices nor what is charged for them (R29)."""
    if not lease.suspended_at:
        return lease
    return Place(node=lease.node, amounts=without_gpus(lease))


def without_gpus(lease: LeaseState) -> Amounts:
    """What a lease holds while it is suspended."""
    return {key: value for key, value in lease.amounts.items() if not is_gpu(key)}


def gpu_part(lease: LeaseState) -> Place:
    """The devices of a lease and what is charged for them: what a suspension sets free."""
    return Place(
        node=lease.node, devices=lease.devices, amounts={key: value for key, value in lease.amounts.items() if is_gpu(key)}
    )


def is_open(node: NodeState, devices: Iterable[DeviceShare]) -> bool:
    """Whether these units, or these slices, of these devices of the node are there, and could be granted now, all together."""
    there = {device.name: device.twin() for device in node.devices}
    for share in devices:
        device = there.get(share.device)
        if device is None or not device.could_give(share):
            return False
        device.take(share, 1)
    return True


def freed_by(lease: LeaseState) -> HeldDevices:
    """What a lease sets free when its job has yielded: all that it holds, or, where a ladder suspends it, its devices only."""
    stop = lease.job.stop
    if stop is None or stop.then != "suspend":
        return lease if not lease.suspended_at else held_by(lease)
    return gpu_part(lease) if not lease.suspended_at else Place(node=lease.node)


def tally(state: State, node: NodeState, sign: int) -> None:
    """Tell its pool's index of all that is held on the node, or with sign -1 of no such thing: before and after it becomes another."""
    pool = state.pool_of(node)
    if pool is not None and pool.index.steers:
        for lease in node.leases.values():
            pool.index.hold(node, lease.job.request.shape, held_by(lease).amounts, sign)


def weigh(state: State, pool: PoolState) -> None:
    """From now on the pool compares places for the mix that is stated. If that begins to steer, count what its nodes hold (R20)."""
    steered = pool.index.steers
    pool.index.weigh(pool.mix.stated, amended=state.terms.amended)
    if pool.index.steers and not steered:
        for node in pool.nodes.values():
            tally(state, node, 1)


def _charge(state: State, job: JobRecord, pool: PoolState, place: HeldDevices, sign: int, charged: Amounts) -> None:
    """Count the place as leased, or no more, in the pool and in every account of the job."""
    totals = totals_of(state, job.policy, pool, firm=not job.preemptible)
    if job.request.shape.mig:
        count_place(pool, place, use=sign, leased=sign)
        totals = totals[1:]
    add(totals, charged, sign)
    if job.policy.users is not None:
        add((job.policy.users[job.user].use,), charged, sign)
    if not job.preemptible and job.time_limit is None:
        add((pool.lasting,), charged, sign)
    changes = state.pending.changes  # as `_mark` does, without a call
    if changes is not None:
        changes.policies[job.policy] = None


def count_overdue(state: State, pool: PoolState, lease: LeaseState, sign: int) -> None:
    """Count a lease that should have ended (R28), which is no more to be relied on to end than one that lasts; with -1: not any more."""
    _outstay(pool, lease, sign)
    _mark(state, lease.job)


def _outstay(pool: PoolState, lease: LeaseState, sign: int) -> None:
    pool.overdue += sign
    if lease.job.preemptible or lease.job.time_limit is not None:
        add((pool.lasting,), held_by(lease).amounts, sign)


def note_lasting(pools: Mapping[str, PoolState], job: JobRecord) -> None:
    """Count what a job holds of what lasts, for one who begins with what is held."""
    for lease in job.leases.values():
        if not job.preemptible and job.time_limit is None:
            add((pools[lease.pool].lasting,), held_by(lease).amounts, 1)
        if lease.overdue:
            _outstay(pools[lease.pool], lease, 1)


def yield_use(state: State, job: JobRecord, pool: PoolState, held: HeldDevices, sign: int) -> None:
    """With sign 1: what is held makes room for a nominated preemptor and counts no more in tests (R17). With -1: it does again."""
    open_scope(job.policy, pool.document.name)
    move([(scope.use, scope.leased_minus_use) for scope in limits_of(state, job, pool.document.name)], held.amounts, sign)
    count_place(pool, held, use=-sign, leased=0)
    _mark(state, job)


def count_place(pool: PoolState, held: HeldDevices, *, use: int, leased: int) -> None:
    """What is held counts in the pool's use, and in what leases hold there: with 1 from now on, with -1 no more, with 0 as before.

    A device that is cut into slices counts with at most one GPU in each of the two (R4).
    """
    used = counted(pool.cut.use, held, use)
    if not leased:
        move([(pool.use, pool.leased_minus_use)], used, -use)
        return
    add([pool.use], used, use)
    if leased == use and not any(share.mig for share in held.devices):
        return
    add([pool.leased_minus_use], used, -use)
    add([pool.leased_minus_use], counted(pool.cut.leased, held, leased), leased)


def nominate(state: State, preemption: Preemption) -> None:
    """Keep its places for the preemptor (R27): no other job is granted them, and they count as its use (R17)."""
    _nominate(state, preemption, 1)


def lift(state: State, preemption: Preemption) -> None:
    """The inverse of `nominate`."""
    _nominate(state, preemption, -1)


def _nominate(state: State, preemption: Preemption, sign: int) -> None:
    pool, job, total = state.pools[preemption.pool], preemption.job, preemption.total
    keep(state, preemption.places, sign)
    open_scope(job.policy, preemption.pool)
    scopes = limits_of(state, job, preemption.pool)
    add([scope.use for scope in scopes], total, sign)
    add([scope.leased_minus_use for scope in scopes], total, -sign)
    if not job.preemptible:
        add([scope.firm for scope in scopes if scope.kind != "user"], total, sign)
    for place in preemption.places:
        count_place(pool, place, use=sign, leased=0)
        add([pool.nominated], counted(pool.cut.nominated, place, sign), sign)
    _mark(state, job)


def recount_users(state: State, policy: PolicyState) -> None:
    """Open the accounts of a policy's users anew, with what their jobs hold, if it keeps any (`quota.counts_users`)."""
    policy.users, policy.user_pending = ({} if counts_users(policy.document) else None), {}
    if policy.users is None:
        return
    for job in state.jobs_and_arrays():
        if job.policy is policy and not job.ended_at:
            open_user(policy, job.user)
            if job.state is JobState.PENDING and (waiting := job.stands_for):
                policy.user_pending[job.user] = policy.user_pending.get(job.user, 0) + waiting
    for job in policy.jobs.values():
        scope = policy.users[job.user]
        for lease in job.leases.values():
            add((scope.leased_minus_use if lease.yields else scope.use,), held_by(lease).amounts, 1)
    for preemption in state.preemptions.values():
        if preemption.kept and preemption.job.policy is policy:
            scope = policy.users[preemption.job.user]
            add((scope.use,), preemption.total, 1)
            add((scope.leased_minus_use,), preemption.total, -1)


def _mark(state: State, job: JobRecord) -> None:
    """The accounts of the job's policy have changed."""
    changes = state.pending.changes
    if changes is not None:
        changes.policies[job.policy] = None


def add(totals: Sequence[Amounts], amounts: Amounts, sign: int) -> None:
    """Add to accounts. Keys that reach zero go, so that equal states look equal."""
    for key, value in amounts.items():
        if not value:
            continue
        change = sign * value
        for total in totals:
            try:
                after = total[key] + change
            except KeyError:
                after = change
            if after:
                total[key] = after
            else:
                del total[key]


def move(totals: Sequence[tuple[Amounts, Amounts]], amounts: Amounts, sign: int) -> None:
    """Take from the first of each two accounts what is added to the second, as `add` does."""
    for key, value in amounts.items():
        if not value:
            continue
        change = sign * value
        for one, other in totals:
            left, more = one.get(key, 0) - change, other.get(key, 0) + change
            if left:
                one[key] = left
            else:
                del one[key]
            if more:
                other[key] = more
            else:
                del other[key]


def keep(state: State, places: Iterable[Place], sign: int) -> None:
    """Put places out of reach on their nodes, or with sign -1 within it again. No account changes."""
    for place in places:
        node = state.nodes.get(place.node)
        if node is None:
            continue
        shares = {share.device: share for share in place.devices}
        for device in node.devices:
            if device.name in shares:
                device.keep(shares[device.name], sign)
        node.cpu_nominated += sign * place.amounts.get(CPU, 0)
        node.memory_nominated += sign * place.amounts.get(MEMORY, 0)
        if node.pool:
            state.pools[node.pool].index.touch(node)
