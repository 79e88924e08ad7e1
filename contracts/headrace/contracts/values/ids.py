"""Names and identifiers: what a token, a job id, a lease id look like, and how to take them apart.

A *token* is one part of a bus subject. A *job id* is a lower-case ULID made by the client or the gateway (R14). A *job
key* is `<tenant>.<user>.<job id>`: the whole name of a job, used in every fact. A *lease id* is `<job key>/<attempt>/<rank>`;
the allocator can therefore name a lease without randomness.
"""

from __future__ import annotations

import re
from typing import NewType

JobId = NewType("JobId", str)
JobKey = NewType("JobKey", str)
LeaseId = NewType("LeaseId", str)

TOKEN = re.compile(r"[a-z0-9-]{1,63}")
_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
_ULID = re.compile(r"[0-7][0-9a-hjkmnp-tv-z]{25}")
_LEASE = re.compile(
    r"([^/]+)/([1-9][0-9]{0,9})/(0|[1-9][0-9]{0,9})"
)  # one way to write each, so that equal ids are equal texts
_VALUE = {character: value for value, character in enumerate(_CROCKFORD)}

MICROSECONDS_PER_MILLISECOND = 1_000
ENTROPY_BYTES = 10


class IdError(ValueError):
    """A name or identifier that cannot be one; the message says what it has to look like."""


def is_token(text: str) -> bool:
    """Whether `text` may stand as one part of a subject: 1 to 63 of a-z, 0-9 and '-'."""
    return TOKEN.fullmatch(text) is not None


def is_job_id(text: str) -> bool:
    """Whether `text` is a lower-case ULID of 26 characters."""
    return _ULID.fullmatch(text) is not None


def make_job_id(milliseconds: int, entropy: bytes) -> JobId:
    """A ULID from a Unix time in milliseconds and 10 bytes of randomness, both given by the caller."""
    if len(entropy) != ENTROPY_BYTES:
        raise IdError(f"a ULID needs {ENTROPY_BYTES} bytes of randomness, not {len(entropy)}")
    if not 0 <= milliseconds < 1 << 48:
        raise IdError(f"a ULID holds 48 bits of milliseconds since 1970; {milliseconds} does not fit")
    number = (milliseconds << 80) | int.from_bytes(entropy, "big")
    return JobId("".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5)))


def job_id_time(job_id: str) -> int:
    """The time inside a job id, in microseconds since 1970; `IdError` where it is none."""
    if not is_job_id(job_id):
        raise IdError(f"{job_id!r} is no job id; it is a lower-case ULID of 26 characters")
    number = 0
    for character in job_id[:10]:
        number = number * 32 + _VALUE[character]
    return number * MICROSECONDS_PER_MILLISECOND


def job_key(tenant: str, user: str, job_id: str) -> JobKey:
    """The whole name of a job."""
    return JobKey(f"{tenant}.{user}.{job_id}")


def split_job_key(key: str) -> tuple[str, str, JobId]:
    """(tenant, user, job id) of a job key; `IdError` where it is none."""
    parts = key.split(".")
    if len(parts) != 3 or not (is_token(parts[0]) and is_token(parts[1]) and is_job_id(parts[2])):
        raise IdError(f"{key!r} is no job key; it looks like <tenant>.<user>.<ulid>")
    return parts[0], parts[1], JobId(parts[2])


def lease_id(job: str, attempt: int, rank: int) -> LeaseId:
    """The lease that replica `rank` of `job` holds in its `attempt` (both count from 1 and 0)."""
    return LeaseId(f"{job}/{attempt}/{rank}")


def split_lease_id(lease: str) -> tuple[JobKey, int, int]:
    """(job key, attempt, rank) of a lease id; `IdError` where it is none."""
    match = _LEASE.fullmatch(lease)
    if match is None:
        raise IdError(f"{lease!r} is no lease id; it looks like <job key>/<attempt>/<rank>")
    split_job_key(match[1])
    return JobKey(match[1]), int(match[2]), int(match[3])
