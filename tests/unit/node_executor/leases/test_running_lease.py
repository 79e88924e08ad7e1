from __future__ import annotations

import pytest

from headrace.node_executor.enforcement import EnforcementRequest, Entered
from headrace.node_executor.files.workspace import Workspace
from headrace.node_executor.launch.preparation import Prepared
from headrace.node_executor.leases.running_lease import RunningLease
from headrace.node_executor.runtimes import CALLBACK, Launch
from headrace.node_executor.runtimes.job_log import Output


def test_a_job_and_its_callback_are_started_alike_under_names_of_their_own(tmp_path, make_order) -> None:
    order = make_order()
    paths = Workspace(str(tmp_path)).paths(order)
    output = Output(paths.log, 1_000)
    held = RunningLease(order, Prepared(paths, {"A": "1"}, "/work"), output)
    assert held.case == EnforcementRequest(order.lease, order.devices, paths.control)
    assert held.launch(("train",), {"A": "1"}) == Launch(held.name, ("train",), {"A": "1"}, "/work", paths.control, output)
    callback = Launch(f"{held.name}.abort", ("save",), {}, "/work", paths.control, output, part="abort")
    assert held.launch(("save",), {}, CALLBACK) == callback


def test_both_are_started_in_the_enclosure_of_their_lease(tmp_path, make_order) -> None:
    paths, output = Workspace(str(tmp_path)).paths(make_order()), Output(f"{tmp_path}/log", 1_000)
    held = RunningLease(make_order(), Prepared(paths, {}, "/work"), output)
    held.entered = Entered("kernel", {"C": "d"}, "/group", ("/wall", "--"))
    for part in ("job", CALLBACK):
        launch = held.launch(("train",), {"A": "b", "C": "own"}, part)
        assert (launch.env, launch.within, launch.prefix) == ({"A": "b", "C": "d"}, "/group", ("/wall", "--"))


@pytest.mark.parametrize(
    ("image", "level", "isolation"),
    [
        ("", "hardware", "hardware"),
        ("torch:2", "hardware", "watchdog"),
        ("torch:2", "simulated", "simulated"),
        ("torch:2", "none", "none"),
    ],
)
def test_of_a_container_no_more_is_claimed_than_was_proved(
    tmp_path, make_order, image: str, level: str, isolation: str
) -> None:
    order = make_order(image=image)
    held = RunningLease(order, Prepared(Workspace(str(tmp_path)).paths(order), {}, "/work"), Output(f"{tmp_path}/log", 1_000))
    held.entered = Entered(level, {})
    assert held.isolation == isolation
