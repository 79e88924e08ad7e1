"""Use and cost of a run: by policy, group and pool, reserved and borrowed (R17), at the prices of its own documents. Pure.

The split and the prices are those of the books (`accounting.books.meter`, `accounting.books.tariffs`), so that a run costs what a
statement would say, with two differences: times are those of the log, and a sum is rounded once, at its end, to a millionth of the
currency.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from headrace.accounting.books.costs import PriceList, hour_of, rounded
from headrace.accounting.books.meter import Reservation, UsageMeter, order_of
from headrace.accounting.books.rollups import RollupAccount, Rollups
from headrace.accounting.books.rows import PLACES
from headrace.accounting.books.supply import CHANGES_SUPPLY, Supply
from headrace.accounting.books.tariffs import PriceRow, TariffRow, Tariffs
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Pool, Tenant
from headrace.contracts.values.amounts import GPU
from headrace.contracts.values.durations import DAY

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.facts import AnyFact
    from headrace.domain.model.jobs import LeaseState, PolicyState
    from headrace.domain.state.state import State

SUM_EVERY = 4_000
"""Number of leases that begin or end between two settlements."""

NOTED: frozenset[type] = CHANGES_SUPPLY | {
    f.LeaseGrantedV1,
    f.LeaseStartedV1,
    f.LeaseEndedV1,
    f.LeaseRevokedV1,
    f.LeaseSuspendedV1,
    f.ResumeOrderedV1,
    f.LeaseResumedV1,
    f.PolicyAppliedV1,
    f.PolicyDeletedV1,
    f.TenantAppliedV1,
}
"""Facts that change use or cost."""

LeaseKey = tuple[str, int, int]
"""(job, attempt, rank) of a lease."""


class UsePlace(NamedTuple):
    """Tenant, policy and pool of use."""

    tenant: str
    policy: str
    group: str
    pool: str


@dataclass(slots=True)
class Used:
    """GPU units x microseconds, reserved and borrowed, and the cost of everything in millionths of the currency."""

    reserved: int = 0
    borrowed: int = 0
    cost: int = 0


@dataclass(slots=True, eq=False)
class _Held:
    """A lease that is held: its place in R17's order, and whether its GPUs are its own at the moment (R29); `since` when.

    `charged`: it has really started (R37).
    """

    order: int
    lease: LeaseState
    account: RollupAccount
    suspended: bool = False
    since: int = 0
    charged: bool = False


@dataclass(slots=True)
class _PoolCapacity:
    """Capacity of a pool so far: GPU units x microseconds up to `since`, and its present units."""

    units: int = 0
    since: int = 0
    total: int = 0

    def change(self, units: int, at: int) -> None:
        """Change the capacity to `units` from `at` on."""
        self.total += self.units * (at - self.since)
        self.units, self.since = units, at


def priced_keys(documents: Iterable[object]) -> frozenset[str]:
    """Return the keys that pools, and tenants' shares in them, have prices for; and GPUs."""
    keys = {GPU}
    for document in documents:
        pools = (document,) if isinstance(document, Pool) else document.shares if isinstance(document, Tenant) else ()
        for one in pools:
            keys.update(one.price, one.reserved_price)
    return frozenset(keys)


class Tally(NamedTuple):
    """Use of a run by place, and the GPU units x microseconds of each pool."""

    used: dict[UsePlace, Used]
    had: dict[str, int]


@dataclass(slots=True, eq=False)
class UsageCost:
    """Follows a run: receives every fact after the fold has read it. `keys`: those whose use is measured."""

    state: State
    keys: frozenset[str]
    used: dict[UsePlace, Used] = field(default_factory=dict)
    capacities: dict[str, _PoolCapacity] = field(default_factory=dict)
    """Capacity of each pool."""
    _tariffs: Tariffs = field(init=False)
    _sums: Rollups = field(init=False)
    _supply: Supply = field(init=False)
    _meters: dict[tuple[str, str, str], UsageMeter] = field(default_factory=dict)
    _held: dict[LeaseKey, _Held] = field(default_factory=dict)
    _tariff_rows: list[TariffRow] = field(default_factory=list)
    _price_rows: list[PriceRow] = field(default_factory=list)
    _events: int = 0
    _number: int = 0

    def __post_init__(self) -> None:
        """Create the parts that depend on the state."""
        self._tariffs = Tariffs(self.state)
        self._sums = Rollups(self._tariffs, DAY)
        self._supply = Supply(self.state)

    def begin(self, now: int) -> None:
        """Note what is held when the run begins, at log time `now`."""
        self._price(self.state.pools, now)
        self._take_stock(now)
        for policy in self.state.policies.values():
            self._reserve(policy.document.tenant, policy.document.name, now)
        for job in self.state.jobs.values():
            for lease in job.leases.values():
                self._begin(lease, now, over_budget=False, charged=bool(lease.charged))

    def note(self, fact: AnyFact, now: int) -> None:
        """Note one fact of the run, at log time `now`."""
        match fact:
            case f.PolicyAppliedV1():
                self._reserve(fact.policy.tenant, fact.policy.name, now)
            case f.PolicyDeletedV1():
                self._reserve(fact.tenant, fact.name, now)
            case f.TenantAppliedV1():
                self._price(self.state.pools, now)
            case _:
                self._note_lease(fact, now)
        if type(fact) in CHANGES_SUPPLY:
            self._take_stock(now)
            if isinstance(fact, f.PoolAppliedV1):
                self._price((fact.pool.name,), now)

    def _note_lease(self, fact: AnyFact, now: int) -> None:
        match fact:
            case f.LeaseGrantedV1():
                job = self.state.jobs.get(fact.job)
                lease = job.leases.get(fact.rank) if job is not None else None
                if lease is not None and (lease.sequence, lease.attempt) == (self.state.sequence, fact.attempt):
                    self._begin(lease, now, over_budget=fact.over_budget, charged=not self.state.terms.amended)
            case f.LeaseStartedV1():
                self._start(fact, now)
            case f.LeaseEndedV1() | f.LeaseRevokedV1():
                self._end((fact.job, fact.attempt, fact.rank), now)
            case f.LeaseSuspendedV1():
                self._suspend((fact.job, fact.attempt, fact.rank), now)
            case f.ResumeOrderedV1() if not self.state.terms.amended:
                job = self.state.jobs.get(fact.job)
                for rank in job.leases if job is not None else ():
                    self._resume((fact.job, fact.attempt, rank), now)
            case f.LeaseResumedV1():
                self._resume((fact.job, fact.attempt, fact.rank), now)

    def end(self, now: int) -> None:
        """End the run: leases that are still held were used until now."""
        for key in list(self._held):
            self._end(key, now)
        self._sum_up(now)
        for capacity in self.capacities.values():
            capacity.change(0, now)
        self._add_up()

    def tally(self) -> Tally:
        """Return the use, once the run is over."""
        return Tally(self.used, {pool: capacity.total for pool, capacity in self.capacities.items()})

    def _begin(self, lease: LeaseState, now: int, *, over_budget: bool, charged: bool) -> None:
        job = lease.job
        policy = job.policy.document
        account = RollupAccount(policy.tenant, policy.group, policy.name, "", "", False, lease.pool)
        order = order_of(lease.sequence * PLACES + lease.place, preemptible=job.preemptible, over_budget=over_budget)
        suspended = bool(lease.suspended_at) or (lease.resuming and self.state.terms.amended)
        held = self._held[job.key, lease.attempt, lease.rank] = _Held(order, lease, account, suspended=suspended)
        if charged:
            self._charge(held, now)

    def _start(self, fact: f.LeaseStartedV1, now: int) -> None:
        """Charge a job from the moment when all its replicas run (R35, R37)."""
        job = self.state.jobs.get(fact.job)
        if job is None or not any(attempt.number == fact.attempt and attempt.started_at for attempt in job.attempts):
            return
        for rank in range(job.request.replicas):
            held = self._held.get((fact.job, fact.attempt, rank))
            if held is not None and not held.charged:
                self._charge(held, now)

    def _charge(self, held: _Held, now: int) -> None:
        held.charged = True
        self._meter(held, now, begins=True, keys=self.keys - {GPU} if held.suspended else self.keys)

    def _end(self, key: LeaseKey, now: int) -> None:
        held = self._held.pop(key, None)
        if held is not None and held.charged:
            self._meter(held, now, begins=False, keys=self.keys - {GPU} if held.suspended else self.keys)

    def _suspend(self, key: LeaseKey, now: int) -> None:
        held = self._held.get(key)
        if held is not None and not held.suspended:
            held.suspended, held.since = True, max(now, held.since)
            if held.charged:
                self._meter(held, held.since, begins=False, keys=frozenset({GPU}))

    def _resume(self, key: LeaseKey, now: int) -> None:
        """Resume at least a microsecond after the suspension, so that the two intervals stay apart."""
        held = self._held.get(key)
        if held is not None and held.suspended:
            held.suspended, held.since = False, max(now, held.since + 1)
            if held.charged:
                self._meter(held, held.since, begins=True, keys=frozenset({GPU}))
            else:
                self._charge(held, held.since)

    def _meter(self, held: _Held, at: int, *, begins: bool, keys: frozenset[str]) -> None:
        at = max(at, held.since)
        for key in keys:
            amount = held.lease.amounts.get(key)
            if amount and begins:
                self._meter_of(held.account.tenant, held.account.policy, key).begin(at, held.order, amount, held.account)
            elif amount:
                self._meter_of(held.account.tenant, held.account.policy, key).end(at, held.order)
        self._events += 1
        if self._events == SUM_EVERY:
            self._sum_up(at)

    def _meter_of(self, tenant: str, policy: str, key: str) -> UsageMeter:
        place = (tenant, policy, key)
        meter = self._meters.get(place)
        if meter is None:
            meter = self._meters[place] = UsageMeter(key)
        return meter

    def _reserve(self, tenant: str, name: str, now: int) -> None:
        policy: PolicyState | None = self.state.policies.get((tenant, name))
        reserved = (policy.document.reservation or {}) if policy is not None else {}
        self._number += 1
        for key in self.keys:
            self._meter_of(tenant, name, key).reserve(Reservation(now, self._number, reserved.get(key, 0)))

    def _sum_up(self, now: int) -> None:
        """Settle up to `now`: time only advances; a resumption that was put off by a microsecond is still in the meters."""
        self._events = 0
        for meter in self._meters.values():
            self._sums.held(meter.key, meter.settle({}))
            meter.forget(now - 1)

    def _price(self, pools: Iterable[str], now: int) -> None:
        self._number += 1
        for tariff, prices in self._tariffs.changed(self._number, pools, now):
            self._tariff_rows.append(tariff)
            self._price_rows += prices

    def _take_stock(self, now: int) -> None:
        for row in self._supply.changes(self.state.sequence):
            if row.key == GPU:
                self.capacities.setdefault(row.pool, _PoolCapacity(since=now)).change(row.usable, now)

    def _add_up(self) -> None:
        """Add up by place; each sum of one key at one rate is rounded once."""
        prices = PriceList(self._tariff_rows, self._price_rows)
        sums: dict[tuple[UsePlace, str, int], int] = {}
        for row in self._sums.take().days:
            place = UsePlace(row.tenant, row.policy, row.group_name, row.pool)
            used = self.used.setdefault(place, Used())
            if row.key == GPU:
                used.reserved += row.reserved
                used.borrowed += row.borrowed
            on_demand, reserved = prices.rates(row.tariff, row.pool, row.tenant, row.key)
            sums[place, row.key, reserved] = sums.get((place, row.key, reserved), 0) + row.reserved
            sums[place, row.key, on_demand] = sums.get((place, row.key, on_demand), 0) + row.borrowed
        for (place, key, rate), units in sums.items():
            self.used[place].cost += rounded(units * rate, hour_of(key))
