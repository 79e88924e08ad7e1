"""Who may be inside at once."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.node_executor.devices.exclusive_lock import ExclusiveLock, together
from tests.patience import PATIENCE


def test_who_is_to_be_alone_waits_for_those_inside_and_keeps_others_out() -> None:
    gate, inside, leave, order = ExclusiveLock(), threading.Event(), threading.Event(), []

    def stay() -> None:
        with gate.together():
            inside.set()
            assert leave.wait(PATIENCE)
            order.append("who was inside")

    def be_alone() -> None:
        with gate.alone():
            order.append("who is alone")

    def come_late() -> None:
        with gate.together():
            order.append("who came late")

    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(stay)
        assert inside.wait(PATIENCE)
        second = threads.submit(be_alone)
        while not gate.is_closed:
            time.sleep(0.001)
        third = threads.submit(come_late)
        leave.set()
        for one in (first, second, third):
            one.result(PATIENCE)
    assert order == ["who was inside", "who is alone", "who came late"]


def test_a_method_is_one_of_many_and_leaves_also_where_it_fails() -> None:
    class Desk:
        def __init__(self) -> None:
            self.gate = ExclusiveLock()

        @together
        def divide(self, one: int, *, by: int) -> float:
            return one / by

    desk = Desk()
    assert desk.divide(6, by=3) == 2
    with pytest.raises(ZeroDivisionError):
        desk.divide(6, by=0)
    assert desk.gate.inside == 0
