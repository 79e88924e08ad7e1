"""The API as an OpenAPI 3.1 document, made from the descriptors of its protos: paths, parameters, messages, errors.

Strategy: HTTP clients see the proto JSON mapping with field names kept, behind a gateway that refuses unknown fields. Comments
in the protos are the descriptions. A field with a checked form (names, sequences, page sizes) has it in its schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from google.api import annotations_pb2, field_behavior_pb2
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)

from headrace.contracts.schemas.rule_links import PAGE, with_linked_descriptions

Schema = dict[str, Any]
Field = FieldDescriptorProto

OURS = "headrace.v1"
_REF = "#/components/schemas/"
_TOKEN = "[a-z0-9-]{1,63}"  # noqa: S105  # a part of a name, not a secret
_OPEN = frozenset({"GetOpenApi", "GetPage", "RedeemLoginCode"})
"""Methods that need no token."""
_FILES = frozenset({"GetPage"})
"""Methods that answer with a file of any type."""
_VARIABLE = re.compile(r"\{([\w.]+)(?:=([^}]*))?\}")

_SCALARS: dict[int, Schema] = {
    Field.TYPE_STRING: {"type": "string"},
    Field.TYPE_BOOL: {"type": "boolean"},
    Field.TYPE_BYTES: {"type": "string", "format": "byte"},
    Field.TYPE_INT32: {"type": "integer", "format": "int32", "minimum": -(2**31), "maximum": 2**31 - 1},
    Field.TYPE_INT64: {"type": "string", "format": "int64", "pattern": "^-?[0-9]{1,18}$"},
}
_KNOWN: dict[str, Schema] = {
    ".google.protobuf.Timestamp": {"type": "string", "format": "date-time"},
    ".google.protobuf.FieldMask": {"type": "string", "description": "Fields, with commas between them."},
    ".google.protobuf.Struct": {"type": "object", "additionalProperties": True},
}
_CHECKED: dict[str, Schema] = {
    "page_size": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 1_000},
    "min_sequence": {"type": "string", "pattern": "^[0-9]{0,18}$"},
}
"""Fields of requests by name whose values are restricted beyond their type."""

_ERROR: Schema = {
    "type": "object",
    "description": "Why it failed: a gRPC status, and in `details` a stable reason and the invalid fields.",
    "properties": {
        "code": {"type": "integer", "description": "The code of google.rpc.Code."},
        "message": {"type": "string", "description": "One line with the way out."},
        "details": {
            "type": "array",
            "description": "google.rpc.ErrorInfo (`reason`, `domain`, `metadata`) and google.rpc.BadRequest (`field_violations`).",
            "items": {"type": "object", "properties": {"@type": {"type": "string"}}, "additionalProperties": True},
        },
    },
    "required": ["code", "message"],
}


class _Message(NamedTuple):
    """A message, and the comments on it and on its fields."""

    proto: DescriptorProto
    comment: str
    fields: dict[str, str]


def openapi(described: FileDescriptorSet) -> str:
    """The document as text, as it is checked in."""
    return json.dumps(with_linked_descriptions(_Writer(described).document()), indent=2, ensure_ascii=False) + "\n"


class _Writer:
    def __init__(self, described: FileDescriptorSet) -> None:
        self._files = [file for file in described.file if file.package == OURS]
        self._messages = {f".{OURS}.{message.proto.name}": message for file in self._files for message in _messages(file)}
        self._enums = {f".{OURS}.{enum.name}": enum for file in self._files for enum in file.enum_type}

    def document(self) -> Schema:
        paths: Schema = {}
        for file in self._files:
            for number, service in enumerate(file.service):
                comments = _comments(file)
                for index, method in enumerate(service.method):
                    about = comments.get((6, number, 2, index), "")
                    for verb, path, operation in self._operations(service.name, method, about):
                        paths.setdefault(path, {})[verb] = operation
        return {
            "openapi": "3.1.0",
            "info": {
                "title": "Headrace",
                "version": "1",
                "description": "Shared GPUs: who may take what, who runs, and why. Generated from the protos in contracts/proto.",
                "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            },
            "externalDocs": {"description": "The rules that descriptions cite", "url": PAGE},
            "servers": [{"url": "/"}],
            "security": [{"bearer": []}],
            "paths": dict(sorted(paths.items())),
            "components": {
                "schemas": {name.rpartition(".")[2]: self._schema(name) for name in sorted(self._shown())} | {"Error": _ERROR},
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
            },
        }

    def _operations(self, service: str, method: MethodDescriptorProto, about: str) -> Iterator[tuple[str, str, Schema]]:
        rule = method.options.Extensions[annotations_pb2.http]
        for number, one in enumerate((rule, *rule.additional_bindings)):
            verb = next(verb for verb in ("get", "post", "delete", "patch", "put") if getattr(one, verb))
            path, inside = _opened(getattr(one, verb))
            message = self._messages[method.input_type]
            taken = {name for name, _ in inside.values()}
            parameters = [
                {"name": part, "in": "path", "required": True, "schema": {"type": "string", "pattern": f"^{_TOKEN}$"}}
                for part in _parts(path)
            ]
            if one.body != "*":
                parameters += self._query(message, {one.body, *taken} - {""})
            operation: Schema = {
                "operationId": method.name + (f"In{_parent(path)}" if number else ""),
                "tags": [service],
                "summary": about.partition("\n")[0],
                "parameters": parameters,
                "responses": self._responses(method),
            }
            if one.body:
                schema = self._body(message, one.body, {name.partition(".")[2] or name for name in taken})
                needed = one.body != "*" or "required" in schema
                if verb == "patch":  # fields that the body omits stay unchanged
                    schema.pop("required", None)
                operation["requestBody"] = {"required": needed, "content": {"application/json": {"schema": schema}}}
            if method.name in _OPEN:
                operation["security"] = []
            yield verb, path, operation

    def _query(self, message: _Message, without: set[str]) -> list[Schema]:
        return [
            {
                "name": field.name,
                "in": "query",
                "required": _behaves(field, field_behavior_pb2.REQUIRED),
                "description": message.fields.get(field.name, ""),
                "schema": self._of_request(field),
            }
            for field in message.proto.field
            if field.name not in without
        ]

    def _of_request(self, field: Field) -> Schema:
        return dict(_CHECKED.get(field.name) or self._field(field))

    def _body(self, message: _Message, body: str, taken: set[str]) -> Schema:
        """The whole request except the fields in the path, or the one field that is the body."""
        if body != "*":
            field = next(field for field in message.proto.field if field.name == body)
            message = self._messages[field.type_name]
        return self._object(message, {field.name for field in message.proto.field} - taken, strict=True)

    def _responses(self, method: MethodDescriptorProto) -> Schema:
        kind = method.output_type
        schema: Schema = {"type": "object"} if kind not in self._messages else {"$ref": _REF + kind.rpartition(".")[2]}
        good: Schema = {"description": "Done.", "content": {"application/json": {"schema": schema}}}
        if method.name in _FILES:
            good["content"] = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
        if method.server_streaming:
            good["description"] = "A stream: one JSON object on each line."
            good["content"] = {"application/json": {"schema": {"type": "string", "description": "Lines.", "x-line": schema}}}
        bad = {"description": "Refused or failed.", "content": {"application/json": {"schema": {"$ref": _REF + "Error"}}}}
        return {"200": good, "default": bad}

    def _shown(self) -> set[str]:
        """Messages that are referenced: results, and their parts."""
        found: set[str] = set()
        waiting = [method.output_type for file in self._files for service in file.service for method in service.method]
        waiting += [
            field.type_name
            for message in self._messages.values()
            if message.proto.name.endswith("Request")
            for field in message.proto.field
        ]
        while waiting:
            name = waiting.pop()
            if name in found or (name not in self._messages and name not in self._enums):
                continue
            found.add(name)
            if name in self._messages:
                proto = self._messages[name].proto
                waiting += [field.type_name for field in proto.field]
                waiting += [field.type_name for nested in proto.nested_type for field in nested.field]
        return found

    def _schema(self, name: str) -> Schema:
        if name in self._enums:
            return {"type": "string", "enum": [value.name for value in self._enums[name].value]}
        message = self._messages[name]
        return self._object(message, {field.name for field in message.proto.field}, strict=False)

    def _object(self, message: _Message, names: set[str], *, strict: bool) -> Schema:
        fields = [field for field in message.proto.field if field.name in names]
        schema: Schema = {
            "type": "object",
            "description": message.comment,
            "properties": {
                field.name: (self._of_request(field) if strict else self._field(field, message))
                | {"description": message.fields.get(field.name, "")}
                for field in fields
                if not (strict and _behaves(field, field_behavior_pb2.OUTPUT_ONLY))
            },
            "additionalProperties": False,
        }
        required = [field.name for field in fields if strict and _behaves(field, field_behavior_pb2.REQUIRED)]
        return schema | ({"required": required} if required else {})

    def _field(self, field: Field, message: _Message | None = None) -> Schema:
        entry = self._entry(field, message)
        if entry is not None:
            return {"type": "object", "additionalProperties": self._single(entry)}
        single = self._single(field)
        return {"type": "array", "items": single} if field.label == Field.LABEL_REPEATED else single

    def _single(self, field: Field) -> Schema:
        if field.type in _SCALARS:
            return dict(_SCALARS[field.type])
        known = _KNOWN.get(field.type_name)
        return dict(known) if known is not None else {"$ref": _REF + field.type_name.rpartition(".")[2]}

    def _entry(self, field: Field, message: _Message | None) -> Field | None:
        """The value type of a map."""
        owner, _, name = field.type_name.rpartition(".")
        holder = message or self._messages.get(owner)
        nested = holder.proto.nested_type if holder is not None else ()
        entry = next((one for one in nested if one.name == name and one.options.map_entry), None)
        return entry.field[1] if entry is not None else None


def _messages(file: FileDescriptorProto) -> Iterator[_Message]:
    comments = _comments(file)
    for index, proto in enumerate(file.message_type):
        fields = {field.name: comments.get((4, index, 2, number), "") for number, field in enumerate(proto.field)}
        yield _Message(proto, comments.get((4, index), ""), fields)


def _comments(file: FileDescriptorProto) -> dict[tuple[int, ...], str]:
    return {tuple(place.path): place.leading_comments.strip() for place in file.source_code_info.location}


def _behaves(field: Field, behaviour: int) -> bool:
    found: Iterable[int] = field.options.Extensions[field_behavior_pb2.field_behavior]
    return behaviour in found


def _opened(path: str) -> tuple[str, dict[str, tuple[str, str]]]:
    """`/v1/{name=tenants/*/jobs/*}:cancel` as `/v1/tenants/{tenant}/jobs/{job}:cancel`, and the field that it replaced."""
    inside: dict[str, tuple[str, str]] = {}

    def open_one(match: re.Match[str]) -> str:
        inside[match[0]] = (match[1], match[2] or "*")
        parts: list[str] = []
        for part in (match[2] or "*").split("/"):
            parts.append(part if part != "*" else "{" + _singular(parts[-1] if parts else match[1], parts) + "}")
        return "/".join(parts)

    return _VARIABLE.sub(open_one, path), inside


def _singular(collection: str, before: list[str]) -> str:
    if collection.startswith("{"):  # a queue's name has two parts
        return "profile"
    if collection == "queues" and before:
        return "policy"
    name = "policy" if collection == "policies" else collection.removesuffix("s")
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _parts(path: str) -> list[str]:
    return re.findall(r"\{(\w+)\}", path)


def _parent(path: str) -> str:
    return "".join(part.title() for part in _parts(path)[:1])
