"""Answers a what-if question of a service: a process that reads the question on standard input and the ledger from the bus.

It may be started before there is a question: until one comes it reads the ledger up to its end, and follows it, so that a question about
now is answered from the state that it has.

It takes memory and two cores for a while; so it is a process of its own, which the service that asked kills when the answer is no longer
awaited, and the kernel when that service dies. Its address space is limited (RLIMIT_AS), and so is that of its copy, which runs the other
side: exceeding the limit is answered as an error. Its login is that of the service that started it, from the same environment.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING

from headrace.bus.log import LogError
from headrace.bus.nats.connection import connect
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.variables import PASSWORD, URL, USER
from headrace.contracts.documents.tree import DocumentErrors, tree_of
from headrace.contracts.messages.whatif import TOO_LARGE, WhatIfAnswer, WhatIfQuestion, memory_limit
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.contracts.values.durations import DurationError, parse_duration, parse_time
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.service.snapshots import Snapshots
from headrace.simulate.changes import read_changes
from headrace.simulate.ledger_window import NOW, LedgerPoint, LedgerWindow, NoPeriod
from headrace.simulate.refused import Refused
from headrace.simulate.run_pair import PlayLost, rarely_collected
from headrace.simulate.virtual_system import Unsettled
from headrace.simulate.whatif import FOR, FREEZE_AFTER, Progress
from headrace.views.state_at import PastStates

if TYPE_CHECKING:
    from headrace.bus.log import Log
    from headrace.domain.state.state import State

_FIELDS = {"from": "since", "to": "until", "from, to": "since, until"}
"""Names of fields on the command line, and in the API."""

NICENESS = 10
"""Niceness of the process: the deciders go first."""
PR_SET_PDEATHSIG = 1
NEARLY = 0.9
"""Fraction of its limit: a failure of a process that had used more is taken for want of memory."""
BATCH = 500
SILENCE = 5.0
"""Seconds without a record after which the ledger counts as away."""


def main() -> int:
    """Answer one question; returns the exit code."""
    os.nice(NICENESS)
    limit = memory_limit(os.environ)
    _die_with_parent()
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (limit.bytes if most == resource.RLIM_INFINITY else min(limit.bytes, most), most))
    try:
        answered = asyncio.run(_with_ledger())
        if answered is None:
            return 0
        wants_more = answered.found is None and _peak() > NEARLY * limit.bytes
    except MemoryError:
        wants_more = True
    except RuntimeError:  # a thread that could not be started
        if _peak() <= NEARLY * limit.bytes:
            raise
        wants_more = True
    resource.setrlimit(resource.RLIMIT_AS, (most, most))  # the answer takes memory, too
    if wants_more:
        answered = _no(TOO_LARGE, limit.way_out)
    sys.stdout.buffer.write(encode(answered))
    return 0


def _die_with_parent() -> None:
    """Be killed when the service that asked dies; if it is dead already, the question does not come."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _peak() -> int:
    """Return the peak of address space in bytes; 0 if the system does not report it."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmPeak:"))
    except (OSError, StopIteration):
        return 0


async def _with_ledger() -> WhatIfAnswer | None:
    """The answer to the question on standard input; None if that is closed without one."""
    user, asking = os.environ.get(USER, ""), asyncio.ensure_future(_question())
    try:
        connection = await connect(os.environ[URL], user, os.environ.get(PASSWORD, ""), name=f"{user}: what if")
        try:
            ledger = JetStreamLog(connection, LEDGER_STREAM)
            snapshots = Snapshots.over(connection, ledger)
            state = await followed(ledger, snapshots, asking)
            asked = await asking
            return (
                await answer(decode(asked, WhatIfQuestion), ledger, time.time_ns() // 1_000, snapshots, state)
                if asked
                else None
            )
        finally:
            await connection.close()
    except LogError as error:
        if not await asking:
            return None
        return WhatIfAnswer(code="UNAVAILABLE", error=f"the ledger cannot be read now: {error}; try again in a while")


async def _question() -> bytes:
    """What comes on standard input, a pipe. Without a thread: one more cannot be started where memory is limited."""
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return await reader.read()


async def followed(ledger: Log, snapshots: Snapshots | None, until: asyncio.Future[bytes]) -> State | None:
    """The state at the end of the ledger when something has come; None if it has come already, or the ledger cannot be read."""
    reader = None
    try:
        if until.done():
            return None
        state = await PastStates(ledger, snapshots).nearest(await ledger.tip(), None)
        fold = FoldedLedger(state)
        reader = await ledger.read(fold.sequence)
        with rarely_collected(FREEZE_AFTER):
            while not until.done():
                coming = asyncio.ensure_future(reader.batch(BATCH))
                await asyncio.wait((coming, until), return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()  # what it may have is read again
                    break
                for message in coming.result():
                    fold.read(message)
    except (LogError, LedgerBroken):
        return None  # the question is answered without it, or says what is wrong
    finally:
        if reader is not None:
            await reader.close()
    return state


async def answer(
    question: WhatIfQuestion, ledger: Log, clock: int, snapshots: Snapshots | None = None, state: State | None = None
) -> WhatIfAnswer:
    """Answer from a ledger, and its snapshots; `clock`: the present time in microseconds, `state`: as of some record, if there is one."""
    try:
        changes = read_changes(tree_of(question.changes))
        period = LedgerWindow(
            _point("since", question.since), _point("until", question.until) if question.until else None, clock
        )
        span = _span(question.span)
        with rarely_collected(FREEZE_AFTER):
            await read(ledger, period, snapshots, state=state)
            found = period.compare(changes, span=span, tenant=question.tenant, progress=lambda _: None)
    except DocumentErrors as wrong:
        return _no("INVALID", *(f"changes.{one}" for one in wrong.errors))
    except NoPeriod as wrong:
        field, _, message = str(wrong).partition(": ")
        return _no("INVALID", f"{_FIELDS.get(field, field)}: {message}")
    except Refused as refused:
        return _no("INVALID", *(f"changes.{line}" for line in str(refused).splitlines()))
    except PlayLost:
        raise MemoryError from None
    except (Unsettled, LedgerBroken) as stop:
        return _no("REFUSED", str(stop))
    sequence, since = period.start
    return WhatIfAnswer(found=found, since=since, sequence=sequence)


def _no(code: str, *lines: str) -> WhatIfAnswer:
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return WhatIfAnswer(code=code, error=lines[0] + more, lines=lines)


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
    ledger: Log,
    period: LedgerWindow,
    snapshots: Snapshots | None = None,
    progress: Progress = lambda _: None,
    *,
    state: State | None = None,
) -> None:
    """Let the window read what it needs of a ledger, from the last snapshot before its beginning on, or, if it begins now, from `state`.

    Raises `LogError`, and what it raises.
    """
    tip = await ledger.tip()
    if state is not None and period.wants == NOW:
        period.skip_to(state)
    elif snapshots is not None:
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
