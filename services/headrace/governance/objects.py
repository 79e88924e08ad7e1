"""Objects written as documents: their names, their place in the fold's state, and the facts that apply and delete them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.documents.model import KINDS, Document, Documents, Group, Policy, Pool, Profile, Tenant, User
from headrace.contracts.facts import AnyFact
from headrace.contracts.values.ids import DEFAULT_TENANT
from headrace.domain.model.jobs import PolicyState
from headrace.domain.state.pools import PoolState
from headrace.domain.state.state import GovernanceObject, State

PLURALS = dict(zip(KINDS, Documents.__struct_fields__, strict=True))
"""Kind to the key under which files and the fold have its documents; in the order in which kinds depend on each other."""

_KIND_OF: dict[type[Document], str] = dict(zip((Tenant, User, Group, Pool, Profile, Policy), KINDS, strict=True))
_WITHOUT_TENANT = frozenset({"tenant", "pool"})
_OF_TENANTS = frozenset(plural for kind, plural in PLURALS.items() if kind not in _WITHOUT_TENANT)

REASON_MAX = 500
"""Maximum characters of a reason."""


class ObjectName(NamedTuple):
    """Name of an object. `tenant` is empty for tenants, pools and the provider's profiles."""

    kind: str
    tenant: str
    name: str

    @property
    def full(self) -> str:
        """`acme/ai-dev`, or `onprem` for an object without a tenant."""
        return f"{self.tenant}/{self.name}" if self.tenant else self.name

    @property
    def key(self) -> str:
        """`policy/acme/ai-dev`: the key in `revisions`."""
        return f"{self.kind}/{self.full}"

    def __str__(self) -> str:
        """Kind and name, such as `policy acme/ai-dev`."""
        return f"{self.kind} {self.full}"


class PlacedDocument(NamedTuple):
    """A document of a set, its name, and its position in the set: `("policies", 0)`."""

    name: ObjectName
    document: Document
    place: tuple[str | int, ...]


def with_tenant(written: Mapping[str, Any], tenant: str) -> dict[str, Any]:
    """Documents as they are written, by plural, those that name no tenant with this one."""
    return {
        plural: [{"tenant": tenant, **one} if isinstance(one, dict) else one for one in documents]
        if plural in _OF_TENANTS and isinstance(documents, list)
        else documents
        for plural, documents in written.items()
    }


def name_of(document: Document) -> ObjectName:
    """The name of a document of any kind."""
    name = document.handle if isinstance(document, User) else getattr(document, "name", "")
    return ObjectName(_KIND_OF[type(document)], getattr(document, "tenant", ""), name)


def full_name(kind: str, text: str, tenant: str = "") -> ObjectName:
    """The name in `text`: `acme/ai-dev`, or `ai-dev` in `tenant` (default: the default tenant; for a profile, the provider)."""
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


def objects_of(state: State, kind: str) -> Mapping[object, GovernanceObject | PoolState | PolicyState]:
    """The fold's objects of a kind."""
    kept: Mapping[object, GovernanceObject | PoolState | PolicyState] = getattr(state, PLURALS[kind])
    return kept


def current(state: State, name: ObjectName) -> tuple[Document, int] | None:
    """The object's document and its revision; None if it does not exist."""
    written = objects_of(state, name.kind).get(name.name if name.kind in _WITHOUT_TENANT else (name.tenant, name.name))
    return None if written is None else (written.document, written.revision)


def names(state: State, kind: str) -> Iterator[ObjectName]:
    """Names of all objects of a kind."""
    for written in objects_of(state, kind).values():
        yield name_of(written.document)


def applied(document: Document, author: str, reason: str = "") -> AnyFact:
    """The fact that applies a document."""
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
    raise TypeError(f"{type(document).__name__} is not a kind of document")


def deleted(name: ObjectName, author: str, reason: str = "") -> AnyFact:
    """The fact that deletes an object."""
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
    raise ValueError(f"{name.kind} is not a kind of object")
