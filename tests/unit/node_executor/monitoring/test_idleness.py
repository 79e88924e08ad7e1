from __future__ import annotations

import pytest

from headrace.node_executor.monitoring.idleness import IDLE_BELOW, WINDOW, HeldDevice, Idleness

STEP = WINDOW // 10


def idleness_after(busy: list[int | None]) -> HeldDevice:
    """What is said after these looks at a device that is held, one each tenth of the window."""
    one = Idleness()
    for number, percent in enumerate(busy):
        last = one.note(1 + number * STEP, percent, held=True)
    return last


@pytest.mark.parametrize(
    ("busy", "idle", "average"),
    [
        pytest.param([0] * 11, True, 0, id="nothing at all"),
        pytest.param([0] * 10, False, 0, id="not long enough"),
        pytest.param([0] * 6 + [20] + [0] * 4, True, 2, id="a moment's work"),
        pytest.param([60] * 6 + [0] * 5, False, 30, id="a moment's rest"),
        pytest.param([90] * 11 + [0] * 10, True, 0, id="work that has slid out of the window"),
        pytest.param([IDLE_BELOW] * 11, False, IDLE_BELOW, id="a little all the time"),
        pytest.param([None] * 11, False, None, id="nobody can say"),
    ],
)
def test_a_device_is_idle_when_it_did_next_to_nothing_over_the_whole_window(busy, idle, average) -> None:
    found = idleness_after(busy)
    assert (found.idle, found.average) == (idle, average)


def test_a_new_holder_begins_with_an_empty_window() -> None:
    one = Idleness()
    assert one.note(1, 0, held=True) == HeldDevice(0, 0, idle=False)
    assert one.note(1 + WINDOW, 0, held=True) == HeldDevice(WINDOW, 0, idle=True)
    assert one.note(2 + WINDOW, 0, held=False) == HeldDevice(0, None, idle=False)
    assert one.note(3 + WINDOW, 0, held=True) == HeldDevice(0, 0, idle=False)
