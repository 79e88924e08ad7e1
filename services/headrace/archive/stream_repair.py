"""Chooses the right records for a damaged stream, from the archive, the independent copy, or the stream itself. Pure.

The archive proves every byte by its digests; the copy proves subject, payload and time (to the microsecond) by the digest that it has
stored; the stream proves a record by the server's own hash. If two of them prove different records a person has to decide: nothing is
guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from headrace.archive.nats_blocks import StoredRecord
from headrace.bus.log import LogBroken, StoredMessage
from headrace.contracts.facts.records import digest


class CopiedRecord(NamedTuple):
    """A record of the independent copy. `stamped` in microseconds; `digest` as it was taken when the copy was made."""

    sequence: int
    subject: str
    stamped: int
    digest: str
    payload: bytes

    @property
    def is_whole(self) -> bool:
        """True if the payload has the digest."""
        return digest(self.payload) == self.digest


class Choice(NamedTuple):
    """The right record, and what is wrong with the stream's: empty if the stream has it."""

    record: StoredMessage
    trouble: str


def choose(
    sequence: int,
    placed: StoredRecord | None,
    copied: CopiedRecord | None,
    archived: StoredMessage | None,
    vouched: Callable[[StoredRecord], bool],
) -> Choice | None:
    """The right record at a sequence; None if it is lost everywhere. `vouched`: whether the hash after a record is valid.

    Raises `LogBroken` if two sources prove different records.
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


def describe(troubles: Mapping[int, str]) -> list[str]:
    """Lines such as `records 4 to 9: missing`, for people."""
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
