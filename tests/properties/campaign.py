"""How many histories each property plays, and which.

`HEADRACE_HISTORIES` (50) is the number; `make test` plays 10, CI and `make test-compiled` 100, `make properties` 10,000. The same ones are
drawn in every run of the same code, so a failure is there again when the test is run again as `pytest tests/properties -k NAME`. A file by
itself draws others, because Hypothesis takes some values from the constants of all modules that are loaded. `HEADRACE_SEED`, a number,
draws others. A failing history is printed as it was drawn; with `HEADRACE_SHRINK=1` (and pytest's `-o faulthandler_timeout=0`, for it takes
minutes) it is first made as small as it gets.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, Phase, seed, settings

HISTORIES = int(os.environ.get("HEADRACE_HISTORIES", "50"))
SEED = os.environ.get("HEADRACE_SEED", "")
SHRINK = bool(os.environ.get("HEADRACE_SHRINK", ""))

Test = TypeVar("Test", bound=Callable[..., object])


def examples(most: int, whole_from: int = 20) -> int:
    """How many examples other tests with random input try: `most` from `whole_from` histories on, proportionally fewer below."""
    return min(most, -(-most * HISTORIES // whole_from))


def some(one_in: int) -> int:
    """One in this number of the histories, at least one."""
    return max(1, HISTORIES // one_in)


def histories(one_in: int = 1, *, times: int = 1) -> Callable[[Test], Test]:
    """Play `times` as many as one in this number of the histories."""

    def decorate(test: Test) -> Test:
        played = settings(
            max_examples=times * some(one_in),
            deadline=None,
            derandomize=not SEED,
            database=None,
            phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if SHRINK else [])],
            suppress_health_check=list(HealthCheck),
            print_blob=False,
        )(test)
        return seed(int(SEED))(played) if SEED else played

    return decorate
