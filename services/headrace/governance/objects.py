"""The objects that documents write: how each is named, where the fold keeps it, and which facts write and remove it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.documents import (
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
from headrace.domain.state import PolicyState, PoolState, State, Written

PLURALS = dict(zip(KINDS, Documents.__struct_fields__, strict=True))
"""Kind to the key under which a file, and the fold, have its documents; in the order in which kinds depend on each other."""

_KIND_OF: dict[type[Document], str] = dict(zip((Tenant, User, Group, Pool, Profile, Policy), KINDS, strict=True))
_WITHOUT_TENANT = frozenset({"tenant", "pool"})


REASON_MAX = 500
"""Characters of a reason that are written."""


class Name(NamedTuple):
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


class Placed(NamedTuple):
    """A document of a set, its name, and the place where it stands there: `("policies", 0)`."""

    name: Name
    document: Document
    place: tuple[str | int, ...]


def name_of(document: Document) -> Name:
    """The name of a document of any kind."""
    name = document.handle if isinstance(document, User) else getattr(document, "name", "")
    return Name(_KIND_OF[type(document)], getattr(document, "tenant", ""), name)


def full_name(kind: str, text: str, tenant: str = "") -> Name:
    """The name that `text` stands for: `acme/ai-dev`, or `ai-dev` in `tenant` (none given: the default one, for a profile the provider)."""
    owner, slash, name = text.rpartition("/")
    if slash:
        return Name(kind, owner, name)
    if kind in _WITHOUT_TENANT:
        return Name(kind, "", name)
    return Name(kind, tenant or ("" if kind == "profile" else DEFAULT_TENANT), name)


def placed(documents: Documents) -> Iterator[Placed]:
    """Every document of a set, kinds in the order in which they depend on each other."""
    for plural in PLURALS.values():
        for index, document in enumerate(getattr(documents, plural)):
            yield Placed(name_of(document), document, (plural, index))


def held(state: State, kind: str) -> Mapping[object, Written | PoolState | PolicyState]:
    """What the fold keeps of a kind."""
    kept: Mapping[object, Written | PoolState | PolicyState] = getattr(state, PLURALS[kind])
    return kept


def current(state: State, name: Name) -> tuple[Document, int] | None:
    """The object's document and its revision; None where there is no such object."""
    written = held(state, name.kind).get(name.name if name.kind in _WITHOUT_TENANT else (name.tenant, name.name))
    return None if written is None else (written.document, written.revision)


def names(state: State, kind: str) -> Iterator[Name]:
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


def deleted(name: Name, author: str, reason: str = "") -> AnyFact:
    """The fact by which an object is gone."""
    reason = reason[:REASON_MAX]
    match name:
        case Name("tenant", _, tenant):
            return f.TenantDeletedV1(author=author, reason=reason, name=tenant)
        case Name("user", tenant, handle):
            return f.UserDeletedV1(author=author, reason=reason, tenant=tenant, handle=handle)
        case Name("group", tenant, group):
            return f.GroupDeletedV1(author=author, reason=reason, tenant=tenant, name=group)
        case Name("pool", _, pool):
            return f.PoolDeletedV1(author=author, reason=reason, name=pool)
        case Name("profile", tenant, profile):
            return f.ProfileDeletedV1(author=author, reason=reason, tenant=tenant, name=profile)
        case Name("policy", tenant, policy):
            return f.PolicyDeletedV1(author=author, reason=reason, tenant=tenant, name=policy)
    raise ValueError(f"{name.kind} is no kind of object")
