"""What if, asked by a service: a process that reads the question on standard input and the ledger from the bus, answers, and ends.

It takes memory and two cores for a while; so it is a process of its own, which whoever asked ends when nobody waits any more. Its login is
that of the service that started it, which it finds in the same environment.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING

from headrace.bus.connection import connect
from headrace.bus.jetstream import JetStreamLog
from headrace.bus.log import LogError
from headrace.bus.process import PASSWORD, URL, USER
from headrace.contracts.codec import decode, encode
from headrace.contracts.document_tree import DocumentErrors, tree_of
from headrace.contracts.durations import DurationError, parse_duration, parse_time
from headrace.contracts.subjects import LEDGER_STREAM
from headrace.contracts.whatif import WhatIfAnswer, WhatIfQuestion
from headrace.domain.fold.ledger import LedgerBroken
from headrace.service.snapshots import Snapshots
from headrace.simulate.abreast import PlayLost, seldom_collected
from headrace.simulate.changes import read_changes
from headrace.simulate.happenings import Refused
from headrace.simulate.period import NOW, NoPeriod, Period, Point
from headrace.simulate.whatif import FOR, FREEZE_AFTER, Progress
from headrace.simulate.world import Unrest
from headrace.views.past import Past

if TYPE_CHECKING:
    from headrace.bus.log import Log

_FIELDS = {"from": "since", "to": "until", "from, to": "since, until"}
"""What the command line calls them, and what the API does."""

NICENESS = 10
"""The deciders go first."""
BATCH = 500
SILENCE = 5.0
"""Seconds after which a ledger that gives nothing more is said to be away."""


def main() -> int:
    """Answer one question."""
    os.nice(NICENESS)
    question = decode(sys.stdin.buffer.read(), WhatIfQuestion)
    answered = asyncio.run(_with_ledger(question))
    sys.stdout.buffer.write(encode(answered))
    return 0


async def _with_ledger(question: WhatIfQuestion) -> WhatIfAnswer:
    user = os.environ.get(USER, "")
    try:
        connection = await connect(os.environ[URL], user, os.environ.get(PASSWORD, ""), name=f"{user}: what if")
        try:
            ledger = JetStreamLog(connection, LEDGER_STREAM)
            return await answer(question, ledger, time.time_ns() // 1_000, Snapshots.over(connection, ledger))
        finally:
            await connection.close()
    except LogError as error:
        return WhatIfAnswer(code="UNAVAILABLE", error=f"the ledger cannot be read now: {error}; try again in a while")


async def answer(question: WhatIfQuestion, ledger: Log, clock: int, snapshots: Snapshots | None = None) -> WhatIfAnswer:
    """The answer from a ledger, and its snapshots; `clock`: what time it is, microseconds."""
    try:
        changes = read_changes(tree_of(question.changes))
        period = Period(_point("since", question.since), _point("until", question.until) if question.until else None, clock)
        span = _span(question.span)
        with seldom_collected(FREEZE_AFTER):
            await read(ledger, period, snapshots)
            found = period.compare(changes, span=span, tenant=question.tenant, progress=lambda _: None)
    except DocumentErrors as wrong:
        return _no("INVALID", *(f"changes.{one}" for one in wrong.errors))
    except NoPeriod as wrong:
        field, _, message = str(wrong).partition(": ")
        return _no("INVALID", f"{_FIELDS.get(field, field)}: {message}")
    except Refused as refused:
        return _no("INVALID", *(f"changes.{line}" for line in str(refused).splitlines()))
    except (Unrest, LedgerBroken, PlayLost) as stop:
        return _no("REFUSED", str(stop))
    sequence, since = period.start
    return WhatIfAnswer(found=found, since=since, sequence=sequence)


def _no(code: str, *lines: str) -> WhatIfAnswer:
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return WhatIfAnswer(code=code, error=lines[0] + more, lines=lines)


def _point(field: str, text: str) -> Point:
    if not text:
        return NOW
    if text.isascii() and text.isdecimal():
        return Point(sequence=int(text))
    try:
        return Point(time=parse_time(text))
    except (DurationError, OverflowError):
        raise NoPeriod(f"{field}: write a sequence such as 1234, or a moment such as 2026-11-21T08:00:00Z") from None


def _span(text: str) -> int:
    try:
        return parse_duration(text) if text else FOR
    except DurationError as error:
        raise NoPeriod(f"span: {error}") from None


async def read(ledger: Log, period: Period, snapshots: Snapshots | None = None, progress: Progress = lambda _: None) -> None:
    """Let it read what it wants of a ledger, from the last snapshot before its beginning on. Raises `LogError`, and what it raises."""
    tip = await ledger.tip()
    if snapshots is not None:
        wants = period.wants
        last = tip if wants.sequence is None else min(tip, wants.sequence)
        period.skip_to(await Past(ledger, snapshots).nearest(last, wants.time))
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
