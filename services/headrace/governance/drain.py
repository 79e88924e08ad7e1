"""The end of what is drained or cancelled (R11): it is deleted once nothing runs under it, with what means nothing without it. Pure.

With a tenant go its people, groups, profiles and policies; with a group its policies; policies lose a profile that goes, profiles,
policies and shares a pool. Where that is not enough (a profile whose only pool it is, hardware dedicated to it, reservations that could
not be honoured any more), the object cannot be drained, and what has come in the way since then keeps it closed until it is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import structs

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Document, Documents, Policy, Profile, Tenant
from headrace.contracts.facts import AnyFact
from headrace.domain.fold.record_size import RecordRoom
from headrace.domain.model.state import State
from headrace.domain.model.time_rules import Closing
from headrace.domain.queueing.freeze_drain import GOING, holding_under, waiting_under
from headrace.governance.dependents import naming_party
from headrace.governance.objects import PLURALS, ObjectName, deleted, name_of, names
from headrace.governance.plan import make_plan

_INSIDE_FIRST = ("policy", "profile", "group", "user")


class Company(NamedTuple):
    """What goes with an object: `facts` in their order, a line for each; and who is in the way, where that is not allowed."""

    facts: tuple[AnyFact, ...] = ()
    lines: tuple[str, ...] = ()
    in_the_way: tuple[str, ...] = ()


GOES_WITH_NOTHING = Company()


def company(state: State, name: ObjectName, author: str) -> Company:
    """What goes with an object that is deleted."""
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
    return Company(tuple(facts), lines, tuple(in_the_way))


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
    """The documents without the object, and those that would have nothing left."""
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
    """What is written anew without being meant to be opened stays closed."""
    closing = state.terms.closings.get((name.kind, name.tenant, name.name))
    if closing is None:
        return None
    return f.ObjectClosedV1(author=closing.author, kind=name.kind, tenant=name.tenant, name=name.name, mode=closing.mode)


class DrainTracker:
    """Watches what is closed. It remembers which of it could not go, until documents change: a memo, not a truth."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._kept: dict[tuple[str, str, str], int] = {}

    def due(self) -> tuple[AnyFact, ...]:
        """The deletion of the first that nothing runs under any more, as much of it as a record holds; the rest follows."""
        for key, closing in self._state.terms.closings.items():
            if closing.mode not in GOING or self._kept.get(key) == self._state.documents_sequence:
                continue
            if _in_use(self._state, closing):
                continue
            name = ObjectName(*key)
            reason = {"drain": "drained", "cancel": "its jobs are cancelled"}[closing.mode]
            goes = company(self._state, name, closing.author)
            if not goes.in_the_way:
                return tuple(RecordRoom().fill((*goes.facts, deleted(name, closing.author, reason))))
            self._kept[key] = self._state.documents_sequence
        return ()


def _in_use(state: State, closing: Closing) -> bool:
    pool = state.pools.get(closing.name) if closing.kind == "pool" else None
    if pool is not None and (pool.leased or pool.nominated or pool.search is not None):
        return True
    return bool(holding_under(state, closing)) or (closing.mode == "cancel" and bool(waiting_under(state, closing)))
