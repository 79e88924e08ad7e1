"""Answers the query for a tenant's statement of a month, as a text: JSON, CSV, or the FOCUS export."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from headrace.accounting.books.aggregate import AggregateLine, lines
from headrace.accounting.books.charges import FIELDS, Charge, charges, days
from headrace.accounting.books.periods import BadPeriod, Period, month, zone
from headrace.accounting.books.rows import ReservationRow
from headrace.accounting.reports import focus, invoice
from headrace.accounting.reports.instance_statement import Held, InstanceMonth, Stay
from headrace.accounting.reports.instance_statement import charges as instance_charges
from headrace.accounting.reports.invoice import InvoiceHeading
from headrace.accounting.reports.usage import InvalidQuery
from headrace.accounting.reports.usage_reader import UsageReader
from headrace.accounting.storage.database import Connection
from headrace.accounting.storage.sql_statements import statements
from headrace.accounting.storage.store import position
from headrace.contracts.messages.usage import StatementRequest

JSON, CSV, FOCUS = "json", "csv", "focus"
FORMS = (JSON, CSV, FOCUS)

_SQL = statements("usage")


class Month(NamedTuple):
    """Contents of a statement."""

    heading: InvoiceHeading
    charges: list[Charge]
    whole: dict[str, AggregateLine]

    def naming(self, name: Callable[[str], str]) -> Month:
        """The statement with people renamed by `name`."""
        accounts = ((charge, charge.account) for charge in self.charges)
        charges = [
            charge._replace(account=account._replace(user=name(account.user), service_account=name(account.service_account)))
            for charge, account in accounts
        ]
        return self._replace(charges=charges)

    def text(self, form: str) -> str:
        """The statement in one of the `FORMS`."""
        if form == FOCUS:
            return focus.as_csv(self.heading, self.charges)
        items = invoice.items(self.charges)
        return invoice.as_csv(self.heading, items) if form == CSV else invoice.as_json(self.heading, items, self.whole)


async def read_instances(connection: Connection, question: StatementRequest, currency: str) -> InstanceMonth:
    """What instances of all pools cost in a month as the books are now, in one snapshot. Raises `InvalidQuery`."""
    wanted = _wanted(question)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        at = await position(connection)
        _refuse_future(question, wanted, at.now)
        until = min(wanted.until, at.now)
        within = wanted.since, until, at.now
        stays = [Stay(*row) for row in await connection.fetch(_SQL["instances"], *within)]
        held = [Held(*row) for row in await connection.fetch(_SQL["held_on_instances"], *within)]
        lasts = await connection.fetchval(_SQL["instances_last"], wanted.until)
    found = instance_charges(stays, held, days(wanted.since, until)) if wanted.since < until else []
    final = at.now >= wanted.until and not lasts
    heading = InvoiceHeading(
        "", wanted.label, question.timezone, wanted.since, wanted.until, currency, final=final, reaches=until
    )
    return InstanceMonth(heading, found)


def _wanted(question: StatementRequest) -> Period:
    if question.form not in FORMS:
        raise InvalidQuery(f"form: unknown form {question.form[:80]!r}; it is {', '.join(FORMS)}")
    try:
        return month(question.month, zone(question.timezone))
    except BadPeriod as error:
        raise InvalidQuery(str(error)) from None


def _refuse_future(question: StatementRequest, wanted: Period, now: int) -> None:
    if wanted.since > now:
        raise InvalidQuery(f"month: {question.month} is still to come; the books reach to the newest record of the ledger")


async def read(connection: Connection, tenant: str, question: StatementRequest, currency: str) -> Month:
    """A tenant's month as the books are now, in one snapshot. Raises `InvalidQuery`."""
    wanted = _wanted(question)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        at = await position(connection)
        _refuse_future(question, wanted, at.now)
        lasts = await connection.fetchval(_SQL["unfinished"], tenant, wanted.until)
        until = min(wanted.until, at.now)
        found: list[Charge] = []
        whole: dict[str, AggregateLine] = {}
        if wanted.since < until:
            bounds = days(wanted.since, until)
            reader = UsageReader(connection, tenant, FIELDS, bounds)
            prices = await reader.prices()
            entries = await reader.entries(prices)
            found = charges(entries, prices, bounds)
            reservations = [ReservationRow(*row) for row in await connection.fetch(_SQL["reservations"], tenant)]
            all_of_it = (entry._replace(period=0, names=()) for entry in entries)
            summed = lines(all_of_it, prices, reservations, (), [wanted.since, until])
            whole = {place.key: line for place, line in summed.items()}
    final = at.now >= wanted.until and not lasts
    heading = InvoiceHeading(
        tenant, wanted.label, question.timezone, wanted.since, wanted.until, currency, final=final, reaches=until
    )
    return Month(heading, found, whole)
