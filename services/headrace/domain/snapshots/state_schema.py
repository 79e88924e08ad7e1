"""What the state is made of: every class that may stand in it, the fields that are truth, and the aids that are made again.

Objects of the fold (dataclasses with slots) have an identity: two tables that hold the same job hold one object. Everything else is a
value: facts' structs, named tuples, enumerations, containers, numbers, text. A new field needs nothing here; an aid to finding things
fast says so where it is declared (`metadata=AID`); a class in a module that is not in `MODULES` is refused by name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache, partial
from itertools import repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from headrace.contracts.documents import model
from headrace.contracts.facts import admission, fact, nodes, preemption
from headrace.contracts.values import arrays, isolation, value
from headrace.domain.indexes.node_index import NodeIndex
from headrace.domain.indexes.pending import Pending
from headrace.domain.model import (
    attempts,
    demand_mix,
    devices,
    instances,
    job_states,
    jobs,
    maintenance,
    node_claims,
    policy_gate,
    preemption_state,
    requests,
    time_rules,
    tokens,
)
from headrace.domain.model import nodes as machines
from headrace.domain.state import capacity, job_deadlines, pools, quota, state

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MODULES = (
    model,
    fact,
    admission,
    nodes,
    preemption,
    arrays,
    isolation,
    value,
    attempts,
    node_claims,
    devices,
    instances,
    demand_mix,
    requests,
    machines,
    policy_gate,
    pools,
    job_states,
    jobs,
    maintenance,
    state,
    preemption_state,
    time_rules,
    tokens,
)
"""Where the classes are declared; what else stands in the state is refused by name."""

_AT_HAND = 2_000

ATOMS = frozenset({type(None), bool, int, str, bytes})


class UnknownSort(TypeError):
    """An object in the state has a class that is not declared."""

    def __init__(self, kind: type) -> None:
        super().__init__(
            f"{kind.__module__}.{kind.__qualname__} stands in the state, and is of no known sort: name its module in "
            "headrace.domain.snapshots.state_schema.MODULES if it is truth, or declare the field with metadata=AID if it can be made again"
        )


_MODULE_IN_SNAPSHOTS = {
    "demand_mix": "mix",
    "model": "documents",
    "node_claims": "claims",
    "preemption_state": "takings",
    "time_rules": "terms",
}
_NAME_IN_SNAPSHOTS = {
    "attempts.PastJob": "attempts.Answered",
    "demand_mix.DemandMix": "mix.Mix",
    "jobs.PolicyState": "state.PolicyState",
    "jobs.Preemption": "takings.Preemption",
    "jobs.Scope": "state.Scope",
    "node_claims.NodeClaimsState": "claims.Claims",
    "nodes.NodeState": "state.NodeState",
    "nodes.Probation": "state.Probation",
    "policy_gate.BudgetMeter": "terms.Meter",
    "policy_gate.PolicyGate": "terms.Gate",
    "pools.FailedSearch": "searches.Fruitless",
    "pools.PoolState": "state.PoolState",
    "state.GovernanceObject": "state.Written",
    "time_rules.TimeRules": "terms.Terms",
    "tokens.GroupClaims": "tokens.Claims",
    "value.Value": "fact.Value",
}
"""Names in snapshots of modules and classes that were renamed: a snapshot outlives the release that took it, so its names never change."""


def name_of(kind: type) -> str:
    """Name of a class in snapshots: `jobs.JobRecord`, or the name that the class had when it first came into a snapshot."""
    module = kind.__module__.rpartition(".")[2]
    name = f"{module}.{kind.__name__}"
    return _NAME_IN_SNAPSHOTS.get(name) or f"{_MODULE_IN_SNAPSHOTS.get(module, module)}.{kind.__name__}"


def is_object(kind: type) -> bool:
    """Whether its instances have an identity."""
    return is_dataclass(kind)


def is_struct(kind: type) -> bool:
    """Whether it is a value with fields that a fact or a document brought."""
    return issubclass(kind, msgspec.Struct)


def is_named_tuple(kind: type) -> bool:
    """Whether it is a tuple whose places have names."""
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _classes() -> Iterable[type]:
    for module in MODULES:
        for kind in vars(module).values():
            if isinstance(kind, type) and kind.__module__ == module.__name__ and _is_declared(kind):
                yield kind


def _is_declared(kind: type) -> bool:
    return is_dataclass(kind) or issubclass(kind, (msgspec.Struct, Enum)) or is_named_tuple(kind)


CLASSES: dict[str, type] = {name_of(kind): kind for kind in _classes()}
"""Every class by the name that snapshots have for it."""
_KINDS = frozenset(CLASSES.values())


def known(kind: type) -> type:
    """The class itself; `UnknownSort` if it is not declared."""
    if kind not in _KINDS:
        raise UnknownSort(kind)
    return kind


def field_names(kind: type) -> tuple[str, ...]:
    """The fields that are truth, in the order of their declaration; an enumeration has its value only."""
    return _field_names(kind)


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    if is_object(kind):
        return tuple(field.name for field in fields(kind) if not field.metadata.get("aid"))
    if is_struct(kind):
        return tuple(kind.__struct_fields__)  # type: ignore[attr-defined]
    return tuple(getattr(kind, "_fields", ()))


class Defaults(NamedTuple):
    """Default of a field: `make` gives values without end; without it a value is required."""

    name: str
    make: Callable[[], Iterable[Any]] | None


@cache
def defaults(kind: type) -> tuple[Defaults, ...]:
    """Of every field of an object, aids included."""
    return tuple(Defaults(field.name, _maker(field)) for field in fields(kind))


def _maker(field: Any) -> Callable[[], Iterable[Any]] | None:
    if field.default_factory is not MISSING:
        return partial(iter, field.default_factory, _NEVER)
    return None if field.default is MISSING else partial(repeat, field.default)


_NEVER = object()


def _used_scopes(scopes: dict[str, jobs.Scope]) -> dict[str, jobs.Scope]:
    """Accounts that say nothing are left out: which of them are open depends on documents that have changed since."""
    return {
        pool: scope
        for pool, scope in sorted(scopes.items())
        if scope.reservation is not None or scope.limit or scope.leased or scope.use or scope.firm
    }


_SHOWN: dict[tuple[type, str], Callable[[Any], Any]] = {(jobs.PolicyState, "scopes"): _used_scopes}


def values_of(objects: list[Any], kind: type, name: str) -> list[Any]:
    """One field of many objects of a class."""
    values: Iterable[Any] = map(_getter(name), objects)
    shown = _SHOWN.get((kind, name))
    return list(values if shown is None else map(shown, values))


_getter = cache(attrgetter)


@cache
def _setter(kind: type, name: str) -> Callable[[Any, Any], None]:
    setter: Callable[[Any, Any], None] = getattr(kind, name).__set__
    return setter


def fill(objects: list[Any], kind: type, columns: Mapping[str, Iterable[Any]]) -> None:
    """Set fields of many objects, frozen ones too: they are being made. `columns` has the values of each field.

    Some objects at a time, all fields of those: what is at hand is at hand still.
    """
    setters = [(_setter(kind, name), iter(values)) for name, values in columns.items()]
    for start in range(0, len(objects), _AT_HAND):
        few = objects[start : start + _AT_HAND]
        for setter, values in setters:
            deque(map(setter, few, values), maxlen=0)


def hollow(kind: type, count: int) -> list[Any]:
    """A number of objects of a class, empty, or with the values in `stands`."""
    make = _BLANK.get(kind)
    if make is not None:
        return [make() for _ in range(count)]
    return list(map(kind.__new__, repeat(kind, count)))  # type: ignore[arg-type]  # the class's own, not that of `type`


_BLANK: dict[type, Callable[[], Any]] = {jobs.JobRecord: jobs.blank_job}
"""Of these there are a million, and most of their fields are never set: that is faster done at once."""

UNSAID = object()
"""Marker that no field has as its value."""


def stands(blank: Any, name: str) -> Any:
    """What a field of an object that is still hollow is already; `UNSAID` where it is nothing yet."""
    return getattr(blank, name, UNSAID)


def rebuild(made: state.State) -> None:
    """The aids of a state whose truth is complete: classes of nodes in each pool, the line of pending jobs, open accounts, what is due."""
    for pool in made.pools.values():
        pool.index = NodeIndex(pool.document)
        pool.index.weigh(pool.mix.stated, amended=made.terms.amended)
    for node in made.nodes.values():
        pool_of_node = made.pool_of(node)
        node.maintenance = made.maintenance.under_way(node.pool)
        if pool_of_node is not None:
            pool_of_node.index.put(node)
            capacity.tally(made, node, 1)
    for policy in (*made.policies.values(), *made.deleted_policies.values()):
        capacity.recount_users(made, policy)
    made.pending = Pending(made.maintenance)
    whole = (array.job for array in made.arrays.values() if array.front is array.job)
    made.pending.refill((*made.jobs.values(), *whole) if made.arrays else made.jobs.values(), made.now)
    for policy in (*made.policies.values(), *made.deleted_policies.values()):
        for link in policy.document.profiles:
            quota.open_scopes(made, policy, link.name)
    for group in made.pending.groups.values():
        _open_scopes(made, group.policy, group.profile)
    for job in made.pending.ineligible.values():
        _open_scopes(made, job.policy, job.profile)
    for job in made.jobs.values():
        if job.leases:
            _open_scopes(made, job.policy, job.profile)
            job_deadlines.watch(made, job)
            capacity.note_lasting(made.pools, job)


def _open_scopes(made: state.State, policy: jobs.PolicyState, profile: str) -> None:
    if profile not in policy.profiles:
        quota.open_scopes(made, policy, profile)
