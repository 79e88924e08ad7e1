from __future__ import annotations

import os
import random
from pathlib import Path

from headrace.node_executor.files.retention import RetentionPolicy, prune, shares
from headrace.node_executor.files.workspace import Workspace

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
    assert prune(workspace, RetentionPolicy(100, 1_000), NOW, {"alive"}) == 2
    assert names(workspace.logs) == {"new.log", "alive.log"}
    assert names(workspace.leases) == {"new", "alive"}
    assert names(workspace.checkpoints) == {"old", "new", "alive"}


def test_leases_with_directories_deeper_than_a_path_may_be_are_removed(tmp_path) -> None:
    workspace = Workspace(str(tmp_path))
    top = Path(workspace.leases, "old")
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    os.utime(top, (NOW - 200, NOW - 200))
    assert prune(workspace, RetentionPolicy(100, 1_000), NOW, ()) == 1
    assert names(workspace.leases) == set()


def test_of_too_many_logs_the_newest_stay(tmp_path) -> None:
    workspace = Workspace(str(tmp_path))
    for number in range(5):
        put(Path(workspace.logs, f"acme.{number}.log"), age=number, size=100)
    assert prune(workspace, RetentionPolicy(1_000, 250), NOW, ()) == 3
    assert names(workspace.logs) == {"acme.0.log", "acme.1.log"}


def test_a_log_goes_with_all_its_pieces_and_counts_with_them(tmp_path) -> None:
    workspace = Workspace(str(tmp_path))
    put(Path(workspace.logs, "acme.old.log"), age=20, size=10)
    put(Path(workspace.logs, "acme.old.log.d", "10"), age=15, size=200)
    put(Path(workspace.logs, "acme.new.log"), age=30, size=10)
    put(Path(workspace.logs, "acme.new.log.d", "10"), age=5, size=200)
    assert prune(workspace, RetentionPolicy(1_000, 300), NOW, ()) == 1
    assert names(workspace.logs) == {"acme.new.log", "acme.new.log.d"}


def test_a_tenant_that_writes_much_pushes_out_its_own_logs_only(tmp_path) -> None:
    workspace = Workspace(str(tmp_path))
    for number in range(6):
        put(Path(workspace.logs, f"noisy.ann.{number}.1.0.log"), age=number, size=100)
    put(Path(workspace.logs, "quiet.bob.0.1.0.log"), age=900, size=100)
    put(Path(workspace.logs, "quiet.bob.1.1.0.log"), age=800, size=100)
    assert prune(workspace, RetentionPolicy(1_000, 500), NOW, ()) == 3
    assert names(workspace.logs) == {
        *("noisy.ann.0.1.0.log", "noisy.ann.1.1.0.log", "noisy.ann.2.1.0.log"),
        *("quiet.bob.0.1.0.log", "quiet.bob.1.1.0.log"),
    }


def test_output_of_what_runs_takes_room_of_its_own_tenant(tmp_path) -> None:
    workspace = Workspace(str(tmp_path))
    put(Path(workspace.logs, "noisy.ann.0.1.0.log"), age=0, size=900)
    put(Path(workspace.logs, "noisy.ann.1.1.0.log"), age=1, size=100)
    put(Path(workspace.logs, "quiet.bob.0.1.0.log"), age=900, size=250)
    assert prune(workspace, RetentionPolicy(1_000, 500), NOW, {"noisy.ann.0.1.0"}) == 1
    assert names(workspace.logs) == {"noisy.ann.0.1.0.log", "quiet.bob.0.1.0.log"}


def test_a_share_is_equal_and_what_one_does_not_want_goes_to_the_others() -> None:
    assert shares({"a": 1_000, "b": 50, "c": 1_000}, 300) == {"a": 125, "b": 50, "c": 125}
    assert shares({"a": 100, "b": 200}, 400) == {"a": 100, "b": 200}
    assert shares({}, 400) == {}


def test_a_borrower_that_wants_no_more_than_an_equal_share_gets_all_of_it() -> None:
    chance = random.Random(25)
    for _ in range(500):
        wanted = {str(number): chance.randrange(1_000) for number in range(chance.randrange(1, 9))}
        capacity = chance.randrange(4_000)
        given = shares(wanted, capacity)
        assert sum(given.values()) <= capacity
        assert all(given[one] == wanted[one] for one in wanted if wanted[one] <= capacity // len(wanted))
        assert sum(given.values()) >= min(capacity, sum(wanted.values())) - len(wanted)


def test_a_spare_directory_into_which_a_job_wrote_is_removed(tmp_path) -> None:
    (tmp_path / "spare" / "control.1" / "work").mkdir(parents=True)
    (tmp_path / "spare" / "control.1" / "work" / "late").touch()
    assert prune(Workspace(str(tmp_path)), RetentionPolicy(100, 1_000), NOW, ()) == 0
    assert names(str(tmp_path / "spare")) == set()
