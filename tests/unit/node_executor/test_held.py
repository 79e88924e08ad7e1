from __future__ import annotations

from headrace.node_executor.held import Held
from headrace.node_executor.preparation import Prepared
from headrace.node_executor.runtimes import CALLBACK, Launch
from headrace.node_executor.runtimes.output import Output
from headrace.node_executor.workspace import Workspace


def test_a_job_and_its_callback_are_started_alike_under_names_of_their_own(tmp_path, make_order) -> None:
    order = make_order()
    paths = Workspace(str(tmp_path)).paths(order)
    output = Output(paths.log, 1_000)
    held = Held(order, Prepared(paths, {"A": "1"}, "/work"), output)
    assert held.launch(("train",), {"A": "1"}) == Launch(held.name, ("train",), {"A": "1"}, "/work", paths.control, output)
    callback = Launch(f"{held.name}.abort", ("save",), {}, "/work", paths.control, output, part="abort")
    assert held.launch(("save",), {}, CALLBACK) == callback
