"""Decoding and encoding of messages without facts: the one place where bytes from outside are decoded.

Every error is a `Malformed` with one line that says where; deep nesting included (msgspec raises `RecursionError`), so hostile bytes are
refused and never end the process. `codec` adds records and submissions; the types of all facts take long to import.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec

T = TypeVar("T")

MESSAGE_BYTES_MAX = 8 * 1024 * 1024
REASON_MAX = 300  # an error may quote the message, and goes into facts and logs

_NO_LIST = re.compile(r"Expected `array`, got `str` - at `\$\.([^`]+)`")

_encoder = msgspec.json.Encoder()
_decoders: dict[object, msgspec.json.Decoder[object]] = {}


class Malformed(ValueError):
    """Bytes that do not decode; the message says what is wrong, and where."""


def encode(value: object) -> bytes:
    """The JSON of any struct of the contracts."""
    return _encoder.encode(value)


def decode(payload: bytes, kind: type[T]) -> T:
    """Any other message (orders, queries, answers) as `kind`. Raises Malformed."""
    if len(payload) > MESSAGE_BYTES_MAX:
        raise Malformed(f"a message is at most {MESSAGE_BYTES_MAX} bytes, this has {len(payload)}")
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    return decode_with(decoder, payload)  # type: ignore[return-value]


def decode_with(decoder: msgspec.json.Decoder[T], payload: bytes) -> T:
    """What a decoder makes of `payload`, of any size. Raises Malformed."""
    try:
        return decoder.decode(payload)
    except RecursionError:
        raise Malformed("the JSON is nested too deeply") from None
    except UnicodeDecodeError:
        raise Malformed("the text is not UTF-8") from None
    except msgspec.DecodeError as error:
        raise Malformed(_one_line(_with_way_out(str(error)))) from None


def _with_way_out(text: str) -> str:
    """The error text; for one text in place of a list, a frequent mistake, with an example of a list."""
    found = _NO_LIST.fullmatch(text)
    return text if found is None else f'{found[1]}: write a list such as ["echo", "hello"], not one text'


def _one_line(text: str) -> str:
    """`text` as one line of a log: printable characters only, at most `REASON_MAX`."""
    printable = "".join(character if character.isprintable() else " " for character in text[:REASON_MAX])
    return printable if len(text) <= REASON_MAX else printable + "…"
