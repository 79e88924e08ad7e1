"""What a time would have come to under other circumstances: the question, as the API hands it on, and the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from headrace.contracts.values.amounts import MEMORY as MEMORY_KEY
from headrace.contracts.values.amounts import AmountError, parse_amount
from headrace.contracts.values.value import Value

TOO_LARGE = "TOO_LARGE"
"""The code of an answer that would have exceeded its memory limit."""
NO_ANSWER = "NO_ANSWER"
"""The code of a question whose process ended without an answer."""
MEMORY = "HEADRACE_WHATIF_MEMORY"
"""Environment variable of governance with the memory limit of each of the two simulations of a question."""
MEMORY_DEFAULT, MEMORY_LEAST = "4GiB", 128
"""The default, and the minimum in MiB, which even a small question needs."""


class MemoryLimit(NamedTuple):
    """Memory limit of each of the two simulations of a question: as text, and in bytes."""

    text: str
    bytes: int

    @property
    def way_out(self) -> str:
        """That the limit was exceeded, and the way out, as the end of a sentence."""
        return (
            f"each of its two plays may take {self.text} of memory and needs more: ask for a shorter time or fewer jobs; the provider "
            f"can raise {MEMORY} and start governance again"
        )


def memory_limit(environment: Mapping[str, str]) -> MemoryLimit:
    """The limit in the environment, or the default. Raises ValueError if malformed or below the minimum."""
    text = environment.get(MEMORY, "") or MEMORY_DEFAULT
    try:
        mebibytes = parse_amount(MEMORY_KEY, text)
    except AmountError as error:
        raise ValueError(f"{MEMORY}: {error}") from None
    if mebibytes < MEMORY_LEAST:
        raise ValueError(f"{MEMORY}: {text} is too little for any question; write at least {MEMORY_LEAST}MiB")
    return MemoryLimit(text, mebibytes * 1024**2)


class WhatIfQuestion(Value, frozen=True, kw_only=True):
    """`changes`: a file for `headrace whatif -f`, every value as text. `since`, `until`: sequences or times.

    Without `since` the simulation starts now; without `until` it has no new jobs, and runs for `span`. `tenant`: count only this tenant's
    jobs;
    empty: all jobs.
    """

    changes: dict[str, Any]
    since: str = ""
    until: str = ""
    span: str = ""
    tenant: str = ""


class OutcomeNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of some jobs. Waits, in whole seconds, are from admission to the first start, of the jobs that started for the first time.

    `waiting`: neither started nor refused by the end. GPU time in whole GPU-seconds: `used` of these jobs; `reserved` and `borrowed` as the
    books split it (R17). `cost`: in the currency of the installation, of every key that has a price.
    """

    starts: int = 0
    waiting: int = 0
    refused: int = 0
    wait_mean: int = 0
    wait_p95: int = 0
    wait_max: int = 0
    preemptions: int = 0
    lost: int = 0
    used: int = 0
    reserved: int = 0
    borrowed: int = 0
    cost: str = "0.000000"


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """The same jobs without and with the change."""

    before: OutcomeNumbers
    after: OutcomeNumbers


class PoolNumbers(msgspec.Struct, frozen=True, kw_only=True):
    """Use of a pool's GPUs: available and used, in whole GPU-seconds; `percent` used of the available, such as 83.4."""

    had: int = 0
    used: int = 0
    percent: str = "0.0"
    cost: str = "0.000000"


class PoolSides(msgspec.Struct, frozen=True, kw_only=True):
    """The same pool without and with the change."""

    before: PoolNumbers
    after: PoolNumbers


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose first start moved. Starts in microseconds after the time of the change; None: `..._is` has its state instead."""

    job: str
    queue: str
    before: int | None
    after: int | None
    before_is: str
    after_is: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. `at`: the time of the change, `span`: the length of the simulation, microseconds. `moved`: the jobs that moved most.

    `recorded`: the ledger's own figures for the simulated time, to compare with `total.before`.
    """

    at: int
    span: int
    assumptions: tuple[str, ...]
    total: Sides
    groups: dict[str, Sides]
    policies: dict[str, Sides]
    pools: dict[str, PoolSides]
    moved: tuple[Moved, ...]
    moved_in_all: int
    recorded: OutcomeNumbers | None = None


class WhatIfAnswer(Value, frozen=True, kw_only=True):
    """The answer, or, with a `code`, why it is missing: `error` is one line, `lines` all of them, each with the invalid field."""

    found: Difference | None = None
    since: int = 0
    sequence: int = 0
    code: str = ""
    error: str = ""
    lines: tuple[str, ...] = ()


class WhatIfAsked(Value, frozen=True, kw_only=True):
    """A line to the process that answers: a question and its number; a number alone withdraws the question that has it."""

    number: int
    question: WhatIfQuestion | None = None


class WhatIfAnswered(Value, frozen=True, kw_only=True):
    """A line from the process that answers: the answer to the question of that number."""

    number: int
    answer: WhatIfAnswer


_MEMORY_SIGNALS = ("SIGSEGV", "SIGBUS", "SIGABRT")
"""Signals that end a process whose stack cannot grow, or that uses memory which it did not get."""


def ended_without_answer(ended_by: str, environment: Mapping[str, str]) -> WhatIfAnswer:
    """Answer in place of a process that ended without one; `ended_by`: the name of the signal that ended it, or empty."""
    way_out = memory_limit(environment).way_out
    if ended_by in _MEMORY_SIGNALS:
        return without_answer(TOO_LARGE, f"its process was ended by {ended_by}; most likely {way_out}")
    return without_answer(NO_ANSWER, f"it ended without an answer; most likely {way_out}")


def without_answer(code: str, *lines: str) -> WhatIfAnswer:
    """Why an answer is missing; `lines`: all reasons, at least one."""
    more = f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""
    return WhatIfAnswer(code=code, error=lines[0] + more, lines=lines)
