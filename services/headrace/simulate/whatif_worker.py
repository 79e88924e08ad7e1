"""Answers a what-if question of a service from the ledger, or from a state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.bus.log import LogError
from headrace.contracts.documents.tree import DocumentErrors, tree_of
from headrace.contracts.messages.whatif import WhatIfAnswer, without_answer
from headrace.contracts.values.durations import DurationError, parse_duration, parse_time
from headrace.domain.fold.ledger import LedgerBroken
from headrace.simulate.changes import read_changes
from headrace.simulate.ledger_window import NOW, LedgerPoint, LedgerWindow, NoPeriod
from headrace.simulate.refused import Refused
from headrace.simulate.run_pair import PlayLost, rarely_collected
from headrace.simulate.virtual_system import Unsettled
from headrace.simulate.whatif import FOR, FREEZE_AFTER, Progress
from headrace.views.state_at import PastStates

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.bus.log import Log
    from headrace.contracts.messages.whatif import WhatIfQuestion
    from headrace.domain.state.state import State
    from headrace.service.snapshots import Snapshots

_FIELDS = {"from": "since", "to": "until", "from, to": "since, until"}
"""Names of fields on the command line, and in the API."""

BATCH = 500
SILENCE = 5.0
"""Seconds without a record after which the ledger counts as away."""


def is_about_now(question: WhatIfQuestion) -> bool:
    """Whether the state at the end of the ledger is all that the answer needs."""
    return not (question.since or question.until)


async def answer(question: WhatIfQuestion, ledger: Log, clock: int, snapshots: Snapshots | None = None) -> WhatIfAnswer:
    """Answer from a ledger, and its snapshots; `clock`: the present time in microseconds."""

    async def reads(period: LedgerWindow) -> None:
        await read(ledger, period, snapshots)

    return await _answer(question, clock, reads)


async def answer_about_now(question: WhatIfQuestion, state: State, clock: int) -> WhatIfAnswer:
    """Answer a question about now from the state at the end of the ledger, which changes."""

    async def reads(period: LedgerWindow) -> None:
        period.skip_to(state)
        period.end(state.sequence)

    return await _answer(question, clock, reads)


async def _answer(question: WhatIfQuestion, clock: int, reads: Callable[[LedgerWindow], Awaitable[None]]) -> WhatIfAnswer:
    try:
        changes = read_changes(tree_of(question.changes))
        period = LedgerWindow(
            _point("since", question.since), _point("until", question.until) if question.until else None, clock
        )
        span = _span(question.span)
        with rarely_collected(FREEZE_AFTER):
            await reads(period)
            found = period.compare(changes, span=span, tenant=question.tenant, progress=lambda _: None)
    except DocumentErrors as wrong:
        return without_answer("INVALID", *(f"changes.{one}" for one in wrong.errors))
    except NoPeriod as wrong:
        field, _, message = str(wrong).partition(": ")
        return without_answer("INVALID", f"{_FIELDS.get(field, field)}: {message}")
    except Refused as refused:
        return without_answer("INVALID", *(f"changes.{line}" for line in str(refused).splitlines()))
    except PlayLost:
        raise MemoryError from None
    except (Unsettled, LedgerBroken) as stop:
        return without_answer("REFUSED", str(stop))
    sequence, since = period.start
    return WhatIfAnswer(found=found, since=since, sequence=sequence)


def _point(field: str, text: str) -> LedgerPoint:
    if not text:
        return NOW
    if text.isascii() and text.isdecimal():
        return LedgerPoint(sequence=int(text))
    try:
        return LedgerPoint(time=parse_time(text))
    except (DurationError, OverflowError):
        raise NoPeriod(f"{field}: write a sequence such as 1234, or a moment such as 2026-11-21T08:00:00Z") from None


def _span(text: str) -> int:
    try:
        return parse_duration(text) if text else FOR
    except DurationError as error:
        raise NoPeriod(f"span: {error}") from None


async def read(
    ledger: Log, period: LedgerWindow, snapshots: Snapshots | None = None, progress: Progress = lambda _: None
) -> None:
    """Let the window read what it needs of a ledger, from the last snapshot before its beginning on.

    Raises `LogError`, and what it raises.
    """
    tip = await ledger.tip()
    if snapshots is not None:
        wants = period.wants
        last = tip if wants.sequence is None else min(tip, wants.sequence)
        period.skip_to(await PastStates(ledger, snapshots).nearest(last, wants.time))
    first = period.sequence
    reader = await ledger.read(first)
    try:
        while not period.is_over and period.sequence < tip:
            messages = await reader.batch(min(BATCH, tip - period.sequence), SILENCE)
            if not messages:
                raise LogError(f"it gives nothing behind record {period.sequence}")
            for message in messages:
                period.read(message)
            progress(1_000 * (period.sequence - first) // (tip - first))
    finally:
        await reader.close()
    period.end(tip)
    progress(1_000)
