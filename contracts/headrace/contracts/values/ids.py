"""Names and identifiers: the syntax of tokens, job ids, job keys and lease ids, and their parts.

A *token* is one part of a NATS subject. A *job id* is a lower-case ULID made by the client or the gateway (R14); the id of an element
of an array is the array's, `-` and its index in six digits, so that ids in their order are indices in theirs. A *job key* is
`<tenant>.<user>.<job id>`: the full name of a job, used in every fact. A *lease id* is `<job key>/<attempt>/<rank>`; the allocator can
therefore name a lease without randomness.
"""

from __future__ import annotations

import re
from typing import NewType

JobId = NewType("JobId", str)
JobKey = NewType("JobKey", str)
LeaseId = NewType("LeaseId", str)

DEFAULT_TENANT = "default"
"""The tenant that is meant where a request or a document does not name one."""

TOKEN = re.compile(r"[a-z0-9-]{1,63}")
_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_ULID = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}")
_JOB_ID = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}(?:-[0-9]{6})?")
_LEASE = re.compile(
    r"([^/]+)/([1-9][0-9]{0,9})/(0|[1-9][0-9]{0,9})"
)  # one way to write each, so that equal ids are equal texts
_VALUE = {character: value for value, character in enumerate(_CROCKFORD)}

MICROSECONDS_PER_MILLISECOND = 1_000
ENTROPY_BYTES = 10

NODE_WRITER = "node."
"""Nodes are called `node.<name>` as writers of records; services have their own name."""


class IdError(ValueError):
    """A malformed name or identifier; the message says how to write it."""


def is_token(text: str) -> bool:
    """True if `text` may be one part of a subject: 1-63 of a-z, 0-9, '-'."""
    return TOKEN.fullmatch(text) is not None


def is_ulid(text: str) -> bool:
    """True if `text` is a lower-case ULID of 26 characters: the id of a job or of an array."""
    return _ULID.fullmatch(text) is not None


def is_job_id(text: str) -> bool:
    """True if `text` is the id of a job, of an array, or of an element of one."""
    return _JOB_ID.fullmatch(text) is not None


def element_name(array: str, index: int) -> str:
    """The id or key of an element, from those of its array."""
    return f"{array}-{index:06}"


def array_of(name: str) -> str:
    """The id or key of the array, from those of one of its elements; empty for any other job."""
    return name[:-7] if name[-7:-6] == "-" and name[-6:].isdecimal() and len(name) > 32 else ""


def index_of(name: str) -> int:
    """The index in the id or key of an element."""
    return int(name[-6:])


def written(name: str) -> str:
    """An id or key as people write it: that of an element as `ARRAY:17`."""
    array = array_of(name)
    return f"{array}:{index_of(name)}" if array else name


def make_job_id(milliseconds: int, entropy: bytes) -> JobId:
    """A ULID from a Unix time in milliseconds and 10 bytes of randomness, both given by the caller."""
    if len(entropy) != ENTROPY_BYTES:
        raise IdError(f"a ULID needs {ENTROPY_BYTES} bytes of randomness, not {len(entropy)}")
    if not 0 <= milliseconds < 1 << 48:
        raise IdError(f"a ULID holds 48 bits of milliseconds since 1970; {milliseconds} does not fit")
    number = (milliseconds << 80) | int.from_bytes(entropy, "big")
    return JobId("".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5)))


def job_id_time(job_id: str) -> int:
    """The time in a job id, in microseconds since 1970. Raises IdError if malformed."""
    if not is_ulid(job_id):
        raise IdError(f"invalid job id {job_id!r}: use a lower-case ULID of 26 characters")
    number = 0
    for character in job_id[:10]:
        number = number * 32 + _VALUE[character]
    return number * MICROSECONDS_PER_MILLISECOND


def job_key(tenant: str, user: str, job_id: str) -> JobKey:
    return JobKey(f"{tenant}.{user}.{job_id}")


def split_job_key(key: str) -> tuple[str, str, JobId]:
    """(tenant, user, job id) of a job key. Raises IdError if malformed."""
    parts = key.split(".")
    if len(parts) != 3 or not (is_token(parts[0]) and is_token(parts[1]) and is_job_id(parts[2])):
        raise IdError(f"invalid job key {key!r}: use <tenant>.<user>.<ulid>")
    return parts[0], parts[1], JobId(parts[2])


def lease_id(job: str, attempt: int, rank: int) -> LeaseId:
    """The id of the lease of replica `rank` (from 0) of `job` in its `attempt` (from 1)."""
    return LeaseId(f"{job}/{attempt}/{rank}")


def split_lease_id(lease: str) -> tuple[JobKey, int, int]:
    """(job key, attempt, rank) of a lease id. Raises IdError if malformed."""
    match = _LEASE.fullmatch(lease)
    if match is None:
        raise IdError(f"invalid lease id {lease!r}: use <job key>/<attempt>/<rank>")
    split_job_key(match[1])
    return JobKey(match[1]), int(match[2]), int(match[3])
