"""Conversion between protobuf messages and documents as plain values, by the names of their fields. Pure.

All values of documents are text, so that amounts never become floats (R1): a message's fields are read as text, lists and mappings, which
`document_reader` parses; and a document fills the fields of the same names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.timestamp_pb2 import Timestamp

from headrace.contracts.api.pools_pb2 import Unusable
from headrace.contracts.values.amounts import Amounts, format_amount
from headrace.governance.api.errors import invalid

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from google.protobuf.message import Message

    from headrace.contracts.messages.explanation import UnusableView
    from headrace.governance.api.masks import Written

SAFE = 2**53
_MESSAGE = FieldDescriptor.TYPE_MESSAGE
_SHORT = "name"
"""Field that a message's short form stands for: `half` is `{name: half}`."""


def written_of(message: Message, without: Collection[str] = ()) -> Written:
    """The set fields of a message, as a file would contain them."""
    return {field.name: _written(field, value) for field, value in message.ListFields() if field.name not in without}


def _written(field: Any, value: Any) -> object:
    if _is_map(field):
        inner = field.message_type.fields_by_name["value"]
        return {key: _written_one(inner, element) for key, element in value.items()}
    if field.is_repeated:
        return [_written_one(field, element) for element in value]
    return _written_one(field, value)


def _written_one(field: Any, value: Any) -> object:
    if field.type == _MESSAGE:
        return written_of(value)
    return value if isinstance(value, str | bool) else str(value)


def fill(message: Message, written: Mapping[str, object]) -> None:
    """Set the fields of a message from a document. Keys without a field are skipped."""
    fields: Any = message.DESCRIPTOR.fields_by_name
    for key, value in written.items():
        field = fields.get(key)
        if field is None or value is None:
            continue
        place: Any = getattr(message, key)
        if _is_map(field) and isinstance(value, dict):
            inner = field.message_type.fields_by_name["value"]
            for name, element in value.items():
                if inner.type == _MESSAGE:
                    _fill_one(place[name], element)
                else:
                    place[name] = str(element)
        elif field.is_repeated:
            for element in value:  # type: ignore[attr-defined]  # the writer makes lists of repeated fields
                if field.type == _MESSAGE:
                    _fill_one(place.add(), element)
                else:
                    place.append(str(element))
        elif field.type == _MESSAGE:
            place.SetInParent()
            _fill_one(place, value)
        else:
            setattr(message, key, _scalar(field, value))


def _fill_one(message: Message, written: object) -> None:
    fill(message, written if isinstance(written, dict) else {_SHORT: written})


def _scalar(field: Any, value: object) -> object:
    if field.type == FieldDescriptor.TYPE_STRING:
        return str(value)
    return value if isinstance(value, bool) else int(str(value))


def _is_map(field: Any) -> bool:
    return bool(field.type == _MESSAGE and field.message_type.GetOptions().map_entry)


def texts(amounts: Amounts) -> dict[str, str]:
    """Amounts in the notation of documents."""
    return {key: format_amount(key, value) for key, value in sorted(amounts.items())}


def moment(microseconds: int | None) -> Timestamp | None:
    """A timestamp; None for None and 0."""
    if not microseconds:
        return None
    seconds, rest = divmod(microseconds, 1_000_000)
    return Timestamp(seconds=seconds, nanos=rest * 1_000)


def microseconds(moment: Timestamp, field: str) -> int:
    """Microseconds since 1970; 0 for an unset timestamp."""
    if not -62_135_596_800 <= moment.seconds <= 253_402_300_799:
        raise invalid(field, "write a moment such as 2026-11-21T08:00:00Z")
    return moment.seconds * 1_000_000 + moment.nanos // 1_000


def sequence_of(text: str, field: str) -> int:
    """A ledger sequence; 0 for an empty text."""
    if text and not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise invalid(field, "write a ledger sequence such as 1234")
    return int(text or 0)


def plain(value: Any) -> object:
    """A value for a `google.protobuf.Struct`; numbers become text in the notation of documents."""
    if hasattr(value, "fields"):
        return {key: plain(element) for key, element in value.fields.items()}
    match value.WhichOneof("kind"):
        case "struct_value":
            return plain(value.struct_value)
        case "list_value":
            return [plain(element) for element in value.list_value.values]
        case "number_value":
            number = value.number_value
            return str(int(number)) if number.is_integer() and abs(number) < SAFE else repr(number)
        case "string_value":
            return value.string_value
        case "bool_value":
            return value.bool_value
    return None


def exact(value: Any) -> Any:
    """JSON without rounded numbers: numbers too large for a double are text."""
    if isinstance(value, dict):
        return {str(key): exact(element) for key, element in value.items()}
    if isinstance(value, list):
        return [exact(element) for element in value]
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**53 else value


def unusable(view: UnusableView) -> Unusable:
    """Message of the part of a key that cannot be granted, with the reason."""
    return Unusable(
        key=view.key,
        node=view.node,
        cause=view.cause,
        amount=format_amount(view.key, view.amount),
        by=view.by,
        since_time=moment(view.since or None),
        detail=view.detail,
    )
