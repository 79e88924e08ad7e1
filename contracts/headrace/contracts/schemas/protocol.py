"""The services and methods of the API and their HTTP paths, read from the generated descriptors."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from google.api import annotations_pb2, field_behavior_pb2
from google.protobuf import descriptor_pb2
from google.rpc import error_details_pb2, status_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor, MethodDescriptor, ServiceDescriptor

PACKAGE = "headrace.v1"

_MODULES = (
    *("audit", "documents", "groups", "instances", "jobs", "logins", "nodes", "overview", "pages", "plan", "policies", "pools"),
    "preemptions",
    *("profiles", "queues", "service_accounts", "system", "tenants", "tokens", "usage", "users"),
)
_VERBS = ("get", "put", "post", "delete", "patch")
_VARIABLE = re.compile(r"\{([\w.]+)(?:=([^}]*))?\}")


class Binding(NamedTuple):
    """One way to call a method over HTTP: `get`, `/v1/{name=tenants/*}`, the field in the body (`*`: all; empty: none)."""

    verb: str
    path: str
    body: str

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """(field, pattern) of each part of the path that is a field: (`name`, `tenants/*`)."""
        return tuple((match[1], match[2] or "*") for match in _VARIABLE.finditer(self.path))

    @property
    def pattern(self) -> str:
        """The path as a regular expression."""
        parts = re.split(r"(\*)", _VARIABLE.sub(lambda match: match[2] or "*", self.path))
        return "".join("[^/:]+" if part == "*" else re.escape(part).replace("/", "/") for part in parts)


def files() -> tuple[FileDescriptor, ...]:
    """The proto files of the API, by name."""
    return tuple(import_module(f"headrace.contracts.api.{name}_pb2").DESCRIPTOR for name in _MODULES)


@cache
def services() -> tuple[ServiceDescriptor, ...]:
    """All services of the API, by name."""
    found = [service for file in files() for service in file.services_by_name.values()]
    return tuple(sorted(found, key=lambda service: service.full_name))


def methods() -> Iterator[MethodDescriptor]:
    """All methods of all services."""
    for service in services():
        yield from service.methods


def path_of(method: MethodDescriptor) -> str:
    """The name of a method in gRPC: `/headrace.v1.Jobs/GetJob`."""
    return f"/{method.containing_service.full_name}/{method.name}"


def bindings(method: MethodDescriptor) -> tuple[Binding, ...]:
    """The ways to call a method over HTTP."""
    rule = method.GetOptions().Extensions[annotations_pb2.http]
    found = []
    for one in (rule, *rule.additional_bindings):
        verb = next(verb for verb in _VERBS if getattr(one, verb))
        found.append(Binding(verb, getattr(one, verb), one.body))
    return tuple(found)


def required(message: Descriptor) -> tuple[FieldDescriptor, ...]:
    """The required fields of a message."""
    wanted = field_behavior_pb2.REQUIRED
    return tuple(
        field for field in message.fields if wanted in field.GetOptions().Extensions[field_behavior_pb2.field_behavior]
    )


def needs_body(method: MethodDescriptor, binding: Binding) -> bool:
    """True if a required field is in the body."""
    inside = {field for field, _ in binding.variables}
    names = {field.name for field in required(method.input_type)} - inside
    return bool(names) if binding.body == "*" else binding.body in names


def descriptors() -> descriptor_pb2.FileDescriptorSet:
    """Every file that a gateway needs, each after the files that it imports."""
    found: dict[str, FileDescriptor] = {}

    def visit(file: FileDescriptor) -> None:
        for other in file.dependencies:
            visit(other)
        found.setdefault(file.name, file)

    for file in (*files(), error_details_pb2.DESCRIPTOR, status_pb2.DESCRIPTOR):
        visit(file)
    whole = descriptor_pb2.FileDescriptorSet()
    for file in found.values():
        file.CopyToProto(whole.file.add())
    return whole
