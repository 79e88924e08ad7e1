"""The streams of the NATS server: created if missing, updated if allowed.

What makes a stream safe (where it is stored, that nothing is discarded or deleted, that no header lets a publisher roll up, expire,
schedule or batch) is essential: a stream with other settings there is refused, never changed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.bus.log import LogError, LogRefused, LogUnavailable
from headrace.contracts.facts.records import RECORD_BYTES_MAX
from headrace.contracts.messages.submissions import SUBMISSION_BYTES_MAX
from headrace.contracts.transport.subjects import (
    FEED_STREAM,
    FEED_SUBJECTS,
    LEDGER_STREAM,
    LEDGER_SUBJECTS,
    SNAPSHOT_STREAM,
    SNAPSHOT_SUBJECTS,
    SUBMIT_STREAM,
    SUBMIT_SUBJECTS,
)
from headrace.nats_client.acknowledgement import PASSING
from headrace.nats_client.connection import Connection

SECOND = 1_000_000_000
"""The server counts time in nanoseconds."""

HEADER_BYTES = 4 * 1024
"""The server counts the headers (expected sequence, message id, what it adds itself) into a message's size."""

SUBMIT_PER_SUBJECT = 20_000
SUBMIT_BYTES = 2 * 1024**3
NO_DUPLICATES = SECOND // 10
"""The shortest window in which the server checks for repeated message ids; the check cannot be turned off.

Headrace does not publish submissions with an id: the job's own id tells a repetition (R14), and a message that is dropped for its id is
lost.
"""
FEED_MESSAGES = 200_000
FEED_BYTES = 512 * 1024**2
PIECE = 512 * 1024
"""Bytes of one chunk of an object: a snapshot has many."""

BEGINS_LATE = frozenset({SUBMIT_STREAM, FEED_STREAM})
"""Streams whose beginning is purged on purpose; the ledger is not one of them."""

_NO_SUCH_STREAM = 10059
_INSUFFICIENT_RESOURCES = 10023
_TOO_FEW_SERVERS = 10005
_FORBIDDEN_HEADERS = (
    "allow_rollup_hdrs",
    "allow_msg_ttl",
    "allow_atomic",
    "allow_batched",
    "allow_msg_counter",
    "allow_msg_schedules",
)
_ESSENTIAL = (
    "subjects",
    "storage",
    "retention",
    "discard",
    "discard_new_per_subject",
    "deny_delete",
    "max_age",
    "persist_mode",
    "sealed",
)

STREAMS: dict[str, dict[str, Any]] = {
    SUBMIT_STREAM: {
        "subjects": list(SUBMIT_SUBJECTS),
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "discard_new_per_subject": True,
        "max_msgs_per_subject": SUBMIT_PER_SUBJECT,
        "max_bytes": SUBMIT_BYTES,
        "max_msg_size": SUBMISSION_BYTES_MAX + HEADER_BYTES,
        "duplicate_window": NO_DUPLICATES,
        "allow_direct": True,
    },
    LEDGER_STREAM: {
        "subjects": list(LEDGER_SUBJECTS),
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "deny_delete": True,
        "max_msg_size": RECORD_BYTES_MAX + HEADER_BYTES,
        "allow_direct": True,
    },
    FEED_STREAM: {
        "subjects": list(FEED_SUBJECTS),
        "storage": "memory",
        "retention": "limits",
        "discard": "old",
        "max_msgs": FEED_MESSAGES,
        "max_bytes": FEED_BYTES,
        "max_age": 600 * SECOND,
        "max_msg_size": SUBMISSION_BYTES_MAX,
        "allow_direct": True,
    },
    SNAPSHOT_STREAM: {
        "subjects": list(SNAPSHOT_SUBJECTS),
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_msg_size": PIECE + HEADER_BYTES,
        "allow_direct": True,
    },
}


class StreamMismatch(LogError):
    """A stream of that name exists with other settings; the text names them and the way out."""


class _TooFewServers(LogUnavailable):
    """Fewer servers are up than the replicas need."""


class _Fault(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class _StreamAnswer(msgspec.Struct):
    error: _Fault | None = None
    config: dict[str, Any] = {}


async def ensure_streams(connection: Connection, replicas: int = 1) -> None:
    """Create missing streams and update the others; the user has to be an operator of `CORE`.

    Raises `StreamMismatch`, `LogRefused` (the server refuses it: no space, no permission), `LogUnavailable`.
    """
    for name in STREAMS:
        await ensure_stream(connection, name, replicas)


async def ensure_stream(connection: Connection, name: str, replicas: int = 1) -> None:
    """Create or update one stream, see `ensure_streams`.

    A stream in memory gets a majority of the replicas while servers are missing: it may have to be made again after a restart.
    """
    try:
        await _ensure(connection, name, replicas)
    except _TooFewServers:
        if STREAMS[name]["storage"] != "memory":
            raise
        await _ensure(connection, name, replicas // 2 + 1)


async def _ensure(connection: Connection, name: str, replicas: int) -> None:
    wanted = {"name": name, "num_replicas": replicas} | STREAMS[name]
    found = await _request(connection, f"STREAM.INFO.{name}")
    if found.error is None:
        _compare(name, wanted, found.config)
        if _differs(wanted, found.config):
            await _write(connection, f"STREAM.UPDATE.{name}", found.config | wanted)
    elif found.error.err_code == _NO_SUCH_STREAM:
        await _write(connection, f"STREAM.CREATE.{name}", wanted)
    else:
        raise _refusal(found.error, f"stream {name}")


def _compare(name: str, wanted: dict[str, Any], found: dict[str, Any]) -> None:
    """Raise `StreamMismatch` if an essential setting differs; a setting that the server does not name is off, and subjects may be added."""
    subjects = found.get("subjects")
    if subjects and set(subjects) < set(wanted["subjects"]):
        found = found | {"subjects": wanted["subjects"]}
    wrong = [
        f"{key} is {_shown(found.get(key))}, has to be {_shown(wanted.get(key))}"
        for key in (*_ESSENTIAL, *_FORBIDDEN_HEADERS)
        if (found.get(key) or None) != (wanted.get(key) or None)
    ]
    if wrong:
        raise StreamMismatch(
            f"stream {name} exists with other settings: {'; '.join(wrong)}. Move it away, or use another data directory"
        )


def _differs(wanted: dict[str, Any], found: dict[str, Any]) -> bool:
    return any(found.get(key) != value for key, value in wanted.items())


def _shown(setting: object) -> str:
    return "off" if setting in (None, False, 0, "") else str(setting)


async def _write(connection: Connection, what: str, config: dict[str, Any]) -> None:
    answer = await _request(connection, what, config)
    if answer.error is not None:
        raise _refusal(answer.error, what)


def _refusal(fault: _Fault, about: str) -> LogError:
    kind = LogUnavailable if fault.err_code in PASSING - {_INSUFFICIENT_RESOURCES} else LogRefused
    kind = _TooFewServers if fault.err_code == _TOO_FEW_SERVERS else kind
    return kind(f"{about}: {fault.description} ({fault.err_code})")


async def _request(connection: Connection, what: str, body: dict[str, Any] | None = None) -> _StreamAnswer:
    answer = await connection.ask(f"$JS.API.{what}", msgspec.json.encode(body) if body else b"")
    return msgspec.json.decode(answer.data, type=_StreamAnswer)
