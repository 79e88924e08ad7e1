"""How much of each key of a pool is used, kept, free and unusable (R6, R22), for all or for one job. Pure.

Strategy: the units of each node are either held by leases, kept for a job that waits (R16, R27), or unused. Unused units are free where
they can be granted now; where they cannot, they are unusable, for one cause on each node or device. What can be granted is bounded by the
pool's sums as well: a declared capacity may be less than what nodes bring, and leases on lost nodes count until they are revoked. So
used + kept + free + unusable = capacity for every key, unless leases hold more than the capacity, which a pool that was made smaller has.

This is the one place that computes what is free for people: the views of pools and nodes, metrics, scenarios and `why` all read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from headrace.contracts.messages.explanation import UnusableView
from headrace.contracts.values.amounts import CPU, GPU_UNITS, MEMORY, format_amount, format_amounts, gpus_first, model_of
from headrace.contracts.values.durations import format_time
from headrace.domain.backfill.holds import holds_before, withhold
from headrace.domain.model.census import is_hardware
from headrace.domain.model.dedication import may_use
from headrace.domain.placement.placement import may_hold, model_allowed
from headrace.domain.state.quota import free_of, is_bounded
from headrace.domain.state.supply import new_nodes
from headrace.domain.state.trial import Trial

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.model.preemption_state import Hold
    from headrace.domain.model.requests import Shape
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

T = TypeVar("T")

SHOWN_MAX = 3
"""Causes that a message names; of others it says how many more there are."""

CORDONED, DRAINING, DRAINED = "cordoned", "draining", "drained"
REFUSING, PROBATION, UNFIT, MIG_MODE, NOT_CREATED = "refusing", "probation", "unfit", "mig-mode", "not-created"
EXCLUDED, DEDICATED, MODEL, ISOLATION, CONTAINER = "excluded", "dedicated", "model", "isolation", "container"
TAKEN_BACK = "spot"
MAINTENANCE, MAINTENANCE_AHEAD = "maintenance", "maintenance-ahead"
NO_ENGINE = "it has no container engine, Podman or Docker"

_CAUSE_TEXTS = {
    DRAINED: "drained",
    REFUSING: "set aside after refused starts",
    PROBATION: "on probation with one job",
    MIG_MODE: "switched to another MIG mode while jobs were on it",
    NOT_CREATED: "not created yet",
    EXCLUDED: "excluded, since it did not start this job",
    DEDICATED: "dedicated to others",
    MODEL: "of another GPU model",
    ISOLATION: "unable to isolate jobs as asked",
    CONTAINER: "unable to run containers",
    TAKEN_BACK: "spot instances",
    MAINTENANCE: "in maintenance",
    MAINTENANCE_AHEAD: "open only to jobs that end before its maintenance begins",
}
"""Causes in words, where they are not their own."""


class Cause(NamedTuple):
    """Why a node or a device of it takes nothing now, who caused that, and since when (0: unknown)."""

    cause: str
    by: str = ""
    since: int = 0
    detail: str = ""


class Stock(NamedTuple):
    """What there is of one key of a pool, in units; `causes` make up `unusable`."""

    capacity: int
    used: int
    kept: int
    free: int
    unusable: int
    causes: tuple[UnusableView, ...] = ()


_Judge = Callable[["NodeState"], Cause | None]
"""Why a node takes nothing; None: it takes what fits."""


def stocks(state: State, pool: PoolState, keys: Iterable[str]) -> dict[str, Stock]:
    """Amounts of these keys, for all: nothing that is kept for any job is free."""
    name = pool.document.name
    holds = [hold for hold in state.holds.values() if hold.pool == name]
    return _stocks(state, pool, keys, holds, out_of_service)


def stocks_for(state: State, job: JobRecord, pool: PoolState, keys: Iterable[str]) -> dict[str, Stock]:
    """What there is of these keys for one job that waits: what is kept for jobs that rank behind it is free for it (R16)."""
    holds = holds_before(state, job, pool, state.now) if state.holds else []
    return _stocks(state, pool, keys, holds, lambda node: unsuitable(pool, node, job))


def sums_fit(state: State, job: JobRecord, pool: PoolState) -> bool:
    """Whether so much of every key that counts in sums (R5) is free for the job, on whatever nodes and devices."""
    asked = job.request.total
    counting = [key for key in asked if asked[key] and is_bounded(pool, key)]
    if any(asked[key] > free_of(pool, key) for key in counting):
        return False
    return all(asked[key] <= stock.free for key, stock in stocks_for(state, job, pool, counting).items())


def out_of_service(node: NodeState) -> Cause | None:
    """Why nothing may be granted on a node now, to any job; None: something may. The counterpart of `NodeState.grantable`."""
    if not node.healthy:
        return Cause(node.status, since=node.status_at)
    if node.cordoned:
        return Cause(_cordon_of(node), node.cordoned_by, node.cordoned_at)
    if node.maintenance is not None:
        return Cause(MAINTENANCE, since=node.maintenance.begins, detail=f"until {format_time(node.maintenance.ends)}")
    if node.probation is not None and node.probation.job:
        return Cause(PROBATION)
    return None


def _cordon_of(node: NodeState) -> str:
    if node.draining:
        return DRAINING if node.leases else DRAINED
    return CORDONED if node.cordoned_by else REFUSING


def unsuitable(pool: PoolState, node: NodeState, job: JobRecord) -> Cause | None:
    """Why a job may not go to a node now; None: it may. The counterpart of `may_hold`."""
    if may_hold(pool, node, job):
        return None
    shape = job.request.shape
    away = out_of_service(node)
    if away is not None:
        return away
    if not may_use(pool.document, node, job.policy.key):
        return Cause(DEDICATED)
    if not model_allowed(node.model, shape):
        return Cause(MODEL, detail=node.model)
    if not shape.is_isolated_by(node.levels):
        return _lacking(node, shape)
    if not shape.runs_on(node.levels):
        return Cause(TAKEN_BACK)
    if node.name not in job.avoids or pool.document.name in job.outlasts:
        return Cause(MAINTENANCE_AHEAD)
    return Cause(EXCLUDED, detail=f"left alone until {format_time(job.avoids[node.name])}")


def _lacking(node: NodeState, shape: Shape) -> Cause:
    """What a node lacks to run a job of this shape as isolated as it has to be."""
    if not shape.contained or shape.isolation_on(node.levels) != -1:
        return Cause(ISOLATION)
    if node.levels.container < 0:
        return Cause(CONTAINER, detail=NO_ENGINE)
    return Cause(CONTAINER, detail=f"its container engine cannot give them {_part_of(shape)}")


def _part_of(shape: Shape) -> str:
    if shape.mig:
        return "slices of a GPU"
    return "a part of a GPU" if shape.fraction else "GPUs"


def free_on(node: NodeState, key: str) -> int:
    """Units of GPU, cpu or memory that can be granted on a node now."""
    return 0 if out_of_service(node) is not None else sum(part.unused for part in _parts(node, key) if part.cause is None)


def free_for(state: State, job: JobRecord, pool: PoolState) -> str:
    """`gpu 2 free in pool hall; unusable: 1 gpu on n-2: cordoned by acme.olga since 2026-…`."""
    keys = [key for key, _ in gpus_first(dict.fromkeys(pool.governed, 0))]
    found = stocks_for(state, job, pool, keys)
    free = f"{format_amounts({key: stock.free for key, stock in found.items()})} free in pool {pool.document.name}"
    causes = named(one for key in keys for one in found[key].causes if job.request.total.get(key))
    return f"{free}; unusable: {causes}" if causes else free


def away_from(pool: PoolState, job: JobRecord) -> str:
    """`n-1 is lost since 2026-…; n-2 is cordoned by acme.olga since 2026-…`: the first few nodes to which the job may not go, and why."""
    nodes = (node for _, node in sorted(pool.nodes.items()))
    away = [(node, cause) for node in nodes if (cause := unsuitable(pool, node, job)) is not None]
    return _first_few(away, lambda one: f"{one[0].name} is {cause_text(one[1])}")


def named(causes: Iterable[UnusableView]) -> str:
    """`1 gpu on n-2: cordoned by acme.olga since 2026-…; …`: the first few of what is unusable, in words."""
    return _first_few(
        list(causes), lambda one: f"{format_amount(one.key, one.amount)} {one.key}{_where(one.node)}: {cause_text(one)}"
    )


def _first_few(found: list[T], text_of: Callable[[T], str]) -> str:
    """The texts of the first few only: a pool may have ten thousand nodes."""
    texts, more = [text_of(one) for one in found[:SHOWN_MAX]], len(found) - SHOWN_MAX
    return "; ".join([*texts, f"and {more} more"] if more > 0 else texts)


def _where(node: str) -> str:
    return f" on {node}" if node else ""


def cause_text(one: UnusableView | Cause) -> str:
    """`cordoned by acme.olga since 2026-…`."""
    by = f" by {one.by}" if one.by else ""
    since = f" since {format_time(one.since)}" if one.since else ""
    detail = f" ({one.detail})" if one.detail else ""
    return f"{_CAUSE_TEXTS.get(one.cause, one.cause)}{by}{since}{detail}"


class _Part(NamedTuple):
    """A device, or the cpu or memory of a node: units held, kept and neither; `cause` where the part itself takes nothing."""

    held: int
    kept: int
    unused: int
    cause: Cause | None = None


def _parts(node: NodeState, key: str) -> Iterator[_Part]:
    if key == CPU:
        yield _Part(node.cpu - node.cpu_free, max(0, node.cpu_free) - node.cpu_open, node.cpu_open)
    elif key == MEMORY:
        yield _Part(node.memory - node.memory_free, max(0, node.memory_free) - node.memory_open, node.memory_open)
    elif not node.some_deny_units:
        free = sum([device.free for device in node.devices])
        unused = sum([max(0, device.free - device.nominated) for device in node.devices]) if free else 0
        yield _Part(len(node.devices) * GPU_UNITS - free, free - unused, unused)
    else:
        for device in node.devices:
            cause = Cause(MIG_MODE) if device.is_between_modes else None
            if device.unfit:
                cause = Cause(UNFIT, node.name, device.unfit_at, device.name)
            yield _Part(GPU_UNITS - device.unheld, device.unheld - device.unused, device.unused, cause)


def _stocks(state: State, pool: PoolState, keys: Iterable[str], holds: Iterable[Hold], judge: _Judge) -> dict[str, Stock]:
    leased = dict(pool.leased)
    with Trial(state) as trial:
        for hold in holds:
            withhold(trial, pool, hold)
        causes = [(node, judge(node)) for _, node in sorted(pool.nodes.items())]
        return {key: _stock(pool, key, leased.get(key, 0), causes) for key in keys}


def _stock(pool: PoolState, key: str, used: int, nodes: Iterable[tuple[NodeState, Cause | None]]) -> Stock:
    capacity, free_sum = pool.known.get(key, 0), free_of(pool, key)
    if not is_hardware(key):
        return Stock(capacity, used, max(0, capacity - used - free_sum), free_sum, 0)
    count, model = _Count(key), model_of(key)
    there = [(node, cause) for node, cause in nodes if node.model == model] if model else nodes
    for node, cause in there:
        for part in _parts(node, key):
            count.add(node, part, cause or part.cause)
    if model:  # jobs that were granted before the pool governed the model hold its GPUs too
        used = sum(part.held for node, _ in there for part in _parts(node, key))
    free = min(count.free, free_sum)
    rest = max(0, capacity - used - free)
    causes = tuple(_first(count.causes(new_nodes(pool)), rest - min(count.kept, rest)))
    unusable = sum(one.amount for one in causes)
    return Stock(capacity, used, rest - unusable, free, unusable, causes)


class _Count:
    """The units of a key on the nodes of a pool: what can be granted, what is kept, and what is in the way of the rest."""

    def __init__(self, key: str) -> None:
        self.free = 0
        self.kept = 0
        self._key = key
        self._unused: dict[tuple[str, Cause], int] = {}
        self._held: dict[tuple[str, Cause], int] = {}

    def add(self, node: NodeState, part: _Part, cause: Cause | None) -> None:
        """One part of a node more."""
        self.kept += part.kept
        if cause is None:
            self.free += part.unused
            return
        place = node.name, cause
        self._unused[place] = self._unused.get(place, 0) + part.unused
        if not node.healthy or cause.cause == UNFIT:
            self._held[place] = self._held.get(place, 0) + part.held

    def causes(self, new: int) -> Iterator[UnusableView]:
        """What is unusable, first what is unused itself.

        Then as much as is held on nodes that are away and on unfit devices: usable capacity does not count it, but the pool's use does
        until the leases have gone, so as much is out of reach elsewhere (R6). Then `new` nodes that the pool may create.
        """
        for found in (self._unused, self._held):
            for (node, cause), amount in found.items():
                yield UnusableView(
                    key=self._key,
                    node=node,
                    cause=cause.cause,
                    amount=amount,
                    by=cause.by,
                    since=cause.since,
                    detail=cause.detail,
                )
        if new:
            yield UnusableView(key=self._key, node="", cause=NOT_CREATED, amount=_ANY)


_ANY = 1 << 62
"""More than any pool has: how much of what may be created is missing follows from the capacity."""


def _first(causes: Iterable[UnusableView], units: int) -> Iterator[UnusableView]:
    """The first causes that together make up this number of units, the last in part."""
    for one in causes:
        amount = min(one.amount, units)
        if amount:
            units -= amount
            yield (
                one
                if amount == one.amount
                else UnusableView(
                    key=one.key, node=one.node, cause=one.cause, amount=amount, by=one.by, since=one.since, detail=one.detail
                )
            )
