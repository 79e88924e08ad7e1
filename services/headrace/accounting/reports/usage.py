"""Answers the query for usage from the books (R17, R37)."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.accounting.books.aggregate import AggregateKey, AggregateLine, lines
from headrace.accounting.books.costs import decimal
from headrace.accounting.books.periods import BadPeriod, Period, periods, zone
from headrace.accounting.books.rows import Position, ReservationRow
from headrace.accounting.reports.load_reader import Load, loads
from headrace.accounting.reports.usage_reader import FIELDS, LABEL, TooManyLines, UsageReader
from headrace.accounting.storage.database import Connection
from headrace.accounting.storage.sql_statements import statements
from headrace.accounting.storage.store import position
from headrace.contracts.messages.usage import UsageAnswer, UsageRequest, UsageRow
from headrace.contracts.values.amounts import GPU

ROWS_MAX = 5_000
"""Maximum number of lines of one answer; `skip` gets the others."""

FIELDS_MAX = 8

JOBS_AT_ONCE = 1_000
"""Maximum number of jobs of one answer by job, in busy times."""
BUSY = 50_000
"""Number of intervals from which on a time is busy."""

_SQL = statements("usage")


class InvalidQuery(ValueError):
    """Invalid query; the text names the field and the way out."""


def check(question: UsageRequest, now: int) -> None:
    """Raise `InvalidQuery` for unknown groupings and for times out of order or in the future; `now` is the time of the books."""
    unknown = [name for name in question.by if name not in FIELDS and not (name.startswith(LABEL) and len(name) > len(LABEL))]
    if unknown:
        raise InvalidQuery(f"by: usage is not kept by {unknown[0][:80]!r}; it is by {', '.join(FIELDS)}, {LABEL}KEY")
    if len(set(question.by)) < len(question.by):
        raise InvalidQuery("by: the same name stands there twice")
    if len(question.by) > FIELDS_MAX:
        raise InvalidQuery(f"by: at most {FIELDS_MAX} names")
    if question.since < 0 or question.until < 0 or question.skip < 0:
        raise InvalidQuery("since, until, skip: microseconds since 1970, or 0 for an open end; lines to leave out")
    if question.until and question.since >= question.until:
        raise InvalidQuery("since, until: the period ends before it begins; exchange them")
    if question.since > now:
        raise InvalidQuery("since: that is still to come; the books reach to the newest record of the ledger")


async def answer(connection: Connection, tenant: str, question: UsageRequest) -> UsageAnswer:
    """The usage of one tenant (empty: of all) as the books are now, in one snapshot. Raises `InvalidQuery`."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        at = await position(connection)
        check(question, at.now)
        wanted = await _periods(connection, question, at)
        if not wanted:
            return UsageAnswer(through=at.sequence, rows=(), now=at.now)
        bounds = [wanted[0].since, *(period.until for period in wanted)]
        only, more = await _some_jobs(connection, tenant, question, bounds)
        reader = UsageReader(connection, tenant, question.by, bounds, only)
        prices = await reader.prices()
        reservations = [] if question.after else await connection.fetch(_SQL["reservations"], tenant)
        try:
            entries = await reader.entries(prices)
            jobs = await reader.jobs()
            load = await loads(connection, tenant, question.by, bounds, only)
        except TooManyLines as error:
            raise InvalidQuery(f"by: {error}") from None
        cover = None if reader.covers or not reservations else await UsageReader(connection, tenant, (), bounds).entries(prices)
        found = lines(entries, prices, [ReservationRow(*row) for row in reservations], question.by, bounds, cover)
    page = list(found.items())[question.skip : question.skip + ROWS_MAX]
    rows = tuple(
        _row(
            place,
            line,
            question,
            wanted,
            jobs.get((place.period, place.names, place.key), 0),
            load.get(place[:2], Load()) if place.key == GPU else Load(),
        )
        for place, line in page
    )
    return UsageAnswer(through=at.sequence, rows=rows, now=at.now, lines=len(found), more=more)


async def knows(connection: Connection, tenant: str) -> bool:
    """True if the books have anything of a tenant."""
    return bool(await connection.fetchval(_SQL["has_tenant"], tenant))


async def _some_jobs(
    connection: Connection, tenant: str, question: UsageRequest, bounds: Sequence[int]
) -> tuple[list[str] | None, str]:
    """The jobs of this answer, and the last of them if others follow; None: all."""
    if "job" not in question.by:
        return None, ""
    since, until = bounds[0], bounds[-1]
    if not question.after and not await connection.fetchval(_SQL["is_busy"], since, until, BUSY):
        return None, ""
    rows = await connection.fetch(_SQL["jobs_behind"], tenant, question.after, since, until, JOBS_AT_ONCE + 1)
    jobs = [row[0] for row in rows[:JOBS_AT_ONCE]]
    return jobs, jobs[-1] if len(rows) > JOBS_AT_ONCE else ""


async def _periods(connection: Connection, question: UsageRequest, at: Position) -> list[Period]:
    """The periods of the query, as far as the books reach; with an open beginning, from the first time in the books."""
    until = min(question.until or at.now, at.now)
    since = max(question.since, await connection.fetchval(_SQL["first"]) or until)
    try:
        where = zone(question.timezone)
        return periods(since, until, question.per, where) if since < until else []
    except BadPeriod as error:
        raise InvalidQuery(str(error)) from None


def _row(
    place: AggregateKey, line: AggregateLine, question: UsageRequest, wanted: Sequence[Period], jobs: int, load: Load
) -> UsageRow:
    cost, lost_cost = line.priced(place.key)
    label = {question.per: wanted[place.period].label} if question.per else {}
    return UsageRow(
        group=label | dict(zip(question.by, place.names, strict=True)),
        key=place.key,
        total=str(line.reserved + line.borrowed),
        reserved=str(line.reserved),
        borrowed=str(line.borrowed),
        lost=str(line.lost),
        jobs=jobs,
        idle=str(line.idle),
        suspended=str(line.suspended),
        waiting=str(line.waiting),
        kept=str(line.kept),
        provider_lost=str(line.provider_lost),
        cost=decimal(cost),
        lost_cost=decimal(lost_cost),
        measured=str(load.measured),
        busy=str(load.busy),
        idle_held=str(load.idle_held),
    )
