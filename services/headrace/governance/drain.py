"""Completion of drains and cancellations (R11): the object is deleted once it is unused, with the objects that depend on it. Pure.

A tenant is deleted with its people, groups, profiles and policies; a group with its policies; policies lose a deleted profile; profiles,
policies and shares lose a deleted pool. Objects for which that does not suffice (the only pool of a profile, dedicated hardware,
reservations that would become infeasible) cannot be drained; a later obstacle keeps the object closed until it is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import structs

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Document, Documents, Policy, Profile, Tenant
from headrace.contracts.facts import AnyFact
from headrace.domain.fold.record_size import RecordCapacity
from headrace.domain.model.time_rules import Closing
from headrace.domain.queueing.freeze_drain import GOING, holding_under, waiting_under
from headrace.domain.state.state import State
from headrace.governance.dependents import naming_party
from headrace.governance.objects import PLURALS, ObjectName, deleted, name_of, names
from headrace.governance.plan import make_plan

_INSIDE_FIRST = ("policy", "profile", "group", "user")


class Cascade(NamedTuple):
    """Objects deleted or changed with an object: `facts` in their order, one line for each; and obstacles, if it cannot be deleted."""

    facts: tuple[AnyFact, ...] = ()
    lines: tuple[str, ...] = ()
    in_the_way: tuple[str, ...] = ()


NO_CASCADE = Cascade()


def cascade(state: State, name: ObjectName, author: str) -> Cascade:
    """Deletions and changes that follow from deleting an object."""
    gone = _deleted_with(state, name)
    changed, only = _changed_with(state, name)
    in_the_way = dict.fromkeys(f"it is named by {line}" for one in (*gone, name) for line in naming_party(state, one))
    in_the_way |= dict.fromkeys(f"it is the only pool of {one}" for one in only)
    plan = make_plan(state, _set_of(changed), author, reason=f"{name} is deleted", groups=False)
    in_the_way |= dict.fromkeys(plan.errors)
    kept_closed = (_closed_again(state, name_of(document)) for document in changed)
    facts = [*plan.facts, *(fact for fact in kept_closed if fact is not None)]
    facts += [deleted(one, author, f"{name} is deleted") for one in gone]
    lines = (*(f"{one} is deleted" for one in gone), *(f"{name_of(document)} loses it" for document in changed))
    return Cascade(tuple(facts), lines, tuple(in_the_way))


def _deleted_with(state: State, name: ObjectName) -> list[ObjectName]:
    if name.kind == "tenant":
        return [one for kind in _INSIDE_FIRST for one in names(state, kind) if one.tenant == name.name]
    if name.kind == "group":
        return [
            name_of(policy.document)
            for policy in state.policies.values()
            if (policy.document.tenant, policy.document.group) == (name.tenant, name.name)
        ]
    return []


def _changed_with(state: State, name: ObjectName) -> tuple[list[Document], list[str]]:
    """The documents without the object, and the names of those that would have nothing left."""
    if name.kind == "profile":
        return list(_without_profile(state, name)), []
    if name.kind != "pool":
        return [], []
    changed = list(_without_pool(state, name.name))
    return changed, [str(name_of(one)) for one in changed if isinstance(one, Profile) and not one.pools]


def _without_profile(state: State, name: ObjectName) -> Iterator[Policy]:
    for policy in state.policies.values():
        document = policy.document
        found = state.profile(document.tenant, name.name)
        if found is not None and (found.tenant, found.name) == (name.tenant, name.name):
            links = tuple(link for link in document.profiles if link.name != name.name)
            if links != document.profiles:
                yield structs.replace(document, profiles=links)


def _without_pool(state: State, pool: str) -> Iterator[Document]:
    for written in (*state.tenants.values(), *state.profiles.values()):
        document = written.document
        if isinstance(document, Tenant) and any(share.pool == pool for share in document.shares):
            yield structs.replace(document, shares=tuple(share for share in document.shares if share.pool != pool))
        elif isinstance(document, Profile) and pool in document.pools:
            yield structs.replace(document, pools=tuple(name for name in document.pools if name != pool))
    for policy in state.policies.values():
        if pool in policy.document.per_pool:
            blocks = {name: block for name, block in policy.document.per_pool.items() if name != pool}
            yield structs.replace(policy.document, per_pool=blocks)


def _set_of(changed: Iterable[Document]) -> Documents:
    kinds: dict[str, list[Document]] = {}
    for document in changed:
        kinds.setdefault(PLURALS[name_of(document).kind], []).append(document)
    return Documents(**{kind: tuple(documents) for kind, documents in kinds.items()})  # type: ignore[arg-type]  # by the table


def _closed_again(state: State, name: ObjectName) -> AnyFact | None:
    """The closure that a document stated anew keeps, if it was closed."""
    closing = state.terms.closings.get((name.kind, name.tenant, name.name))
    if closing is None:
        return None
    return f.ObjectClosedV1(author=closing.author, kind=name.kind, tenant=name.tenant, name=name.name, mode=closing.mode)


class DrainTracker:
    """Deletes closed objects. It caches which of them could not be deleted, until documents change."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[tuple[str, str, str], int] = {}

    def due(self) -> tuple[AnyFact, ...]:
        """Facts that delete the first unused closed object, at most one record of them; the rest follows."""
        for key, closing in self._state.terms.closings.items():
            if closing.mode not in GOING or self._kept.get(key) == self._state.documents_sequence:
                continue
            if _in_use(self._state, closing):
                continue
            name = ObjectName(*key)
            reason = {"drain": "drained", "cancel": "its jobs are cancelled"}[closing.mode]
            found = cascade(self._state, name, closing.author)
            if not found.in_the_way:
                return tuple(RecordCapacity().fill((*found.facts, deleted(name, closing.author, reason))))
            self._kept[key] = self._state.documents_sequence
        return ()


def _in_use(state: State, closing: Closing) -> bool:
    pool = state.pools.get(closing.name) if closing.kind == "pool" else None
    if pool is not None and (pool.leased or pool.nominated or pool.search is not None):
        return True
    return bool(holding_under(state, closing)) or (closing.mode == "cancel" and bool(waiting_under(state, closing)))
