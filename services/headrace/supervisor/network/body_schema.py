"""Fields that the body of each path may have, read from the protos, for the script before the transcoder (`strict.lua`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from google.protobuf.descriptor import FieldDescriptor

from headrace.contracts.schemas import protocol

DEPTH_MAX = 16
_ANY_JSON = {"google.protobuf.Struct", "google.protobuf.Value", "google.protobuf.ListValue"}
ANY, PLAIN = '"any"', '"plain"'


def script() -> str:
    """Return the script with its tables."""
    entries = "".join(f"  {entry},\n" for entry in _entries())
    return f"KNOWN = {{\n{entries}}}\n" + files("headrace.supervisor.network").joinpath("strict.lua").read_text("utf-8")


def _entries() -> Iterator[str]:
    for method in protocol.methods():
        for one in protocol.bindings(method):
            if one.body:
                message = method.input_type if one.body == "*" else method.input_type.fields_by_name[one.body].message_type
                needed = "true" if protocol.needs_body(method, one) else "false"
                where = f'method="{one.verb.upper()}", pattern={_lua(_pattern(one.path))}'
                yield f"{{{where}, needed={needed}, body={_fields(message, 0)}}}"


def _pattern(path: str) -> str:
    """Return the path as a pattern of Lua."""
    plain = re.sub(r"\{[\w.]+(?:=([^}]*))?\}", lambda match: match[1] or "*", path)
    escaped = re.sub(r"[-.+?()\[\]%^$]", lambda match: f"%{match[0]}", plain)
    return f"^{escaped.replace('*', '[^/:]+')}$"


def _fields(message: Any, depth: int) -> str:
    if message.full_name in _ANY_JSON:
        return ANY
    if message.full_name.startswith("google.protobuf.") or depth > DEPTH_MAX:
        return PLAIN
    inside: dict[str, str] = {}
    for field in message.fields:
        known = _known(field, depth)
        inside[field.name] = inside[field.json_name] = known
    return "{fields={" + ", ".join(f"[{_lua(name)}]={known}" for name, known in inside.items()) + "}}"


def _known(field: Any, depth: int) -> str:
    if field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type.GetOptions().map_entry:
        return f"{{values={_known(field.message_type.fields_by_name['value'], depth)}}}"
    one = PLAIN if field.type != FieldDescriptor.TYPE_MESSAGE else _fields(field.message_type, depth + 1)
    return f"{{list={one}}}" if field.is_repeated else one


def _lua(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
