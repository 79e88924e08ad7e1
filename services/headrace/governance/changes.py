"""Changes of a document, field by field, in the notation of documents."""

from __future__ import annotations

from typing import Any

from headrace.contracts.documents.forms import Form, Shape
from headrace.contracts.documents.model import Document
from headrace.contracts.documents.reader import SHAPES
from headrace.contracts.documents.tree import path_text

VALUE_MAX = 120
"""Maximum characters shown of a value."""

NOTHING = "none"

PRICES = frozenset({"price", "reserved_price", "max_price"})
"""Keys whose values are prices, which are texts."""


def changed_fields(kind: str, was: Document, will_be: Document) -> tuple[str, ...]:
    """`limit.gpu: 9 -> 10` for each field that differs, defaults written out; equal amounts (`0.80`, `0.8`) do not differ."""
    lines: list[str] = []
    _compare(SHAPES[kind], was, will_be, (), lines)
    return tuple(lines)


def _compare(shape: Shape[Any], was: Any, will_be: Any, at: tuple[str, ...], lines: list[str]) -> None:
    for key, attribute in shape.attributes.items():
        form, before, after = shape.forms[key], getattr(was, attribute), getattr(will_be, attribute)
        if before == after:
            continue
        if isinstance(form, Shape) and before is not None and after is not None:
            _compare(form, before, after, (*at, key), lines)
        else:
            _compare_written(_written(form, before), _written(form, after), (*at, key), lines)


def _written(form: Form[Any], value: Any) -> object:
    return None if value is None else form.write(value)


def _compare_written(was: object, will_be: object, at: tuple[str, ...], lines: list[str]) -> None:
    if isinstance(was, dict) and isinstance(will_be, dict):
        for key in dict.fromkeys((*was, *will_be)):
            _compare_written(was.get(key), will_be.get(key), (*at, key), lines)
    elif _plain(was, is_price=not PRICES.isdisjoint(at)) != _plain(will_be, is_price=not PRICES.isdisjoint(at)):
        lines.append(f"{path_text(at)}: {_shown(was)} -> {_shown(will_be)}")


def _plain(written: object, *, is_price: bool) -> object:
    """A value in which equal prices are equal texts: documents keep them as they were written, such as `0.80`."""
    match written:
        case dict():
            return {key: _plain(value, is_price=is_price or key in PRICES) for key, value in written.items()}
        case list() | tuple():
            return [_plain(value, is_price=is_price) for value in written]
        case str() if is_price and "." in written:
            return written.rstrip("0").rstrip(".")
    return written


def _shown(written: object) -> str:
    text = NOTHING if written is None else _flow(written)
    return text if len(text) <= VALUE_MAX else text[: VALUE_MAX - 1] + "…"


def _flow(written: object) -> str:
    """A value on one line, as in a file."""
    match written:
        case dict():
            return "{" + ", ".join(f"{key}: {_flow(value)}" for key, value in written.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_flow, written)) + "]"
        case bool():
            return "true" if written else "false"
        case _:
            return str(written) or '""'
