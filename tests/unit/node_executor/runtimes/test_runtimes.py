"""Every way to run jobs has the whole face."""

from __future__ import annotations

from headrace.node_executor.runtimes import CannotStart, Running, Runtime
from headrace.node_executor.runtimes.process import Process, ProcessRuntime


def test_processes_are_a_runtime() -> None:
    assert {name for name in vars(Runtime) if not name.startswith("_")} == {"start"}
    assert {name for name in vars(Running) if not name.startswith("_")} == {"pid", "terminate", "kill"}
    assert hasattr(ProcessRuntime, "start")
    assert all(hasattr(Process, name) for name in ("pid", "terminate", "kill"))


def test_whose_fault_it_is_that_nothing_started_shows_in_the_exit_code() -> None:
    assert CannotStart("no space").exit_code is None
    assert CannotStart("command not found: x", 127).exit_code == 127
