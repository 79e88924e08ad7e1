"""Who may be taken, slowly: every set of jobs is looked at, as the rules say it (R23-R26), with nothing kept and nothing skipped.

It reads the same state as the product's search, and shares no code with it. Only for small worlds: the sets are all written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import NamedTuple

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, JOB, MEMORY
from headrace.contracts.values.mig import FAMILIES, Family
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import JobRecord, LeaseState, PolicyState
from headrace.domain.model.nodes import NodeState
from headrace.domain.state.pools import PoolState
from headrace.domain.state.state import State

SECOND = 1_000_000
Side = list[tuple[dict[str, int], dict[str, int]]]
"""Accounts: what is used in each, and what is reserved."""
Jobs = tuple[JobRecord, ...]


class Freed(NamedTuple):
    job: JobRecord
    node: str
    devices: tuple[DeviceShare, ...]
    amounts: dict[str, int]


def left_by(lease: LeaseState) -> Freed:
    """What comes free when a lease goes as its ladder says (R29): devices alone where it is suspended; what is suspended has none."""
    stop = lease.job.stop
    amounts = {key: value for key, value in lease.amounts.items() if key != GPU or not lease.suspended_at}
    if stop is not None and stop.then == "suspend":
        amounts = {key: value for key, value in amounts.items() if key == GPU}
    return Freed(lease.job, lease.node, () if lease.suspended_at else lease.devices, amounts)


def busiest(offered: Family, there: list[tuple[int, str]]) -> int:
    """Engines of those that lie beside each other: one that is kept lies over those that leave it, and never computes with them (R4)."""
    if not there:
        return 0
    (start, name), *others = there
    cells = range(start, start + offered.slices[name].memory)
    beside = [(at, other) for at, other in others if at >= cells.stop or at + offered.slices[other].memory <= start]
    return max(busiest(offered, others), offered.slices[name].compute + busiest(offered, beside))


@dataclass
class Oracle:
    state: State
    job: JobRecord
    pool: PoolState
    now: int
    _cause: str = ""
    _takeable: dict[str, set[frozenset[JobRecord]]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.pool.document.name

    @property
    def asked(self) -> dict[str, int]:
        """Governed keys of the request, all replicas together."""
        return {key: value for key, value in self.job.request.total.items() if value and key in self.governed}

    @property
    def governed(self) -> set[str]:
        return {GPU, *self.pool.document.capacity}

    # Sides (R7, R23).

    def own(self, policy: PolicyState) -> Side:
        document, side = policy.document, Side()
        if document.reservation is not None:
            side.append((policy.wide.use, document.reservation))
        block = document.per_pool.get(self.name)
        if block is not None and block.reservation is not None:
            side.append((policy.scopes[self.name].use if self.name in policy.scopes else {}, block.reservation))
        return side or [(policy.wide.use, {})]

    def side(self, policy: PolicyState, other: PolicyState) -> Side:
        tenant = policy.document.tenant
        share = self.state.shares.get((tenant, self.name))
        if tenant != other.document.tenant and share is not None and share.reservation is not None:
            return [(share.use, share.reservation)]
        return self.own(policy)

    def lending(self, policy: PolicyState) -> Side:
        """Where a policy's use here is borrowed if above (R24): in this pool where it has a block for the pool, else policy-wide."""
        block = policy.document.per_pool.get(self.name)
        return self.own(policy)[-1:] if block is not None and block.reservation is not None else self.own(policy)

    def lends_as(self, policy: PolicyState) -> Side:
        """The same as the preemptor sees it: across tenants the share."""
        side = self.side(policy, self.job.policy)
        share = self.state.shares.get((policy.document.tenant, self.name))
        return side if share is not None and side[0][0] is share.use else self.lending(policy)

    def must_borrow(self) -> bool:
        """Whether a budget that is used up makes what its policy starts borrowed, whatever is reserved (R33)."""
        gate, budgets = self.job.policy.gate, self.job.policy.document.budgets
        return gate is not None and any(b.then == "borrow" and f"{b.key} per {b.per}" in gate.spent for b in budgets)

    def may_reclaim_from(self, policy: PolicyState) -> bool:
        return not self.must_borrow() and all(
            use.get(key, 0) + value <= reserved.get(key, 0)
            for use, reserved in self.side(self.job.policy, policy)
            for key, value in self.asked.items()
        )

    def may_take_by_priority_from(self, policy: PolicyState) -> bool:
        mine, theirs = self.job.policy.document, policy.document
        allowed = mine.preemption.preempt_lower_priority
        return allowed and mine.tenant == theirs.tenant and theirs.priority < mine.priority

    def is_inside(self) -> bool:
        """Whether the job is within its reservation in every scope that is looked at (R15 (1))."""
        side = self.own(self.job.policy)
        share = self.state.shares.get((self.job.tenant, self.name))
        if share is not None and share.reservation is not None:
            side.append((share.use, share.reservation))
        return not self.must_borrow() and all(
            use.get(key, 0) + value <= reserved.get(key, 0) for use, reserved in side for key, value in self.asked.items()
        )

    def may_begin(self) -> bool:
        """Whether it could start if there were room: one that may not borrow, only inside its reservation.

        That is attributed to what is not preemptible first (R17).
        """
        job = self.job
        links = [link for link in job.policy.document.profiles if link.name == job.profile]
        if job.preemptible and all(link.borrow for link in links):
            return True
        if job.preemptible:
            return self.is_inside()
        document, name = job.policy.document, self.name
        accounts = [(job.policy.wide, document.reservation)]
        block = document.per_pool.get(name)
        if block is not None and name in job.policy.scopes:
            accounts.append((job.policy.scopes[name], block.reservation))
        if (document.reservation, block and block.reservation) == (None, None):
            accounts = [(job.policy.wide, {})]
        share = self.state.shares.get((job.tenant, name))
        if share is not None:
            accounts.append((share, share.reservation))
        return not self.must_borrow() and all(
            account.firm.get(key, 0) + value <= reserved.get(key, 0)
            for account, reserved in accounts
            if reserved is not None
            for key, value in self.asked.items()
        )

    # Who (R24, R25).

    def short(self) -> set[str]:
        share = self.state.shares.get((self.job.tenant, self.name))
        short = set()
        for key, value in self.asked.items():
            taken = max(self.pool.use.get(key, 0), self.pool.leased.get(key, 0))
            if self.pool.usable.get(key, 0) - taken < value or self.idle(key) < value:
                short.add(key)
            if share is not None and key in share.limit and share.use.get(key, 0) + value > share.limit[key]:
                short.add(key)
        return short or set(self.asked)

    def idle(self, key: str) -> int:
        """What is free of a key on the nodes that the job may use; of a key of no node, any amount (R21)."""
        nodes = [node for node in self.pool.nodes.values() if self.in_service(node) and self.may_use(node)]
        if len(nodes) == len(self.pool.nodes) or key not in (GPU, CPU, MEMORY):
            return 10**18
        if key == GPU:
            return sum(device.idle for node in nodes for device in node.devices)
        free = [
            node.cpu_free - node.cpu_nominated if key == CPU else node.memory_free - node.memory_nominated for node in nodes
        ]
        return sum(max(0, units) for units in free)

    def in_service(self, node: NodeState) -> bool:
        """Whether the node takes new work (R6); before the amendment it was enough that it is there."""
        takes = not node.cordoned and node.maintenance is None and (node.probation is None or not node.probation.job)
        return node.status == "ready" and (takes or not self.state.terms.amended)

    def may_use(self, node: NodeState) -> bool:
        """Whether the node is not dedicated, or to the job's policy or tenant (R21)."""
        document = self.pool.document
        by_label = [given.to for given in document.dedicated if given.selector.items() <= node.labels.items()]
        owner = by_label[0] if by_label else document.dedicated_to
        tenant, policy = self.job.policy.key
        return owner is None or owner.tenant == tenant or owner.policy == f"{tenant}/{policy}"

    def above(self, victim: JobRecord, gone: Jobs = ()) -> bool:
        """Whether the victim's side is above its reservation on a short key it holds, once `gone` are gone (R24)."""
        side = self.lends_as(victim.policy)
        lost = [other for other in gone if self.same_side(other, victim)]
        return any(
            all(
                use.get(key, 0) - sum(other.request.total.get(key, 0) for other in lost) > reserved.get(key, 0)
                for use, reserved in side
            )
            for key in self.short()
            if victim.request.total.get(key, 0)
        )

    def same_side(self, one: JobRecord, other: JobRecord) -> bool:
        if one.policy is other.policy:
            return True
        mine, theirs = (self.lends_as(victim.policy) for victim in (one, other))
        return one.tenant == other.tenant and all(
            use is its_use for (use, _), (its_use, _) in zip(mine, theirs, strict=False)
        )  # the same accounts: not two that happen to hold the same

    def candidates(self, cause: str) -> list[JobRecord]:
        self._cause = cause
        may = self.may_reclaim_from if cause == "reclaim" else self.may_take_by_priority_from
        found = [
            victim
            for victim in self.state.jobs.values()
            if victim.state in (JobState.RUNNING, JobState.STARTING)
            and victim.preemptible
            and victim.policy is not self.job.policy
            and any(lease.pool == self.name for lease in victim.leases.values())
            and all(self.state.nodes[lease.node].healthy for lease in victim.leases.values())
            and may(victim.policy)
            and self.has_served(victim)
            and (self.above(victim) or self.yields_idle(victim, cause))
        ]
        return sorted(found, key=self.order)

    def yields_idle(self, victim: JobRecord, cause: str = "reclaim") -> bool:
        """Whether all of it is marked as idle, and its policy says that this yields to a reclaim (R39), of a short key that it holds."""
        document = victim.policy.document
        return (
            cause == "reclaim"
            and victim.preemptible
            and document.idle == "yield"
            and document.idle_after is not None
            and all(lease.idle_at > 0 for lease in victim.leases.values())
            and any(victim.request.total.get(key, 0) for key in self.short())
        )

    def has_served(self, victim: JobRecord) -> bool:
        needed = max(victim.min_runtime, victim.policy.document.preemption.min_runtime)
        runs = victim.started_at > 0 and not any(lease.resuming for lease in victim.leases.values())
        return needed == 0 or (runs and max(victim.started_at, victim.resumed_at) + needed <= self.now)

    def order(self, victim: JobRecord) -> tuple[object, ...]:
        """R24's shelter, then R25's order."""
        above_own = any(
            all(use.get(key, 0) > reserved.get(key, 0) for use, reserved in self.lending(victim.policy))
            for key, value in victim.request.total.items()
            if value and key in self.governed
        )
        bucket, seconds = 0, self.lost(victim) // GPU_UNITS
        while seconds > 1:
            bucket, seconds = bucket + 1, seconds // 2
        idle, spare = False, False
        if self.yields_idle(victim, self._cause):
            idle, spare = True, not self.above(victim)
        if idle and not spare:
            bucket = -1
        granted = max((lease.sequence, lease.place) for lease in victim.leases.values())
        sheltered = victim.tenant != self.job.tenant and not above_own
        return 2 if spare else int(sheltered), victim.policy.document.priority, bucket, (-granted[0], -granted[1]), victim.key

    def lost(self, victim: JobRecord) -> int:
        if not victim.started_at:
            return 0
        since = victim.checkpoint_at if victim.checkpoint_attempt == victim.attempt else 0
        span = max(0, self.now - max(victim.started_at, since) - (victim.paused - victim.paused_saved))
        every = victim.policy.document.preemption.assume_checkpoint_every
        return victim.request.total.get(GPU, 0) * (span if every is None else min(span, every)) // SECOND

    # Which sets (R26).

    def is_legal(self, members: Jobs, cause: str) -> bool:
        if cause == "priority" and not all(self.is_safe(victim, members) for victim in members):
            return False
        return frozenset(members) in self.takeable(cause)

    def takeable(self, cause: str) -> set[frozenset[JobRecord]]:
        """Every set whose members can be taken in some order, each while its side is still above: grown one by one, from the empty set.

        Idle ones may go whatever is reserved, and go first (R39), so that each set of them is a beginning.
        """
        found = self._takeable.get(cause)
        if found is None:
            jobs = self.candidates(cause)
            idle = [victim for victim in jobs if self.yields_idle(victim, cause)]
            jobs = [victim for victim in jobs if victim not in idle]
            edge = {frozenset(some) for size in range(len(idle) + 1) for some in combinations(idle, size)}
            found = self._takeable[cause] = set(edge)
            while edge:
                edge = {
                    gone | {victim}
                    for gone in edge
                    for victim in jobs
                    if victim not in gone and self.above(victim, tuple(gone))
                }
                found |= edge
        return found

    def is_safe(self, victim: JobRecord, members: Jobs) -> bool:
        """Whether the victim could not reclaim afterwards."""
        lost = [other for other in members if self.same_side(other, victim) and other is not victim]
        return any(
            use.get(key, 0) - sum(other.request.total.get(key, 0) for other in lost) > reserved.get(key, 0)
            for use, reserved in self.side(victim.policy, self.job.policy)
            for key, value in victim.request.total.items()
            if value and key in self.governed
        )

    def is_sufficient(self, gone: Iterable[JobRecord], nodes: Iterable[str] | None = None) -> bool:
        """Whether the preemptor's replicas place once these, and those that leave anyway, have left."""
        leases = self.leaving()
        counted = [lease for lease in leases if not lease.job.yields_to]
        taken = [left_by(lease) for job in gone for lease in job.leases.values()]
        freed = [*counted, *taken]
        share = self.state.shares.get((self.job.tenant, self.name))
        for key, value in self.asked.items():
            is_slice = bool(self.job.request.shape.mig) and key == GPU and not self.sums_bind()
            if not is_slice and self.used(key, freed) + value > self.pool.usable.get(key, 0):
                return False
            if not is_slice and self.leased(key, [*leases, *taken]) + value > self.pool.usable.get(key, 0):
                return False  # the end of overdue jobs is unknown
            if share is not None and key in share.limit:
                own = sum(lease.amounts.get(key, 0) for lease in freed if lease.job.tenant == self.job.tenant)
                if share.use.get(key, 0) - own + value > share.limit[key]:
                    return False
                gone = sum(lease.amounts.get(key, 0) for lease in [*leases, *taken] if lease.job.tenant == self.job.tenant)
                if share.leased.get(key, 0) - gone + value > share.limit[key]:
                    return False
        names = self.pool.nodes if nodes is None else nodes
        capacity: dict[tuple[str, ...] | None, int] = {}
        for name in names:
            node = self.pool.nodes[name]
            here = self.capacity(node, [lease for lease in [*leases, *taken] if lease.node == name])
            stands = self.stands(node)
            capacity[stands] = capacity.get(stands, 0) + here
        return max((capacity[stands] for stands in capacity if stands is not None), default=0) >= self.job.request.replicas

    def stands(self, node: NodeState) -> tuple[str, ...] | None:
        """Where a node stands, as far as the job cares (R40): all nodes alike if it requires nothing; None: nowhere."""
        required, levels = self.job.request.required, self.pool.document.topology
        if not required:
            return ()
        wider = levels[: levels.index(required) + 1] if required in levels else ()
        stands = tuple(node.labels.get(level, "") for level in wider)
        return stands if stands and all(stands) else None

    def leaving(self) -> list[Freed]:
        """What comes free anyway, if nothing is overdue."""
        stopping = [job for job in self.state.jobs.values() if job.state is JobState.STOPPING]
        leases = [lease for job in stopping for lease in job.leases.values()]
        return [left_by(lease) for lease in leases if not lease.overdue and lease.pool == self.name]

    def sums_bind(self) -> bool:
        """Whether not all that nodes have idle is to be had: of slices too, sums then say more than geometry (R4, R6)."""
        idle = sum(device.idle for node in self.pool.nodes.values() if node.status == "ready" for device in node.devices)
        taken = max(self.pool.use.get(GPU, 0), self.pool.leased.get(GPU, 0))
        return GPU in self.pool.document.capacity or taken + idle > self.pool.usable.get(GPU, 0)

    def used(self, key: str, freed: list[Freed]) -> int:
        """What counts as used in the pool without some leases."""
        return self.without(key, self.pool.use, self.pool.cut.use, freed)

    def leased(self, key: str, gone: list[Freed]) -> int:
        """What leases hold in the pool without some of them."""
        return self.without(key, self.pool.leased, self.pool.cut.leased, gone)

    def without(self, key: str, there: Mapping[str, int], cut: Mapping[tuple[str, str], int], freed: list[Freed]) -> int:
        """What is left of an account; a device that is cut counts with at most one GPU (R4)."""
        total, charged = there.get(key, 0), dict(cut)
        if key != GPU:
            return total - sum(lease.amounts.get(key, 0) for lease in freed)
        before = sum(min(units, GPU_UNITS) for units in charged.values())
        for lease in freed:
            for share in lease.devices:
                if share.mig:
                    charged[lease.node, share.device] -= share.units
                else:
                    total -= share.units
        return total - before + sum(min(units, GPU_UNITS) for units in charged.values())

    def slices_more(self, family: str, there: list[tuple[int, str]]) -> int:
        """How many more of the slice it asks for fit on a GPU: put one after the other wherever cells are free (R4)."""
        offered, name, held = FAMILIES[family], self.job.request.shape.mig, 0
        kind = offered.slices.get(name)
        while kind is not None:
            cells = {cell for start, other in there for cell in range(start, start + offered.slices[other].memory)}
            engines = busiest(offered, there)
            starts = [start for start in kind.starts if cells.isdisjoint(range(start, start + kind.memory))]
            if not starts or engines + kind.compute > offered.compute or [one for _, one in there].count(name) >= kind.most:
                break
            there, held = [*there, (starts[0], name)], held + 1
        return held

    def opens(self, node: NodeState, gone: list) -> tuple[list[int], int]:
        """The open units of each device that is not cut, and how many slices the others still hold."""
        opens, slices = [], 0
        for device in node.devices:
            shares = [share for lease in gone for share in lease.devices if share.device == device.name]
            if not device.mig:
                opens.append(device.free - device.nominated + sum(share.units for share in shares))
            elif self.job.request.shape.mig:
                there = [*device.slices, *device.kept]
                for share in shares:
                    there.remove((share.start, share.mig))
                slices += self.slices_more(device.family, there)
        return opens, slices

    def capacity(self, node: NodeState, gone: list) -> int:
        shape = self.job.request.shape
        wants_gpu = bool(shape.whole or shape.fraction or shape.mig)
        if (
            not node.grantable
            or not self.may_use(node)
            or node.name in self.job.avoiding
            or (wants_gpu and shape.models and node.model not in shape.models)
        ):
            return 0
        opens, slices = self.opens(node, gone)
        # More may be kept than is free, which is nothing to who asks for none.
        cpu = max(0, node.cpu_free - node.cpu_nominated + sum(lease.amounts.get(CPU, 0) for lease in gone))
        memory = max(0, node.memory_free - node.memory_nominated + sum(lease.amounts.get(MEMORY, 0) for lease in gone))
        held = 0
        while held < self.job.request.replicas and cpu >= shape.cpu and memory >= shape.memory:
            if shape.whole:
                free = [number for number, units in enumerate(opens) if units == GPU_UNITS][: shape.whole]
                if len(free) < shape.whole:
                    break
                for number in free:
                    opens[number] = 0
            elif shape.fraction:
                fitting = [number for number, units in enumerate(opens) if units >= shape.fraction]
                if not fitting:
                    break
                opens[fitting[0]] -= shape.fraction
            elif shape.mig and held == slices:
                break
            held, cpu, memory = held + 1, cpu - shape.cpu, memory - shape.memory
        return held

    def sets(self, cause: str) -> list[Jobs]:
        """All legal sufficient sets."""
        jobs = self.candidates(cause)
        if not self.is_sufficient(jobs):
            return []
        every = chain.from_iterable(combinations(jobs, size) for size in range(1, len(jobs) + 1))
        return [chosen for chosen in every if self.is_legal(chosen, cause) and self.is_sufficient(chosen)]

    def is_at_own_limit(self) -> bool:
        policy = self.job.policy
        limits = [(policy.wide.use, policy.document.limit)]
        block, account = policy.document.per_pool.get(self.name), policy.scopes.get(self.name)
        if block is not None:
            limits.append((account.use if account is not None else {}, block.limit))
        return not self.job.beyond and (
            self.is_at_limit_of_user()
            or any(
                key in limit and use.get(key, 0) + self.overdue(key, everywhere=use is policy.wide.use) + value > limit[key]
                for use, limit in limits
                for key, value in self.asked.items()
            )
        )

    def is_at_limit_of_user(self) -> bool:
        """Whether its user would hold more than each user of its policy may, in all pools (R7); of jobs, whatever the pool governs (R5)."""
        policy, user = self.job.policy, self.job.user
        use = policy.users[user].use if policy.users is not None else {}
        limit = policy.document.per_user.limit if policy.document.per_user is not None else {}
        return any(
            key in limit and use.get(key, 0) + self.overdue(key, everywhere=True, user=user) + value > limit[key]
            for key, value in self.job.request.total.items()
            if value and key in {JOB, *self.governed}
        )

    def overdue(self, key: str, *, everywhere: bool, user: str = "") -> int:
        """What its own policy's jobs hold that yield and are overdue, or one user's: their end is unknown (R17, R28)."""
        jobs = [job for job in self.job.policy.jobs.values() if job.yields_to and user in ("", job.user)]
        leases = [lease for job in jobs for lease in job.leases.values()]
        return sum(
            0 if key == GPU and lease.suspended_at else lease.amounts.get(key, 0)
            for lease in leases
            if lease.overdue and (everywhere or lease.pool == self.name)
        )

    def is_of_nodes(self) -> bool:
        """Whether what is missing belongs to nodes: one replica, and no ceiling or limit of pool or tenant in the way."""
        leaving = self.leaving()
        leases = [lease for lease in leaving if not lease.job.yields_to]
        share = self.state.shares.get((self.job.tenant, self.name))
        for key, value in self.asked.items():
            is_of_pool = self.sums_bind() if key == GPU else key in self.pool.document.capacity
            taken = max(self.used(key, leases), self.leased(key, leaving))
            if is_of_pool and taken + value > self.pool.usable.get(key, 0):
                return False
            own = sum(lease.amounts.get(key, 0) for lease in leases if lease.job.tenant == self.job.tenant)
            if share is not None and key in share.limit and share.use.get(key, 0) - own + value > share.limit[key]:
                return False
            gone = sum(lease.amounts.get(key, 0) for lease in leaving if lease.job.tenant == self.job.tenant)
            if share is not None and key in share.limit and share.leased.get(key, 0) - gone + value > share.limit[key]:
                return False
        return self.job.request.replicas == 1

    def by_node(self, cause: str) -> Jobs | None:
        """The best plan of all nodes, each made as R26 says; None if that finds no victims."""
        plans = []
        for name in self.pool.nodes:
            there = [job for job in self.candidates(cause) if any(lease.node == name for lease in job.leases.values())]
            plan = self.on_node(name, there, cause)
            if plan is not None:
                merit = (max(map(self.order, plan)), len(plan), sum(map(self.lost, plan)), name)
                plans.append((merit, plan))
        return min(plans)[1] if plans else None

    def on_node(self, name: str, there: list[JobRecord], cause: str) -> Jobs | None:
        """Take in R25's order until it fits, give back in reverse; where that does not do, drop the first and try again."""
        for first in range(len(there)):
            taken: Jobs = ()
            for victim in there[first:]:
                if not self.is_legal((*taken, victim), cause):
                    continue
                taken = (*taken, victim)
                if self.is_sufficient(taken, [name]):
                    for other in reversed(taken[:-1]):
                        fewer = tuple(job for job in taken if job is not other)
                        taken = fewer if self.is_sufficient(fewer, [name]) else taken
                    return taken
        return None
