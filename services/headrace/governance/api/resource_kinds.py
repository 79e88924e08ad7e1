"""The kinds of documents as resources: how each is named, which message shows it, and what of it a caller sees. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.contracts.api import groups_pb2, policies_pb2, pools_pb2, profiles_pb2, tenants_pb2, users_pb2
from headrace.contracts.documents.model import DEFAULT_TENANT, Document, Tenant
from headrace.contracts.documents.writer import write_document
from headrace.contracts.values.amounts import format_amount
from headrace.governance.api.messages import fill, unusable
from headrace.governance.api.names import parts_of
from headrace.governance.objects import ObjectName, name_of, objects_of
from headrace.views.tenant_views import pool_keys
from headrace.views.visibility import EVERYBODY, document_seen_by

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from headrace.domain.model.state import State

ANSWERED = frozenset({"name", "etag", "closed", "sequence", "warnings", "keys", "nodes"})
"""Fields of resources that no document has."""
_POOL_AMOUNTS = ("capacity", "usable", "used", "free", "kept", "unusable")


class ResourceKind(NamedTuple):
    """One kind. `field` is its name in requests, `plural` in lists and files, `collection` in paths; `owned`: by a tenant, always.

    `message` makes an empty one; `own` is what its name is called in a document.
    """

    kind: str
    plural: str
    message: Callable[[], Any]
    owned: bool
    own: str = "name"

    @property
    def title(self) -> str:
        """As methods name one: `Policy`."""
        return self.kind.title()

    @property
    def titles(self) -> str:
        """As methods name several: `Policies`."""
        return self.plural.title()

    def fields(self) -> frozenset[str]:
        """What can be written of it."""
        return frozenset(self.message().DESCRIPTOR.fields_by_name) - ANSWERED


KINDS = (
    ResourceKind("tenant", "tenants", tenants_pb2.Tenant, owned=False),
    ResourceKind("user", "users", users_pb2.User, owned=True, own="handle"),
    ResourceKind("group", "groups", groups_pb2.Group, owned=True),
    ResourceKind("pool", "pools", pools_pb2.Pool, owned=False),
    ResourceKind("profile", "profiles", profiles_pb2.Profile, owned=False),
    ResourceKind("policy", "policies", policies_pb2.Policy, owned=True),
)


class FoundObject(NamedTuple):
    """An object: its name, its document as the caller sees it, its revision."""

    name: ObjectName
    document: Document
    revision: int


def resource_name(kind: ResourceKind, name: ObjectName) -> str:
    """`tenants/acme/policies/ai-dev`, `pools/onprem`."""
    return f"tenants/{name.tenant}/{kind.plural}/{name.name}" if name.tenant else f"{kind.plural}/{name.name}"


def name_in(kind: ResourceKind, text: str, field: str = "name") -> ObjectName:
    """The object that a resource's name means. Raises `Fault`."""
    if kind.owned or (kind.kind == "profile" and text.startswith("tenants/")):
        tenant, name = parts_of(text, f"tenants/*/{kind.plural}/*", field)
        return ObjectName(kind.kind, tenant, name)
    return ObjectName(kind.kind, "", *parts_of(text, f"{kind.plural}/*", field))


def everything(state: State, kind: ResourceKind, seer: str, parent: str | None) -> Iterator[FoundObject]:
    """All objects of a kind that the seer may see; `parent`: of that tenant only (empty: of the provider), None where kinds have none."""
    for written in objects_of(state, kind.kind).values():
        found = seen(state, FoundObject(name_of(written.document), written.document, written.revision), seer)
        if found is not None and (parent is None or found.name.tenant == parent):
            yield found
    if kind.kind == "tenant" and DEFAULT_TENANT not in state.tenants and seer in (EVERYBODY, DEFAULT_TENANT):
        yield _default_tenant()


def look_up(state: State, name: ObjectName, seer: str) -> FoundObject | None:
    """One object, if there is one that the seer may see."""
    key: object = name.name if name.kind in ("tenant", "pool") else (name.tenant, name.name)
    written = objects_of(state, name.kind).get(key)
    if written is None:
        is_default = name.kind == "tenant" and name.name == DEFAULT_TENANT and seer in (EVERYBODY, DEFAULT_TENANT)
        return _default_tenant() if is_default else None
    return seen(state, FoundObject(name, written.document, written.revision), seer)


def _default_tenant() -> FoundObject:
    """It is there without anybody having written it."""
    return FoundObject(ObjectName("tenant", "", DEFAULT_TENANT), Tenant(name=DEFAULT_TENANT), 0)


def seen(state: State, found: FoundObject, seer: str) -> FoundObject | None:
    """An object as the seer sees it; None where not at all."""
    document = document_seen_by(state, seer, found.document)
    return None if document is None else found._replace(document=document)


def message_of(state: State, kind: ResourceKind, found: FoundObject, warnings: tuple[str, ...] = ()) -> Message:
    """The resource."""
    message = kind.message()
    fill(message, {key: value for key, value in write_document(found.document).items() if key not in ("tenant", kind.own)})
    message.name = resource_name(kind, found.name)
    message.etag = str(found.revision)
    closing = state.terms.closings.get((kind.kind, found.name.tenant, found.name.name))
    message.closed = closing.mode if closing is not None else ""
    message.sequence = str(state.sequence)
    message.warnings.extend(warnings)
    if kind.kind == "pool":
        _fill_pool(state, message, found.name.name)
    result: Message = message
    return result


def _fill_pool(state: State, message: Any, name: str) -> None:
    pool = state.pools.get(name)
    if pool is None:
        return
    message.nodes = len(pool.nodes)
    for key in pool_keys(state, pool):
        amounts = {word: format_amount(key.key, getattr(key, word)) for word in _POOL_AMOUNTS}
        message.keys.add(key=key.key, causes=map(unusable, key.causes), **amounts)
