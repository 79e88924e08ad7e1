from __future__ import annotations

import queue

import pytest

from headrace.node_executor.devices import OnDevice
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.enforcement.watchdog import STRAY, Limit, Overrun, OverrunDetector, Watchdog, used_by_lease
from tests.mock_nvml import Machine
from tests.unit.node_executor.enforcement.conftest import FIRST

LIMITS = {("a", "g0"): Limit(1_000, 1_256), ("b", "g0"): Limit(1_000, 1_256)}


def test_the_processes_of_a_lease_are_summed_up_by_device() -> None:
    found = {"g0": [OnDevice(1, 100), OnDevice(2, 200), OnDevice(3, 400)], "g1": [OnDevice(1, 50)]}
    owner = {1: "a", 2: "a"}.get
    assert used_by_lease(found, lambda pid: owner(pid, "")) == {("a", "g0"): 300, ("", "g0"): 400, ("a", "g1"): 50}


def test_who_is_over_twice_on_end_is_told_of_once() -> None:
    watch = OverrunDetector()
    over = {("a", "g0"): 1_300, ("b", "g0"): 1_200}
    overruns = [watch.judge(over, LIMITS) for _ in range(4)]
    assert overruns == [[], [Overrun("a", "g0", 1_000, 1_300)], [], []]


def test_who_gives_it_back_in_between_is_let_be() -> None:
    watch = OverrunDetector()
    looks = [{("a", "g0"): memory} for memory in (1_300, 1_000, 1_300, 1_256)]
    assert [watch.judge(failing_usage, LIMITS) for failing_usage in looks] == [[], [], [], []]


@pytest.mark.parametrize(("used", "overruns"), [(STRAY, []), (STRAY + 1, [Overrun("a", "g7", 0, STRAY + 1)])])
def test_on_a_device_that_it_was_never_given_a_lease_may_hold_next_to_nothing(used: int, overruns: list[Overrun]) -> None:
    watch = OverrunDetector()
    assert [watch.judge({("a", "g7"): used}, LIMITS) for _ in range(2)][1] == overruns


def test_strangers_are_let_be() -> None:
    watch = OverrunDetector()
    assert [watch.judge({("", "g0"): 99_999}, LIMITS) for _ in range(3)] == [[], [], []]


def test_it_looks_by_itself_and_tells_within_a_second(devices: NvmlDevices, machine: Machine, sleeper: int) -> None:
    overruns: queue.Queue[Overrun] = queue.Queue()
    dog = Watchdog(devices.on_devices, {sleeper: "a"}.get, overruns.put)  # type: ignore[arg-type]
    dog.given("a", {FIRST: Limit(1_000, 1_256)})
    dog.start()
    machine.process(sleeper, 2_000)
    assert overruns.get(timeout=1.0) == Overrun("a", FIRST, 1_000, 2_000)
    assert dog.used == {("a", FIRST): 2_000}
    dog.taken("a")
    dog.stop()


def test_a_look_that_fails_is_not_the_last() -> None:
    looks: queue.Queue[int] = queue.Queue()

    def failing_usage() -> dict[str, list[OnDevice]]:
        looks.put(1)
        raise RuntimeError("the driver is gone")

    dog = Watchdog(failing_usage, lambda _: "", lambda _: None)
    dog.start()
    assert [looks.get(timeout=5) for _ in range(2)] == [1, 1]
    dog.stop()
