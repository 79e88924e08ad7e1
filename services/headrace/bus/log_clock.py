"""A writer's idea of the log's time (R34): its machine's clock, for as long as that agrees with what the log says.

Strategy: a record whose time is two seconds ahead of the log's is void, and a void record of one of our services stops every reader; so
no clock is believed by itself. Now and then the log is asked for its time; from then on a clock that nobody sets counts on. This machine's
clock is used where it is not ahead of that, whatever is done to it between two questions.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

MICROSECONDS = 1_000_000
AHEAD_ALLOWED = 1 * MICROSECONDS
"""How far this machine's clock may be ahead of the log's before the log's is used: at two seconds records are void (R34)."""

JUMP = 60 * MICROSECONDS
"""By how much this machine's clock may move between two looks beyond the time that has passed, before that is told (R34)."""

GOOD_FOR = 60 * MICROSECONDS
"""How long an answer is counted on from: two clocks that nobody corrects part by a few milliseconds in that time."""

_log = structlog.get_logger("headrace.bus")


class LogTime:
    """`clock`: this machine's, microseconds since 1970; `steady`: one that nobody sets."""

    def __init__(self, clock: Callable[[], int], steady: Callable[[], int]) -> None:
        self._clock = clock
        self._steady = steady
        self._answer: tuple[int, int, int] | None = None
        """The log's time, the steady clock's when it came, and when the clock's count began then."""
        self._set_at = 0
        self._is_ahead = False

    @property
    def unsure(self) -> bool:
        """Whether the log should be asked: it has not been for a while, or this machine's clock has been set since."""
        if self._answer is None:
            return True
        _, came, set_at = self._answer
        steady = self._steady()
        return steady - came > GOOD_FOR or abs(self._clock() - steady - set_at) > AHEAD_ALLOWED

    def answered(self, log_time: int) -> None:
        """What the log has said just now. It may be older than that by the way it took, and so errs to the safe side."""
        steady, clock = self._steady(), self._clock()
        self._answer = log_time, steady, clock - steady
        was, self._is_ahead = self._is_ahead, clock - log_time > AHEAD_ALLOWED
        if self._is_ahead and not was:
            ahead = (clock - log_time) / MICROSECONDS
            _log.error("clock_ahead", seconds=ahead, help="this machine's clock is wrong: the log's time is used")

    def now(self) -> int:
        """The time to state."""
        clock, steady = self._clock(), self._steady()
        self._watch(clock - steady)
        if self._answer is None:
            return clock
        log_time, came, _ = self._answer
        due = log_time + steady - came
        return due if clock - due > AHEAD_ALLOWED else clock

    def _watch(self, set_at: int) -> None:
        """Tell if the clock has been set: the time from which it counts is another than it was at the last look."""
        jumped, self._set_at = set_at - (self._set_at or set_at), set_at
        if abs(jumped) > JUMP:
            _log.error(
                "clock_jumped", seconds=jumped / MICROSECONDS, help="this machine's clock was set: see to its time service"
            )
