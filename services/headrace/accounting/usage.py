"""The question what was used, and its answer out of the books (R17, R37)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.accounting.database import Connection
from headrace.accounting.rows import Position
from headrace.accounting.statements import statements
from headrace.accounting.store import position
from headrace.contracts.queries import UsageAnswer, UsageRequest, UsageRow

GROUPINGS = ("tenant", "group", "user", "pool", "policy", "profile", "queue", "job", "day")
"""What usage can be grouped by, in the order of the columns; a day is one of UTC."""

ROWS_MAX = 10_000
"""Lines of one answer; a message is no place for more."""

_SQL = statements("usage")["usage"]


class BadQuestion(ValueError):
    """The question makes no sense; the text names the field and the way out."""


def check(question: UsageRequest, now: int) -> None:
    """Raises `BadQuestion` for unknown groupings and times the wrong way round or to come; `now` is the time of the books."""
    unknown = [name for name in question.by if name not in GROUPINGS]
    if unknown:
        raise BadQuestion(f"by: usage is not kept by {unknown[0]!r}; it is by {', '.join(GROUPINGS)}")
    if question.since < 0 or question.until < 0:
        raise BadQuestion("since, until: microseconds since 1970, or 0 for an open end")
    if question.until and question.since >= question.until:
        raise BadQuestion("since, until: the period ends before it begins; exchange them")
    if question.since > now:
        raise BadQuestion("since: that is still to come; the books reach to the newest record of the ledger")


async def answer(connection: Connection, tenant: str, question: UsageRequest) -> UsageAnswer:
    """The usage of one tenant as the books stand, in one snapshot. Raises `BadQuestion`."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        at: Position = await position(connection)
        check(question, at.now)
        until = question.until or at.now + 1
        rows = await connection.fetch(_SQL, tenant, question.since, until, list(question.by), ROWS_MAX + 1)
    if len(rows) > ROWS_MAX:
        raise BadQuestion(f"by: more than {ROWS_MAX} lines; ask for a shorter period, or group by less")
    return UsageAnswer(through=at.sequence, rows=tuple(_row(tuple(row), question.by) for row in rows))


def _row(row: Sequence[Any], by: Sequence[str]) -> UsageRow:
    """One line; sums come as decimals without a fraction, because they outgrow every other type."""
    *names, key, reserved, borrowed, lost, jobs = row
    values = dict(zip(GROUPINGS, names, strict=True))
    return UsageRow(
        group={name: values[name] for name in by},
        key=key,
        total=str(int(reserved) + int(borrowed)),
        reserved=str(int(reserved)),
        borrowed=str(int(borrowed)),
        lost=str(int(lost)),
        jobs=jobs,
    )
