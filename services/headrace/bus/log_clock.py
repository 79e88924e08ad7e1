"""Time that a writer states (R34): its machine's clock, as long as that agrees with the log's time.

Strategy: a record whose time is two seconds ahead of the log's is void, and a void record of one of our services stops every reader; so no
clock is trusted alone. The log is asked for its time at intervals; between two answers a monotonic clock counts on. This machine's clock
is used unless it is ahead of that.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

MICROSECONDS = 1_000_000
AHEAD_ALLOWED = 1 * MICROSECONDS
"""How far this machine's clock may be ahead of the log's before the log's is used: at two seconds records are void (R34)."""

JUMP = 60 * MICROSECONDS
"""How far this machine's clock may move between two looks beyond the time that has passed, before that is logged (R34)."""

GOOD_FOR = 60 * MICROSECONDS
"""How long an answer is used: two clocks that are not corrected drift apart by a few milliseconds in that time."""

_log = structlog.get_logger("headrace.bus")


class LogTime:
    """`clock`: this machine's, microseconds since 1970; `steady`: a monotonic one."""

    def __init__(self, clock: Callable[[], int], steady: Callable[[], int]) -> None:
        self._clock = clock
        self._steady = steady
        self._answer: tuple[int, int, int] | None = None
        """The log's time, the monotonic clock's when it came, and the difference of both clocks then."""
        self._set_at = 0
        self._is_ahead = False

    @property
    def unsure(self) -> bool:
        """True if the log should be asked: its last answer is too old, or this machine's clock has been set since."""
        if self._answer is None:
            return True
        _, came, set_at = self._answer
        steady = self._steady()
        return steady - came > GOOD_FOR or abs(self._clock() - steady - set_at) > AHEAD_ALLOWED

    def answered(self, log_time: int) -> None:
        """Take in the log's time. It may be older by the time it took to arrive, an error to the safe side."""
        steady, clock = self._steady(), self._clock()
        self._answer = log_time, steady, clock - steady
        was, self._is_ahead = self._is_ahead, clock - log_time > AHEAD_ALLOWED
        if self._is_ahead and not was:
            ahead = (clock - log_time) / MICROSECONDS
            _log.error("clock_ahead", seconds=ahead, help="this machine's clock is wrong: the log's time is used")

    def now(self) -> int:
        """The time to state, in microseconds since 1970."""
        clock, steady = self._clock(), self._steady()
        self._watch(clock - steady)
        if self._answer is None:
            return clock
        log_time, came, _ = self._answer
        due = log_time + steady - came
        return due if clock - due > AHEAD_ALLOWED else clock

    def _watch(self, set_at: int) -> None:
        """Log an error if this machine's clock has been set since the last look."""
        jumped, self._set_at = set_at - (self._set_at or set_at), set_at
        if abs(jumped) > JUMP:
            _log.error(
                "clock_jumped", seconds=jumped / MICROSECONDS, help="this machine's clock was set: see to its time service"
            )
