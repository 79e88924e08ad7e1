"""The objects that documents write: how each is named, where the fold keeps it, and which facts write and remove it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.documents.model import (
    DEFAULT_TENANT,
    KINDS,
    Document,
    Documents,
    Group,
    Policy,
    Pool,
    Profile,
    Tenant,
    User,
)
from headrace.contracts.facts import AnyFact
from headrace.domain.model.state import GovernanceObject, PolicyState, PoolState, State

PLURALS = dict(zip(KINDS, Documents.__struct_fields__, strict=True))
"""Kind to the key under which a file, and the fold, have its documents; in the order in which kinds depend on each other."""

_KIND_OF: dict[type[Document], str] = dict(zip((Tenant, User, Group, Pool, Profile, Policy), KINDS, strict=True))
_WITHOUT_TENANT = frozenset({"tenant", "pool"})


REASON_MAX = 500
"""Characters of a reason that are written."""


class ObjectName(NamedTuple):
    """Which object. `tenant` is empty for tenants, pools and the provider's profiles."""

    kind: str
    tenant: str
    name: str

    @property
    def full(self) -> str:
        """`acme/ai-dev`, or `onprem` where no tenant owns it."""
        return f"{self.tenant}/{self.name}" if self.tenant else self.name

    @property
    def key(self) -> str:
        """`policy/acme/ai-dev`: how revisions name it."""
        return f"{self.kind}/{self.full}"

    def __str__(self) -> str:
        """`policy acme/ai-dev`."""
        return f"{self.kind} {self.full}"


class PlacedDocument(NamedTuple):
    """A document of a set, its name, and the place where it stands there: `("policies", 0)`."""

    name: ObjectName
    document: Document
    place: tuple[str | int, ...]


def name_of(document: Document) -> ObjectName:
    """The name of a document of any kind."""
    name = document.handle if isinstance(document, User) else getattr(document, "name", "")
    return ObjectName(_KIND_OF[type(document)], getattr(document, "tenant", ""), name)


def full_name(kind: str, text: str, tenant: str = "") -> ObjectName:
    """The name that `text` stands for: `acme/ai-dev`, or `ai-dev` in `tenant` (none given: the default one, for a profile the provider)."""
    owner, slash, name = text.rpartition("/")
    if slash:
        return ObjectName(kind, owner, name)
    if kind in _WITHOUT_TENANT:
        return ObjectName(kind, "", name)
    return ObjectName(kind, tenant or ("" if kind == "profile" else DEFAULT_TENANT), name)


def placed(documents: Documents) -> Iterator[PlacedDocument]:
    """Every document of a set, kinds in the order in which they depend on each other."""
    for plural in PLURALS.values():
        for index, document in enumerate(getattr(documents, plural)):
            yield PlacedDocument(name_of(document), document, (plural, index))


def held(state: State, kind: str) -> Mapping[object, GovernanceObject | PoolState | PolicyState]:
    """What the fold keeps of a kind."""
    kept: Mapping[object, GovernanceObject | PoolState | PolicyState] = getattr(state, PLURALS[kind])
    return kept


def current(state: State, name: ObjectName) -> tuple[Document, int] | None:
    """The object's document and its revision; None where there is no such object."""
    written = held(state, name.kind).get(name.name if name.kind in _WITHOUT_TENANT else (name.tenant, name.name))
    return None if written is None else (written.document, written.revision)


def names(state: State, kind: str) -> Iterator[ObjectName]:
    """All objects of a kind."""
    for written in held(state, kind).values():
        yield name_of(written.document)


def applied(document: Document, author: str, reason: str = "") -> AnyFact:
    """The fact by which an object is as `document` says."""
    reason = reason[:REASON_MAX]
    match document:
        case Tenant():
            return f.TenantAppliedV1(author=author, reason=reason, tenant=document)
        case User():
            return f.UserAppliedV1(author=author, reason=reason, user=document)
        case Group():
            return f.GroupAppliedV1(author=author, reason=reason, group=document)
        case Pool():
            return f.PoolAppliedV1(author=author, reason=reason, pool=document)
        case Profile():
            return f.ProfileAppliedV1(author=author, reason=reason, profile=document)
        case Policy():
            return f.PolicyAppliedV1(author=author, reason=reason, policy=document)
    raise TypeError(f"{type(document).__name__} is no kind of document")


def deleted(name: ObjectName, author: str, reason: str = "") -> AnyFact:
    """The fact by which an object is gone."""
    reason = reason[:REASON_MAX]
    match name:
        case ObjectName("tenant", _, tenant):
            return f.TenantDeletedV1(author=author, reason=reason, name=tenant)
        case ObjectName("user", tenant, handle):
            return f.UserDeletedV1(author=author, reason=reason, tenant=tenant, handle=handle)
        case ObjectName("group", tenant, group):
            return f.GroupDeletedV1(author=author, reason=reason, tenant=tenant, name=group)
        case ObjectName("pool", _, pool):
            return f.PoolDeletedV1(author=author, reason=reason, name=pool)
        case ObjectName("profile", tenant, profile):
            return f.ProfileDeletedV1(author=author, reason=reason, tenant=tenant, name=profile)
        case ObjectName("policy", tenant, policy):
            return f.PolicyDeletedV1(author=author, reason=reason, tenant=tenant, name=policy)
    raise ValueError(f"{name.kind} is no kind of object")
