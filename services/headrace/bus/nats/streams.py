"""The streams as the NATS server has to have them: made where they are missing, brought up to date where they may be.

What makes a stream safe (where it is stored, that nothing is discarded or deleted, that no header lets a publisher roll up,
expire, schedule or batch) is essential: a stream that exists with something else there is refused, never repaired.
"""

from __future__ import annotations

from typing import Any

import msgspec

from headrace.bus.log import LogError, LogRefused, LogUnavailable
from headrace.bus.nats.connection import Connection
from headrace.contracts.facts.records import RECORD_BYTES_MAX
from headrace.contracts.transport.codec import WISH_BYTES_MAX
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

SECOND = 1_000_000_000
"""The server counts time in nanoseconds."""

HEADER_ROOM = 4 * 1024
"""The server counts the headers (expected sequence, message id, what it adds itself) into a message's size."""

SUBMIT_PER_SUBJECT = 20_000
SUBMIT_BYTES = 2 * 1024**3
NO_DUPLICATES = SECOND // 10
"""The shortest window in which the server looks for repeated message ids; it cannot be told not to look at all. Nothing of ours publishes
wishes under an id: what is the same job is told by the job's own id (R14), and a message that is dropped for its id is lost."""
FEED_MESSAGES = 200_000
FEED_BYTES = 512 * 1024**2
PIECE = 512 * 1024
"""Bytes of one piece of an object: a snapshot has many."""

BEGINS_LATE = frozenset({SUBMIT_STREAM, FEED_STREAM})
"""Streams that forget their beginning on purpose; the ledger does not."""

PASSING = frozenset(
    {
        10005,  # no server for the replicas yet
        10008,  # JetStream is temporarily unavailable
        10009,  # that server is not the leader
        10023,  # insufficient resources
        10039,  # JetStream is not enabled for the account yet
        10074,  # too few servers for the replicas yet
        10076,  # JetStream is not enabled yet
        10164,  # another append on the subject is under way
        10167,  # too many requests wait for the stream
    }
)
"""Refusals that are a matter of time: the server starts, elects, or still has an earlier try of ours in its hands."""

_NO_SUCH_STREAM = 10059
_NO_ROOM = 10023
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
        "max_msg_size": WISH_BYTES_MAX + HEADER_ROOM,
        "duplicate_window": NO_DUPLICATES,
        "allow_direct": True,
    },
    LEDGER_STREAM: {
        "subjects": list(LEDGER_SUBJECTS),
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "deny_delete": True,
        "max_msg_size": RECORD_BYTES_MAX + HEADER_ROOM,
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
        "max_msg_size": WISH_BYTES_MAX,
        "allow_direct": True,
    },
    SNAPSHOT_STREAM: {
        "subjects": list(SNAPSHOT_SUBJECTS),
        "storage": "file",
        "retention": "limits",
        "discard": "new",
        "max_msg_size": PIECE + HEADER_ROOM,
        "allow_direct": True,
    },
}


class StreamMismatch(LogError):
    """A stream of that name exists and is another one; the text says in what, and the way out."""


class _TooFewServers(LogUnavailable):
    """There are no servers for so many replicas."""


class _Fault(msgspec.Struct):
    err_code: int = 0
    description: str = ""


class _StreamAnswer(msgspec.Struct):
    error: _Fault | None = None
    config: dict[str, Any] = {}


async def ensure_streams(connection: Connection, replicas: int = 1) -> None:
    """Make the streams that are missing and update the others; the user has to be an operator of `CORE`.

    Raises `StreamMismatch`, `LogRefused` (the server will not have it: no room, no permission), `LogUnavailable`.
    """
    for name in STREAMS:
        await ensure_stream(connection, name, replicas)


async def ensure_stream(connection: Connection, name: str, replicas: int = 1) -> None:
    """See `ensure_streams`, for one stream.

    One that is in memory makes do with most of the replicas while there are no servers for all: it may have to be made anew then.
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
    """Refuse a stream whose essentials are not as wanted; a setting the server does not name is off, and subjects may be added."""
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
    kind = LogUnavailable if fault.err_code in PASSING - {_NO_ROOM} else LogRefused
    kind = _TooFewServers if fault.err_code == _TOO_FEW_SERVERS else kind
    return kind(f"{about}: {fault.description} ({fault.err_code})")


async def _request(connection: Connection, what: str, body: dict[str, Any] | None = None) -> _StreamAnswer:
    answer = await connection.ask(f"$JS.API.{what}", msgspec.json.encode(body) if body else b"")
    return msgspec.json.decode(answer.data, type=_StreamAnswer)
