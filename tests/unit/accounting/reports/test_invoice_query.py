from __future__ import annotations

import pytest

from headrace.accounting.reports.invoice import InvoiceHeading
from headrace.accounting.reports.invoice_query import Month, read
from headrace.accounting.reports.usage import InvalidQuery
from headrace.contracts.messages.usage import StatementRequest

HEADING = InvoiceHeading("acme", "2026-11", "UTC", 0, 10, "EUR", final=True, reaches=10)


@pytest.mark.parametrize(
    ("question", "complaint"),
    [
        (StatementRequest(month="2026-11", form="pdf"), "form: unknown form 'pdf'; it is json, csv, focus"),
        (StatementRequest(month="2026-00"), "month: invalid month '2026-00'; write it as 2026-11"),
        (StatementRequest(month="2026-11", timezone="Mars"), "timezone: unknown zone 'Mars'"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused_with_its_field(question: StatementRequest, complaint: str) -> None:
    with pytest.raises(InvalidQuery) as refusal:
        await read(None, "acme", question, "EUR")
    assert str(refusal.value).startswith(complaint)


def test_an_empty_month_has_a_statement_in_every_form() -> None:
    month = Month(HEADING, [], {})
    assert '"total": "0.000000"' in month.text("json")
    assert month.text("csv").splitlines()[-1] == "2026-11,acme,,,,,,,,,,,total,0.000000,EUR"
    assert len(month.text("focus").splitlines()) == 1
