"""R34."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from headrace.bus.log_clock import AHEAD_ALLOWED, GOOD_FOR, LogTime

SECOND = 1_000_000


class Clocks:
    def __init__(self):
        self.clock, self.steady = 1_000 * SECOND, 7 * SECOND
        self.time = LogTime(lambda: self.clock, lambda: self.steady)

    def passes(self, microseconds, moved=None):
        """Time goes by, and the clock with it unless it `moved` otherwise."""
        self.steady += microseconds
        self.clock += microseconds if moved is None else moved


@pytest.fixture
def clocks():
    return Clocks()


def test_a_clock_that_agrees_with_the_log_is_believed(clocks):
    clocks.time.answered(1_000 * SECOND)
    clocks.passes(5 * SECOND)
    assert clocks.time.now() == 1_005 * SECOND


def test_a_clock_behind_the_logs_is_believed_because_no_record_is_void_for_it(clocks):
    clocks.time.answered(1_100 * SECOND)
    assert clocks.time.now() == 1_000 * SECOND


@pytest.mark.parametrize(("ahead", "now"), [(AHEAD_ALLOWED, 1_001 * SECOND), (AHEAD_ALLOWED + 1, 1_000 * SECOND)])
def test_a_clock_that_is_set_forward_is_not_believed_from_the_first_moment_on(clocks, ahead, now):
    clocks.time.answered(1_000 * SECOND)
    clocks.passes(0, ahead)
    assert clocks.time.now() == now


def test_while_the_clock_is_not_believed_time_goes_on(clocks):
    clocks.time.answered(900 * SECOND)
    clocks.passes(30 * SECOND)
    assert clocks.time.now() == 930 * SECOND


def test_before_the_log_has_said_anything_the_clock_is_all_there_is(clocks):
    assert (clocks.time.unsure, clocks.time.now()) == (True, 1_000 * SECOND)


@pytest.mark.parametrize(
    ("passed", "moved", "unsure"),
    [
        pytest.param(GOOD_FOR, None, False, id="asked a moment ago"),
        pytest.param(GOOD_FOR + 1, None, True, id="asked long ago"),
        pytest.param(0, AHEAD_ALLOWED, False, id="moved a little"),
        pytest.param(0, AHEAD_ALLOWED + 1, True, id="set forward"),
        pytest.param(0, -AHEAD_ALLOWED - 1, True, id="set back"),
    ],
)
def test_when_the_log_has_to_be_asked(clocks, passed, moved, unsure):
    clocks.time.answered(1_000 * SECOND)
    clocks.passes(passed, moved)
    assert clocks.time.unsure is unsure


def test_a_clock_that_is_wrong_is_told_of_once_until_it_is_right_again(clocks):
    with capture_logs() as logs:
        for log_time in (900, 900, 1_000, 900):
            clocks.time.answered(log_time * SECOND)
    assert [(entry["event"], entry["seconds"]) for entry in logs] == [("clock_ahead", 100.0), ("clock_ahead", 100.0)]


@pytest.mark.parametrize(
    ("passed", "moved", "jumps"),
    [
        pytest.param(300 * SECOND, 300 * SECOND, [], id="time passes"),
        pytest.param(0, 60 * SECOND, [], id="a little"),
        pytest.param(0, 61 * SECOND, [61.0], id="forwards"),
        pytest.param(5 * SECOND, -95 * SECOND, [-100.0], id="backwards"),
    ],
)
def test_a_jump_of_the_clock_is_told_once(clocks, passed, moved, jumps):
    clocks.time.now()
    clocks.passes(passed, moved)
    with capture_logs() as logs:
        clocks.time.now()
        clocks.time.now()
    assert [entry["seconds"] for entry in logs if entry["event"] == "clock_jumped"] == jumps
