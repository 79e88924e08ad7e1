"""Statements whose pieces are asked for one after the other: the last few are kept."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.facts.records import digest
from headrace.contracts.messages.usage import StatementAnswer, StatementRequest
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.accounting.reports.instance_statement import InstanceMonth
    from headrace.accounting.reports.invoice_query import Month

STATEMENTS_KEPT = 4
PIECE = 1024 * 1024
"""Characters of a statement in one answer; each takes at most six bytes of JSON."""


class PendingStatement(NamedTuple):
    """A statement whose next pieces may be asked for."""

    digest: str
    text: str
    final: bool


class StatementPieces:
    """The last statements of all tenants."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], PendingStatement] = {}

    async def piece(
        self,
        tenant: str,
        question: StatementRequest,
        read: Callable[[], Awaitable[Month | InstanceMonth]],
        through: Callable[[], int],
    ) -> StatementAnswer:
        """The piece that is asked for. `read` reads the month from the books for the first one. Raises `Refused`."""
        if question.digest:
            written = self._kept.get((tenant, question.digest))
            if written is None:
                raise Refused(
                    "UNAVAILABLE", "digest: that statement is no longer available; ask for it again from its beginning"
                )
        else:
            month = await read()
            text = await asyncio.to_thread(
                month.text, question.form
            )  # a large one takes seconds, during which other work goes on
            written = PendingStatement(digest(text.encode()), text, month.heading.final)
            self._kept[tenant, written.digest] = written
            while len(self._kept) > STATEMENTS_KEPT:
                del self._kept[next(iter(self._kept))]
        return StatementAnswer(
            through=through(),
            text=written.text[question.offset : question.offset + PIECE],
            length=len(written.text),
            digest=written.digest,
            final=written.final,
        )
