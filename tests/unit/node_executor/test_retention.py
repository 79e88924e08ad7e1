from __future__ import annotations

import os
from pathlib import Path

from headrace.node_executor.retention import Kept, prune
from headrace.node_executor.workspace import Workspace

NOW = 1_000_000.0


def put(path: Path, age: float, size: int = 10) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x" * size)
    os.utime(path, (NOW - age, NOW - age))


def names(directory: str) -> set[str]:
    return {path.name for path in Path(directory).iterdir()}


def test_what_is_too_old_goes_and_what_runs_stays(tmp_path) -> None:
    workspace = Workspace(str(tmp_path))
    for name, age in (("old", 200), ("new", 50), ("alive", 200)):
        put(Path(workspace.logs, f"{name}.log"), age)
        put(Path(workspace.leases, name, "result"), age)
        os.utime(Path(workspace.leases, name), (NOW - age, NOW - age))
        put(Path(workspace.checkpoints, name, "1.pt"), age)
    assert prune(workspace, Kept(100, 1_000), NOW, {"alive"}) == 2
    assert names(workspace.logs) == {"new.log", "alive.log"}
    assert names(workspace.leases) == {"new", "alive"}
    assert names(workspace.checkpoints) == {"old", "new", "alive"}


def test_of_too_many_logs_the_newest_stay(tmp_path) -> None:
    workspace = Workspace(str(tmp_path))
    for number in range(5):
        put(Path(workspace.logs, f"{number}.log"), age=number, size=100)
    assert prune(workspace, Kept(1_000, 250), NOW, ()) == 3
    assert names(workspace.logs) == {"0.log", "1.log"}


def test_a_log_goes_with_all_its_pieces_and_counts_with_them(tmp_path) -> None:
    workspace = Workspace(str(tmp_path))
    put(Path(workspace.logs, "old.log"), age=20, size=10)
    put(Path(workspace.logs, "old.log.d", "10"), age=15, size=200)
    put(Path(workspace.logs, "new.log"), age=30, size=10)
    put(Path(workspace.logs, "new.log.d", "10"), age=5, size=200)
    assert prune(workspace, Kept(1_000, 300), NOW, ()) == 1
    assert names(workspace.logs) == {"new.log", "new.log.d"}
