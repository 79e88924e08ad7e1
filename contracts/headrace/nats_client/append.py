"""Appends to a stream, conditional on the last message of the subject."""

from __future__ import annotations

import re

import msgspec

from headrace.nats_client.acknowledgement import DUPLICATE, PASSING, Acknowledgement, PublishError
from headrace.nats_client.connection import Connection
from headrace.nats_client.errors import LogFull, LogRefused, LogUnavailable, NoStorage, WrongLast

EXPECTED_LAST = "Nats-Expected-Last-Subject-Sequence"

_WRONG_LAST = 10071
_LAST = re.compile(r"wrong last sequence: (\d+)")

_ack = msgspec.json.Decoder(Acknowledgement)


async def append(
    connection: Connection, subject: str, payload: bytes, expected_last: int | None, within: float | None = None
) -> int:
    """Store a message and return its sequence; the subject's last one must have the sequence `expected_last` (0: no message).

    None appends without a condition. `within`: see `Connection.ask`. Raises its errors, `WrongLast`, `LogFull` and `NoStorage`.
    """
    headers = {} if expected_last is None else {EXPECTED_LAST: str(expected_last)}
    answer = await connection.ask(subject, payload, headers, within)
    try:
        ack = _ack.decode(answer.data)
    except msgspec.DecodeError as error:
        raise LogUnavailable(f"{subject}: the acknowledgement cannot be read: {error}") from None
    if ack.error is not None:
        raise refusal(ack.error, subject)
    if ack.duplicate:
        raise LogRefused(f"{subject}: {DUPLICATE}")
    if ack.seq < 1:
        raise LogUnavailable(f"{subject}: the acknowledgement has no sequence")
    return ack.seq


def refusal(fault: PublishError, about: str) -> WrongLast | LogUnavailable | LogRefused:
    """The exception for an error of the server: only `LogUnavailable` and its subclasses are tried again."""
    text = f"{about}: {fault.description} ({fault.err_code})"
    if fault.err_code == _WRONG_LAST:
        last = _LAST.search(fault.description)
        return WrongLast(text, int(last[1]) if last else None)
    if fault.is_full:
        return LogFull(text)
    if fault.disk_error:
        return NoStorage(fault.disk_error)
    return LogUnavailable(text) if fault.err_code in PASSING else LogRefused(text)
