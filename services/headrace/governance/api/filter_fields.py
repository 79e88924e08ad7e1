"""The fields of a message as filters use them: text, at any depth. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor

if TYPE_CHECKING:
    from collections.abc import Collection

    from google.protobuf.message import Message

    from headrace.governance.api.filters import FieldLookup


def field_lookup(message: Message) -> FieldLookup:
    """Lookup of a message's fields for a filter."""

    def lookup(path: str) -> Collection[str]:
        return tuple(_values(message, path))

    return lookup


def _values(value: Any, path: str) -> list[str]:
    if value is None:
        return []
    if not path:
        return _texts(value)
    step, _, rest = path.partition(".")
    if hasattr(value, "DESCRIPTOR"):
        field = value.DESCRIPTOR.fields_by_name.get(step)
        return [] if field is None else _of_field(field, getattr(value, step), rest)
    return []


def _of_field(field: FieldDescriptor, value: Any, rest: str) -> list[str]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if not rest:
            return list(value)
        key, _, deeper = rest.partition(".")
        return _values(value[key], deeper) if key in value else []
    if field.is_repeated:
        return [text for element in value for text in _values(element, rest)]
    if field.message_type is not None and not rest:
        return _texts(value)
    return _values(value, rest) if rest else _texts(value)


def _texts(value: Any) -> list[str]:
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if hasattr(value, "ToJsonString"):  # a timestamp
        return [value.ToJsonString()] if value.seconds or value.nanos else []
    if hasattr(value, "DESCRIPTOR"):
        return ["set"] if value.ListFields() else []
    text = str(value)
    return [text] if text else []
