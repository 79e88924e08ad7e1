"""Facts from the feed: what a tenant receives about its own jobs and about shared objects."""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.contracts.transport.encoding import Malformed, decode
from headrace.contracts.values.ids import is_token

ENDS = frozenset({"job.ended.v1", "job.rejected.v1", "job.dismissed.v1"})
"""The last facts of a job."""


class FeedFact(NamedTuple):
    """One fact; `type` is its name, such as `lease.granted.v1`.

    `at` is the log time in microseconds since 1970, `sequence` the sequence of the record in the ledger, `number` the index of the fact
    among
    those of the record; `fields` are all fields of the fact.
    """

    type: str
    at: int
    sequence: int
    number: int
    fields: dict[str, Any]

    @property
    def is_end(self) -> bool:
        """True if this is the last fact of a job; that some elements of an array have ended is not the last of the array."""
        return self.type in ENDS and not self.fields.get("elements")


def read_fact(subject: str, payload: bytes) -> FeedFact | None:
    """The fact in a message on `hr.feed.<tenant>.<noun>.<verb>.<id>`; None if it is malformed or belongs elsewhere.

    Other accounts can send messages to any reply subject, so a message counts only if its content matches its subject.
    """
    parts = subject.split(".")
    try:
        fields = decode(payload, dict[str, Any])
        kind, at, sequence, number = fields["type"], fields["at"], fields["sequence"], fields["number"]
    except (Malformed, KeyError):
        return None
    if len(parts) != 6 or parts[:2] != ["hr", "feed"] or not all(map(is_token, parts[2:])):
        return None
    if not (isinstance(kind, str) and all(isinstance(value, int) for value in (at, sequence, number))):
        return None
    job = fields.get("job")
    if isinstance(job, str) and job.count(".") == 2 and job.partition(".")[0] != parts[2]:
        return None
    return FeedFact(kind, at, sequence, number, fields)
