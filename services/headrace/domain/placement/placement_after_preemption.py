"""Where a preemptor would go once certain jobs have left (R26: sufficient means that its replicas place, not that sums fit).

Strategy: jobs leave a clearing and come back, one at a time, and it keeps count of how many replicas its nodes could then hold and of what
the accounts that belong to no node still lack, so that asking costs nothing. Whatever is on its way out already counts as gone; what is
nominated for others counts as taken. Nothing in the state is changed.

It stays apart from `Trial` because of speed: a search lets thousands of victims leave and come back, of whom a trial would change devices,
accounts and indexes each time. `tests/properties/test_trials.py` holds it equal to a trial.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING

from headrace.contracts.facts.fact import Place
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, MEMORY
from headrace.contracts.values.mig import more_of
from headrace.domain.model.devices import counted
from headrace.domain.placement.placement import pick_devices, pick_slice
from headrace.domain.state.capacity import freed_by
from headrace.domain.state.job_deadlines import walking
from headrace.domain.state.supply import sums_bind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from headrace.contracts.facts.fact import DeviceShare
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.indexes.slice_packing import SliceMix
    from headrace.domain.model.jobs import JobRecord, LeaseState, Scope
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.requests import Request, Shape
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State


UNBOUNDED = 1_000_000
"""Replicas that a node can hold of a request that takes nothing of it."""


def leaving_anyway(state: State, pool: PoolState) -> dict[str, list[LeaseState]]:
    """By node, the leases under a ladder, for whatever cause, that will be gone in time: first to be counted on (R25)."""
    name = pool.document.name
    found: dict[str, list[LeaseState]] = {}
    for key in state.ladders.moments:
        for lease in walking(state.jobs[key]):
            if lease.pool == name:
                found.setdefault(lease.node, []).append(lease)
    return found


class AccountShortage:
    """What a job lacks of each key in one account that belongs to no node: a ceiling of the pool (R6), or its tenant's limit there (R23).

    `tenant`: only jobs of it free anything in the account; empty: all do. Keys with enough left are left out. `cut`: charges of
    slices, where a device that is cut counts with at most one GPU (R4).
    """

    __slots__ = ("cut", "lacks", "tenant")

    def __init__(self, lacks: Amounts, tenant: str, cut: Mapping[tuple[str, str], int]) -> None:
        self.lacks = lacks
        self.tenant = tenant
        self.cut = dict(cut)

    def move(self, leases: Iterable[LeaseState], sign: int) -> None:
        """Leases go (sign 1) or come back (sign -1)."""
        lacks, tenant, cut = self.lacks, self.tenant, self.cut
        for lease in leases:
            if tenant and tenant != lease.job.tenant:
                continue
            freed = freed_by(lease)
            amounts = counted(cut, freed, -sign) if cut else freed.amounts
            for key in lacks:
                lacks[key] -= sign * amounts.get(key, 0)

    def free(self, jobs: Mapping[Request, int]) -> None:
        """This number of jobs of each request leaves, with all that they hold; not for `tenant` or `cut`, where jobs and nodes matter."""
        for request, number in jobs.items():
            for key in self.lacks:
                self.lacks[key] -= number * request.total.get(key, 0)

    def fits(self) -> bool:
        """Whether nothing is lacking."""
        return all(amount <= 0 for amount in self.lacks.values())

    def copy(self) -> AccountShortage:
        """One that can be moved by itself."""
        return AccountShortage(dict(self.lacks), self.tenant, self.cut)


def accounts_of(state: State, job: JobRecord, pool: PoolState, anyway: Iterable[LeaseState]) -> list[AccountShortage]:
    """The accounts in which the job lacks something, once what leaves `anyway` has left.

    Where sums do not bind before nodes do, geometry alone decides about slices (R4); else they count here with all that they are charged,
    which may be more than they will count. What victims hold that are overdue is in no account of use, and may stay: where leases would
    hold more than is used, they are an account as well, since neither may exceed what is usable (R6), nor a tenant's limit (R17).
    """
    stuck: list[AccountShortage] = []
    anyway = tuple(anyway)
    governed = [(key, asked) for key, asked in job.request.total.items() if asked and key in pool.governed]
    counts = job.request.total if job.request.shape.mig and sums_bind(pool) else job.request.sums
    lacks = {key: pool.use.get(key, 0) + counts[key] - pool.usable.get(key, 0) for key, _ in governed if key in counts}
    accounts = [AccountShortage({key: amount for key, amount in lacks.items() if amount > 0}, "", pool.cut.use)]
    share = state.shares.get((job.tenant, pool.document.name))
    if share is not None:
        over = {key: share.use.get(key, 0) + asked - share.limit[key] for key, asked in governed if key in share.limit}
        accounts.append(AccountShortage({key: amount for key, amount in over.items() if amount > 0}, job.tenant, {}))
        if share.leased_minus_use and state.terms.amended:
            stuck.append(_held_in_share(share, over, job, anyway))
    for lease in anyway:
        if not lease.job.yields_to:  # else it is out of these accounts already, and cannot free anything twice (R17)
            for account in accounts:
                account.move((lease,), 1)
    if pool.leased_minus_use:
        used, held = accounts[0].lacks, pool.leased
        account = AccountShortage(
            {key: held.get(key, 0) + counts[key] - pool.usable.get(key, 0) for key in lacks}, "", pool.cut.leased
        )
        account.move(anyway, 1)
        account.lacks = {key: amount for key, amount in account.lacks.items() if amount > max(0, used.get(key, 0))}
        accounts.append(account)
    return [account for account in (*accounts, *stuck) if account.lacks]


def _held_in_share(share: Scope, over: Amounts, job: JobRecord, anyway: Iterable[LeaseState]) -> AccountShortage:
    """What leases hold beyond a tenant's limit, once what leaves has left: more than will be used where some are overdue (R17, R28)."""
    more = share.leased_minus_use
    account = AccountShortage({key: amount + more.get(key, 0) for key, amount in over.items()}, job.tenant, {})
    account.move(anyway, 1)
    account.lacks = {key: amount for key, amount in account.lacks.items() if amount > max(0, over[key])}
    return account


class PlacementAfterPreemption:
    """What some nodes of a pool, and the accounts there, could give to one job once others have left.

    Jobs come back in the reverse order of their leaving, or any other: the count is the same. `replicas`: how many the examined nodes
    could hold, which are those that some job left; `goal`: how many it should be. A node on which not even the sums suffice for one
    replica holds none, and is not examined device by device before they do.
    """

    __slots__ = ("_accounts", "_anyway", "_gone", "_job", "_least", "_missing", "_mix", "_nodes", "_opened", "goal", "replicas")

    def __init__(
        self,
        job: JobRecord,
        nodes: Iterable[NodeState],
        anyway: Mapping[str, Sequence[LeaseState]],
        accounts: Iterable[AccountShortage],
        mix: SliceMix | None,
    ) -> None:
        self._mix = mix
        shape = job.request.shape
        self._job = job
        self._nodes = {node.name: node for node in nodes}
        self._anyway = anyway
        self._accounts = [account.copy() for account in accounts]
        self._least = 0 if shape.mig else shape.whole * GPU_UNITS or shape.fraction
        self._missing: dict[str, int] = {}
        self._gone: set[JobRecord] = set()
        self._opened: dict[str, NodeAfterPreemption] = {}
        self.replicas = 0
        self.goal = job.request.replicas

    def open_all(self) -> dict[str, int]:
        """Examine every node, also those that no job left: how many replicas each could hold."""
        for name in self._nodes:
            if name not in self._opened and self._missing_on(name) <= 0:
                self._open(name)
        opened = self._opened
        return {name: opened[name].replicas if name in opened else 0 for name in self._nodes}

    def _missing_on(self, name: str) -> int:
        """GPU units that have to be set free on a node before it could hold anything, at the least."""
        found = self._missing.get(name)
        if found is None:
            found = 0
            if self._least and name not in self._anyway:
                found = self._least - sum([device.free for device in self._nodes[name].devices])
            self._missing[name] = found
        return found

    def _open(self, name: str) -> NodeAfterPreemption:
        node, gone = self._nodes[name], self._gone
        leaving = [*self._anyway.get(name, ()), *[lease for lease in node.leases.values() if lease.job in gone]]
        found = self._opened[name] = NodeAfterPreemption(node, self._job.request.shape, leaving, self._mix)
        self.replicas += found.replicas
        return found

    def leave(self, victim: JobRecord) -> None:
        """The victim is gone."""
        self._gone.add(victim)
        self._move(victim, 1)

    def come_back(self, victim: JobRecord) -> None:
        """The inverse of `leave`."""
        self._gone.discard(victim)
        self._move(victim, -1)

    def leave_in_turn(self, victims: Iterable[tuple[JobRecord, str]]) -> Iterator[int]:
        """Victims leave one after the other; how many have, whenever more replicas may fit by it, and at the end.

        With each comes the node on which it stands alone (`site_of`). Thousands may have to leave before any node can hold a replica: a
        victim that leaves a node known to be too full is only noted, and accounts are updated for all of them together.
        """
        left, goal, missing, gone = 0, self.goal, self._missing, self._gone
        tracks_each = any(account.tenant or account.cut for account in self._accounts)
        uncounted: defaultdict[Request, int] = defaultdict(int)
        for left, (victim, site) in enumerate(victims, 1):
            if tracks_each or missing.get(site, 0) <= 0:
                self.leave(victim)
            else:
                gone.add(victim)
                request = victim.request
                uncounted[request] += 1
                still = missing[site] = missing[site] - request.amounts.get(GPU, 0)
                if still <= 0:
                    self._open(site)
                elif self.replicas < goal:
                    continue
            self._free_in_accounts(uncounted)
            yield left
        if uncounted:
            self._free_in_accounts(uncounted)
            yield left

    def _free_in_accounts(self, uncounted: defaultdict[Request, int]) -> None:
        for account in self._accounts:
            account.free(uncounted)
        uncounted.clear()

    def leave_all(self, victims: Iterable[tuple[JobRecord, str]]) -> None:
        """All of them are gone."""
        for _ in self.leave_in_turn(victims):
            pass

    def leave_until_enough(self, victims: Iterable[tuple[JobRecord, str]]) -> int:
        """Victims leave one after the other until it suffices; how many that are."""
        left = 0
        for left in chain((0,), self.leave_in_turn(victims)):
            if self.suffices:
                return left
        return left

    def _move(self, victim: JobRecord, sign: int) -> None:
        """On a node that is not examined yet only sums are followed: it is examined when enough has left it."""
        leases, unseen = victim.leases.values(), {}
        for lease in leases:
            name = lease.node
            node = self._opened.get(name)
            if node is not None:
                self.replicas += node.move(lease, sign)
            elif name in self._nodes:
                missing = self._missing[name] = self._missing_on(name) - sign * lease.amounts.get(GPU, 0)
                unseen[name] = missing
        for name, missing in unseen.items():
            if missing <= 0:
                self._open(name)
        for account in self._accounts:
            account.move(leases, sign)

    def replicas_on(self, name: str) -> int:
        """How many replicas one node could hold if some job left it; 0 for any other."""
        node = self._opened.get(name)
        return 0 if node is None else node.replicas

    @property
    def suffices(self) -> bool:
        """Whether enough replicas fit, and no account is in the way."""
        return self.replicas >= self.goal and all(account.fits() for account in self._accounts)

    def places(self) -> tuple[Place, ...] | None:
        """A place for every replica, nodes by name; None if it does not suffice. The clearing is used up."""
        if not self.suffices:
            return None
        request = self._job.request
        places: list[Place] = []
        for name in sorted(self._opened):
            node = self._opened[name]
            while node.replicas and len(places) < request.replicas:
                place = node.hold(request.lease_amounts(len(places)))
                if place is None:
                    break
                places.append(place)
        return tuple(places) if len(places) == request.replicas else None


class NodeAfterPreemption:
    """What one node could give once some of its leases have gone. `replicas`: how many of the shape that would be."""

    __slots__ = (
        "_cpu",
        "_cpu_each",
        "_cut",
        "_fraction",
        "_memory",
        "_memory_each",
        "_mix",
        "_node",
        "_open",
        "_parts",
        "_shape",
        "_whole",
        "replicas",
    )

    def __init__(self, node: NodeState, shape: Shape, leaving: Iterable[LeaseState], mix: SliceMix | None) -> None:
        self._mix = mix
        self._node = node
        self._shape = shape
        self._whole, self._fraction, self._cpu_each, self._memory_each = shape.whole, shape.fraction, shape.cpu, shape.memory
        self._cpu = node.cpu_free - node.cpu_nominated
        self._memory = node.memory_free - node.memory_nominated
        opens = self._open = {device.name: device.free - device.nominated for device in node.devices if not device.denies_units}
        self._cut = {device.name: device.twin() for device in node.devices if device.mig} if shape.mig else {}
        self._parts = 0  # whole devices for a whole-GPU request, parts of devices for a fraction, slices (R3, R4)
        if shape.mig:
            self._parts = sum(map(self._slices_on, self._cut))
        elif self._whole:
            self._parts = list(opens.values()).count(GPU_UNITS)
        elif self._fraction:
            self._parts = sum(units // shape.fraction for units in opens.values() if units > 0)
        for lease in leaving:
            self._shift(lease, 1)
        self._count()

    def move(self, lease: LeaseState, sign: int) -> int:
        """What the lease holds is free (sign 1), or no longer (sign -1); how many more replicas fit."""
        before = self.replicas
        self._shift(lease, sign)
        self._count()
        return self.replicas - before

    def _shift(self, lease: LeaseState, sign: int) -> None:
        """What the shape does not ask for is not followed."""
        opens, whole, fraction, cut = self._open, self._whole, self._fraction, self._cut
        left = freed_by(lease)
        for share in left.devices:
            device = share.device
            if device in cut:
                self._parts -= self._slices_on(device)
                cut[device].take(share, -sign)
                self._parts += self._slices_on(device)
                continue
            before = opens.get(device)
            if before is None or share.mig:
                continue  # the node has it no more, or cuts it no more
            after = opens[device] = before + sign * share.units
            if whole:
                if after == GPU_UNITS:
                    self._parts += 1
                elif before == GPU_UNITS:
                    self._parts -= 1
            elif fraction:
                self._parts += max(after, 0) // fraction - max(before, 0) // fraction
        if self._cpu_each:
            self._cpu += sign * left.amounts.get(CPU, 0)
        if self._memory_each:
            self._memory += sign * left.amounts.get(MEMORY, 0)

    def _slices_on(self, name: str) -> int:
        device = self._cut[name]
        return 0 if device.layout is None else more_of(device.family, device.layout, self._shape.mig)

    def _count(self) -> None:
        replicas = self._parts // (self._whole or 1) if self._whole or self._fraction or self._shape.mig else UNBOUNDED
        if self._cpu_each and replicas * self._cpu_each > self._cpu:
            replicas = max(0, self._cpu // self._cpu_each)
        if self._memory_each and replicas * self._memory_each > self._memory:
            replicas = max(0, self._memory // self._memory_each)
        self.replicas = replicas

    def hold(self, amounts: Amounts) -> Place | None:
        """Put one replica here; None if no more fits. The count is not kept after this."""
        if self._cpu_each > max(0, self._cpu) or self._memory_each > max(0, self._memory):
            return None
        devices = self._pick(amounts.get(GPU, 0))
        if devices is None:
            return None
        self._cpu -= self._cpu_each
        self._memory -= self._memory_each
        self._take(devices)
        return Place(node=self._node.name, devices=devices, amounts=amounts)

    def _pick(self, units: int) -> tuple[DeviceShare, ...] | None:
        devices = self._node.devices
        if self._shape.mig:
            layouts = [self._cut[device.name].layout if device.mig else None for device in devices]
            return pick_slice(self._mix, self._node, layouts, self._shape.mig, units)
        return pick_devices(self._node, [max(0, self._open.get(device.name, 0)) for device in devices], self._shape)

    def _take(self, devices: tuple[DeviceShare, ...]) -> None:
        for share in devices:
            if share.mig:
                self._cut[share.device].take(share, 1)
            else:
                self._open[share.device] -= share.units
