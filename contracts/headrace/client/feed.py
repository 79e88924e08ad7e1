"""Facts as FEED tells them: what a tenant hears of its own jobs, and of what concerns all."""

from __future__ import annotations

from typing import Any, NamedTuple

from headrace.contracts.transport.codec import Malformed, decode
from headrace.contracts.values.ids import is_token

ENDS = frozenset({"job.ended.v1", "job.rejected.v1", "job.dismissed.v1"})
"""After these nothing more happens to a job."""


class FeedFact(NamedTuple):
    """One fact; `type` is its name, such as `lease.granted.v1`.

    `at` is the time of the log in microseconds since 1970, `sequence` the record's place in the ledger, `number` the fact's place in
    what the record gave; `fields` is all that it says.
    """

    type: str
    at: int
    sequence: int
    number: int
    fields: dict[str, Any]

    @property
    def is_end(self) -> bool:
        """Whether this is the last fact of a job."""
        return self.type in ENDS


def read_fact(subject: str, payload: bytes) -> FeedFact | None:
    """The fact in a message on `hr.feed.<tenant>.<noun>.<verb>.<id>`; None where it is none, or does not belong there.

    The bus lets strangers send answers to any reply subject, so a message is believed only where it names itself.
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
