"""The output of a job as it comes, through all its attempts."""

from __future__ import annotations

import sys

from headrace.cli.arguments import Failed
from headrace.client import Client, Refused, Unreachable
from headrace.contracts.messages.queries import FINAL, JobView
from headrace.contracts.values.arrays import parse_array

POLL_EVERY = 0.3
KNOWN_WITHIN = 2.0
"""Seconds for which a job just submitted may still be unknown."""


async def known(hr: Client, name: str) -> JobView:
    """The job; waits a moment for one just submitted."""
    view = await hr.judged(name, KNOWN_WITHIN)
    return view if view is not None else await hr.job(name)


async def follow(hr: Client, name: str, attempt: int = 0, rank: int = 0) -> None:
    """Print the output until the job has ended, or until this attempt has; 0: the latest and all that follow."""
    number = attempt or await _next_attempt(hr, name, 0)
    while number:
        await print_attempt(hr, name, number, rank, following=True)
        number = 0 if attempt else await _next_attempt(hr, name, number)
        if number:
            print(f"-- attempt {number} --", file=sys.stderr)


async def _next_attempt(hr: Client, name: str, after: int) -> int:
    """The first attempt after `after` once it exists (the latest if `after` is 0); 0 if the job has ended without another."""
    before = shown = ""
    while True:
        view = await known(hr, name)
        _refuse_array(view)
        later = [attempt.attempt for attempt in view.attempts if attempt.attempt > after]
        if later:
            return later[0] if after else later[-1]
        if view.state in FINAL:
            return 0
        lasts, before = (
            view.reason == before,
            view.reason,
        )  # what a job waits for in passing, before its grant, is not worth a line
        if view.state == "pending" and lasts and view.reason not in ("", shown):
            shown = view.reason
            print(f"-- waits: {view.reason}: {view.message} --", file=sys.stderr)
        await _pause()


def _refuse_array(view: JobView) -> None:
    """Raises Failed for a whole array, which has no output of its own."""
    if view.array:
        one = f"{view.id}:{parse_array(view.array).first}"
        why = f"{view.id} is an array, and -f follows one job: name an element, such as {one}"
        raise Failed(f"{why}; `headrace jobs --array {view.id}` lists them")


async def print_attempt(hr: Client, name: str, number: int, rank: int, *, following: bool = False) -> None:
    """Print what a replica of an attempt has written: so far, or `following` until it has ended, also while its node is away."""
    offset, away = 0, ""
    while True:
        try:
            piece = await hr.logs(name, offset=offset, attempt=number, rank=rank)
        except (Refused, Unreachable) as error:
            if not following or (isinstance(error, Refused) and error.code != "UNAVAILABLE"):
                raise
            if str(error) != away:
                away = str(error)
                print(f"-- {away} --", file=sys.stderr)
            await _pause()
            continue
        sys.stdout.write(piece.data)
        sys.stdout.flush()
        moved, offset = piece.next_offset > offset, max(offset, piece.next_offset)
        if not moved:
            if piece.ended or not following:
                return
            await _pause()


async def _pause() -> None:
    import asyncio  # noqa: PLC0415 - who does not follow needs no event loop

    await asyncio.sleep(POLL_EVERY)
