"""The kinds of documents as resources: their names, their messages, and the parts that a caller sees. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.contracts.api import groups_pb2, policies_pb2, pools_pb2, profiles_pb2, tenants_pb2, users_pb2
from headrace.contracts.documents.model import Document, Tenant
from headrace.contracts.documents.writer import write_document
from headrace.contracts.values.amounts import format_amount
from headrace.contracts.values.ids import DEFAULT_TENANT
from headrace.governance.api.messages import fill, unusable
from headrace.governance.api.names import parts_of
from headrace.governance.objects import ObjectName, name_of, objects_of
from headrace.views.tenant_views import jobs_of_pool, pool_keys
from headrace.views.visibility import ALL_TENANTS, document_seen_by

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from headrace.domain.state.state import State
    from headrace.views.job_index import Queue, QueueCounts

ANSWERED = frozenset({"name", "etag", "closed", "sequence", "warnings", "keys", "nodes", "running", "pending"})
"""Fields of resources that documents do not have."""
_POOL_AMOUNTS = ("capacity", "usable", "used", "free", "kept", "unusable")


class ResourceKind(NamedTuple):
    """One kind. `field` is its name in requests, `plural` in lists and files, `collection` in paths; `owned`: always belongs to a tenant.

    `message` makes an empty message; `own` is the field of the object's name in a document.
    """

    kind: str
    plural: str
    message: Callable[[], Any]
    owned: bool
    own: str = "name"

    @property
    def title(self) -> str:
        """Name of one in methods: `Policy`."""
        return self.kind.title()

    @property
    def titles(self) -> str:
        """Name of several in methods: `Policies`."""
        return self.plural.title()

    def fields(self) -> frozenset[str]:
        """Fields that can be written."""
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
    """Resource name such as `tenants/acme/policies/ai-dev` or `pools/onprem`."""
    return f"tenants/{name.tenant}/{kind.plural}/{name.name}" if name.tenant else f"{kind.plural}/{name.name}"


def name_in(kind: ResourceKind, text: str, field: str = "name") -> ObjectName:
    """The object of a resource's name. Raises ApiError."""
    if kind.owned or (kind.kind == "profile" and text.startswith("tenants/")):
        tenant, name = parts_of(text, f"tenants/*/{kind.plural}/*", field)
        return ObjectName(kind.kind, tenant, name)
    return ObjectName(kind.kind, "", *parts_of(text, f"{kind.plural}/*", field))


def everything(state: State, kind: ResourceKind, viewer: str, parent: str | None) -> Iterator[FoundObject]:
    """Objects of a kind that the viewer may see; `parent`: of that tenant (empty: the provider's), None for kinds without parents."""
    for written in objects_of(state, kind.kind).values():
        found = seen(state, FoundObject(name_of(written.document), written.document, written.revision), viewer)
        if found is not None and (parent is None or found.name.tenant == parent):
            yield found
    if kind.kind == "tenant" and DEFAULT_TENANT not in state.tenants and viewer in (ALL_TENANTS, DEFAULT_TENANT):
        yield _default_tenant()


def look_up(state: State, name: ObjectName, viewer: str) -> FoundObject | None:
    """The object if it exists and the viewer may see it, else None."""
    key: object = name.name if name.kind in ("tenant", "pool") else (name.tenant, name.name)
    written = objects_of(state, name.kind).get(key)
    if written is None:
        is_default = name.kind == "tenant" and name.name == DEFAULT_TENANT and viewer in (ALL_TENANTS, DEFAULT_TENANT)
        return _default_tenant() if is_default else None
    return seen(state, FoundObject(name, written.document, written.revision), viewer)


def _default_tenant() -> FoundObject:
    """The default tenant, which exists without a document."""
    return FoundObject(ObjectName("tenant", "", DEFAULT_TENANT), Tenant(name=DEFAULT_TENANT), 0)


def seen(state: State, found: FoundObject, viewer: str) -> FoundObject | None:
    """An object as the viewer sees it; None if the viewer may not see it."""
    document = document_seen_by(state, viewer, found.document)
    return None if document is None else found._replace(document=document)


def message_of(state: State, kind: ResourceKind, found: FoundObject, warnings: tuple[str, ...] = ()) -> Message:
    """An object as a message."""
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


def count_jobs(message: Any, state: State, lines: Mapping[Queue, QueueCounts], viewer: str) -> None:
    """Write the numbers of jobs into the message of a pool."""
    message.running, message.pending = jobs_of_pool(state, lines, viewer, message.name.removeprefix("pools/"))


def _fill_pool(state: State, message: Any, name: str) -> None:
    pool = state.pools.get(name)
    if pool is None:
        return
    message.nodes = len(pool.nodes)
    for key in pool_keys(state, pool):
        amounts = {word: format_amount(key.key, getattr(key, word)) for word in _POOL_AMOUNTS}
        message.keys.add(key=key.key, causes=map(unusable, key.causes), **amounts)
