"""What a damaged stream has to be: of every record the right one, from the archive, the independent copy, or the stream. Pure.

The archive vouches for every byte by its digests; the copy for subject, payload and time (to the microsecond) by the digest it has kept;
the stream for a record by the server's own check. Two that vouch for different records are a matter for a person: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from headrace.archive.nats_blocks import StoredRecord
from headrace.bus.log import LogBroken, StoredMessage
from headrace.contracts.facts.records import digest


class CopiedRecord(NamedTuple):
    """A record as the independent copy has it. `stamped` in microseconds; `digest` as it was taken when the copy was made."""

    sequence: int
    subject: str
    stamped: int
    digest: str
    payload: bytes

    @property
    def is_whole(self) -> bool:
        """Whether it is what was copied."""
        return digest(self.payload) == self.digest


class Choice(NamedTuple):
    """The right record, and what is wrong with the stream's: empty where that is it."""

    record: StoredMessage
    trouble: str


def choose(
    sequence: int,
    placed: StoredRecord | None,
    copied: CopiedRecord | None,
    archived: StoredMessage | None,
    vouched: Callable[[StoredRecord], bool],
) -> Choice | None:
    """The right record at a sequence; None where nobody has it. `vouched`: whether the check behind a record is its own.

    Raises `LogBroken` where two that vouch for it differ.
    """
    if copied is not None and not copied.is_whole:
        copied = None
    there = placed.record if placed is not None else None
    if archived is not None:
        if copied is not None and not _same(archived, copied):
            raise LogBroken(
                f"record {sequence} is another one in the archive than in the copy, and both say it is whole: look at both"
            )
        return Choice(archived, _trouble(there, archived))
    if copied is not None:
        if there is not None and _same(there, copied):
            return Choice(there, "")
        made = StoredMessage(sequence, copied.subject, copied.stamped * 1_000, b"", copied.payload)
        return Choice(made, _trouble(there, made))
    if placed is not None and vouched(placed):
        return Choice(placed.record, "")
    return None


def _same(record: StoredMessage, copied: CopiedRecord) -> bool:
    return (record.subject, record.time // 1_000, record.payload) == (copied.subject, copied.stamped, copied.payload)


def _trouble(there: StoredMessage | None, right: StoredMessage) -> str:
    if there is None:
        return "is missing or cannot be read"
    names = [name for name in StoredMessage._fields if getattr(there, name) != getattr(right, name)]
    return f"is another one, by its {' and '.join(names)}" if names else ""


def told(troubles: Mapping[int, str]) -> list[str]:
    """`records 4 to 9: missing`, for people."""
    lines: list[str] = []
    for first, last, what in _runs(sorted(troubles.items())):
        lines.append(f"record {first} {what}" if first == last else f"records {first} to {last}: each {what}")
    return lines


def _runs(troubles: Iterable[tuple[int, str]]) -> list[tuple[int, int, str]]:
    runs: list[tuple[int, int, str]] = []
    for sequence, what in troubles:
        if runs and runs[-1][1] == sequence - 1 and runs[-1][2] == what:
            runs[-1] = (runs[-1][0], sequence, what)
        else:
            runs.append((sequence, sequence, what))
    return runs
