"""Which job is meant: by its id, the beginning of its id, its name, or `last`."""

from __future__ import annotations

import glob
import re
from collections.abc import Sequence

from headrace.cli.arguments import Failed
from headrace.client import Client
from headrace.contracts.messages.queries import JobView
from headrace.contracts.values.arrays import ArrayError, parse_part
from headrace.contracts.values.ids import IdError, element_name, is_job_id, split_job_key

LAST = "last"
ANY = "an id, the beginning of one, a name, or `last`; `ARRAY:17` is an element of an array"
UNENDED = ("pending", "running", "preempting", "stopping", "suspended")

_BEGINNING = re.compile(r"[0-7][0-9a-z]{3,24}")
"""A ULID begins with 0 to 7; fewer than four characters would say hardly more than the year."""
SHOWN_MAX = 5
_PART = re.compile(r"(.+):([0-9][0-9,-]*)")
"""A part of an array: `ARRAY:17`, `ARRAY:0-9`, `ARRAY:0-9,20`."""


def split_part(text: str) -> tuple[str, str]:
    """What names the job or array, and the part of the array; empty for the whole. Raises Failed if the part is malformed."""
    match = _PART.fullmatch(text)
    if match is None:
        return text, ""
    try:
        parse_part(match[2])
    except ArrayError as error:
        raise Failed(str(error)) from None
    return match[1], match[2]


async def find_job(hr: Client, text: str) -> str:
    """Id or key of the job to look at, the newest if several have the name. Raises Failed if no job, or several, match."""
    name, part = split_part(text)
    if part:
        return _element(await find_job(hr, name), part)
    if _is_exact(text):
        return text
    found = await _found(hr, text, ())
    return found[0].job


def _element(array: str, part: str) -> str:
    if not part.isdecimal():
        raise Failed(f"{array}:{part} names several elements; name one, such as {array}:{parse_part(part)[0][0]}")
    return element_name(array, int(part))


async def find_unended_job(hr: Client, text: str) -> str:
    """Id or key of the job to change: of several with the name the only one that has not ended. Raises Failed as `find_job`."""
    name, part = split_part(text)
    if part:
        return _element(await find_unended_job(hr, name), part)
    if _is_exact(text):
        return text
    found = await _found(hr, text, UNENDED)
    if len(found) > 1 and text != LAST:
        some = " ".join(view.id for view in found[:SHOWN_MAX]) + (" ..." if len(found) > SHOWN_MAX else "")
        raise Failed(
            f"{len(found)} jobs that have not ended are called {text!r}: name them by their ids ({some}), or use --name"
        )
    return found[0].job


def _is_exact(text: str) -> bool:
    if is_job_id(text):
        return True
    try:
        split_job_key(text)
    except IdError:
        return False
    return True


async def _found(hr: Client, text: str, states: Sequence[str]) -> Sequence[JobView]:
    """The jobs that are meant, newest first, at least one: the user's own before those of others."""
    what = "" if not states else " that has not ended"
    if text == LAST:
        found = await hr.jobs(states=states, user=hr.user, limit=1)
        if not found:
            raise Failed(f"last: {hr.user} has no job{what}; `headrace jobs` lists the others'")
        return found
    pattern = glob.escape(text)
    named = await hr.jobs(states=states, user=hr.user, name=pattern) or await hr.jobs(states=states, name=pattern)
    if named:
        return named
    begun = await hr.jobs(id_prefix=text, limit=SHOWN_MAX + 1) if _BEGINNING.fullmatch(text) else ()
    if not begun:
        raise Failed(f"job: no job{what} has the id or the name {text[:80]!r}; `headrace jobs` lists them")
    if len(begun) > 1:
        some = " ".join(view.id for view in begun[:SHOWN_MAX]) + (" ..." if len(begun) > SHOWN_MAX else "")
        raise Failed(f"job: several ids begin with {text}: {some}; write more of it")
    return begun
