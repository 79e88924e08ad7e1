from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Self

import pytest

from headrace.contracts.values.account_numbers import FIRST
from headrace.node_executor.files.workspace import Paths, Workspace, shows_polling
from headrace.node_executor.system.accounts import UserAccount

NAME = "acme.alice.01j9z3k4m5n6p7q8r9s0t1v2w3.1"


def tree(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if "spare" not in path.parts} - {
        "leases",
        "logs",
        "checkpoints",
    }


def test_a_lease_has_its_own_places(tmp_path, make_order) -> None:
    workspace = Workspace(str(tmp_path))
    paths = workspace.paths(make_order())
    assert paths == Paths(
        f"{tmp_path}/leases/{NAME}.0",
        f"{tmp_path}/leases/{NAME}.0/work",
        f"{tmp_path}/checkpoints/{NAME}",
        f"{tmp_path}/logs/{NAME}.0.log",
    )
    workspace.make(paths)
    workspace.make(paths)
    assert tree(tmp_path) == {f"leases/{NAME}.0", f"leases/{NAME}.0/poll", f"leases/{NAME}.0/work", f"checkpoints/{NAME}"}


def test_a_lease_that_left_nothing_leaves_nothing(tmp_path, make_order) -> None:
    workspace = Workspace(str(tmp_path))
    paths = workspace.paths(make_order())
    workspace.make(paths)
    for name in ("preempt.json", "finished", "hook", "checkpoints"):
        Path(paths.control, name).touch()
    workspace.tidy(paths)
    workspace.tidy(paths)
    assert tree(tmp_path) == set()


def test_the_next_job_of_the_same_account_gets_what_was_left_empty(tmp_path, make_order) -> None:
    workspace = Workspace(str(tmp_path))
    first, second = (workspace.paths(make_order(attempt=attempt)) for attempt in (1, 2))
    workspace.make(first)
    numbers = [Path(path).stat().st_ino for path in (first.control, first.work, first.checkpoints)]
    Path(first.finished).touch()
    workspace.tidy(first)
    workspace.make(second)
    assert [Path(path).stat().st_ino for path in (second.control, second.work, second.checkpoints)] == numbers
    assert sorted(path.name for path in Path(second.control).iterdir()) == ["poll", "work"]


@pytest.fixture
def visible(tmp_path) -> None:
    if not shows_polling(str(tmp_path)):
        pytest.skip("the file system of the temporary directory notes no access times")


@pytest.mark.usefixtures("visible")
def test_a_job_that_looks_for_its_preempt_file_is_seen_to_poll(tmp_path, make_order) -> None:
    workspace = Workspace(str(tmp_path))
    first, second = (workspace.paths(make_order(attempt=attempt)) for attempt in (1, 2))
    workspace.make(first)
    assert not first.polls
    assert not Path(first.preempt).exists()
    assert not first.polls
    assert not Path(first.polled).exists()  # one look is enough, also in the same tick of the clock
    assert first.polls
    workspace.tidy(first)
    workspace.make(second)
    assert not second.polls


def test_where_polling_cannot_be_seen_a_job_may_say_so(tmp_path, make_order) -> None:
    workspace = Workspace(str(tmp_path))
    paths = workspace.paths(make_order())
    workspace.make(paths)
    Path(paths.hook).symlink_to("/nowhere")
    assert paths.polls


def test_what_a_job_put_in_place_of_the_link_counts_for_nothing(tmp_path, make_order) -> None:
    workspace = Workspace(str(tmp_path))
    paths = workspace.paths(make_order())
    workspace.make(paths)
    Path(paths.control, "poll").unlink()
    assert not paths.polls
    Path(paths.control, "poll").touch()
    assert not paths.polls


def test_what_the_job_made_stays(tmp_path, make_order) -> None:
    workspace = Workspace(str(tmp_path))
    paths = workspace.paths(make_order())
    workspace.make(paths)
    Path(paths.work, "result").touch()
    Path(paths.checkpoints, "1.pt").touch()
    Path(paths.finished).touch()
    workspace.tidy(paths)
    assert tree(tmp_path) == {
        f"leases/{NAME}.0",
        f"leases/{NAME}.0/work",
        f"leases/{NAME}.0/work/result",
        f"checkpoints/{NAME}",
        f"checkpoints/{NAME}/1.pt",
    }


def test_the_replicas_of_a_gang_share_one_checkpoint_directory_and_none_of_them_removes_it(tmp_path, make_order) -> None:
    workspace = Workspace(str(tmp_path), str(tmp_path / "shared"))
    first, second = (workspace.paths(make_order(rank=rank, replicas=2)) for rank in (0, 1))
    assert first.checkpoints == second.checkpoints == f"{tmp_path}/shared/{NAME}"
    assert first.on_shared_path
    workspace.make(first)
    workspace.make(second)
    workspace.tidy(first)
    assert Path(second.checkpoints).is_dir()


def test_a_job_that_names_its_directory_gets_no_other(tmp_path, make_order) -> None:
    workspace = Workspace(str(tmp_path))
    paths = workspace.paths(make_order(workdir="/home/alice"))
    assert paths.work == ""
    workspace.make(paths)
    workspace.tidy(paths)
    assert tree(tmp_path) == set()


def test_directories_that_cannot_be_made_are_an_error(tmp_path, make_order) -> None:
    workspace = Workspace(str(tmp_path))
    (tmp_path / "leases").rmdir()
    with pytest.raises(OSError, match="No such file"):
        workspace.make(workspace.paths(make_order()))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_a_job_saved_under_another_number_is_handed_over_and_nothing_else(tmp_path, make_order) -> None:
    """As after a raise of the level by which two users who had the same number were given others."""
    workspace = Workspace(str(tmp_path), others=True)
    order = make_order(attempt=3, resume_from="x")
    saved = Path(workspace.checkpoints) / f"{order.job}.1"
    others = Path(workspace.checkpoints) / f"evil.mallory.{order.job.rpartition('.')[2]}.1"
    secret = tmp_path / "secret"
    for directory in (saved, saved / "deep", others):
        directory.mkdir(parents=True)
        (directory / "file").write_text("saved")
    secret.write_text("root's")
    os.link(others / "file", saved / "linked")
    (saved / "symbolic").symlink_to(secret)
    for path in (saved, saved / "deep", saved / "file", saved / "deep" / "file", others, others / "file"):
        os.chown(path, FIRST + 1, FIRST + 1)
    workspace.hand_over(order, UserAccount(FIRST + 2, FIRST + 2, "alice"))
    mine = {path: os.lstat(path).st_uid for path in (saved, saved / "deep", saved / "file", saved / "deep" / "file")}
    assert set(mine.values()) == {FIRST + 2}
    left = [os.lstat(path).st_uid for path in (others, others / "file", saved / "linked", secret)]
    assert left == [FIRST + 1, FIRST + 1, FIRST + 1, 0]


@pytest.mark.parametrize("others", [True, False])
def test_what_names_users_and_jobs_is_listed_by_the_executor_only(tmp_path, others) -> None:
    (tmp_path / "checkpoints").mkdir(0o755)
    Workspace(str(tmp_path), others=others)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"leases": 0o711, "checkpoints": 0o711, "logs": 0o700, "spare": 0o700}


def test_a_path_that_the_installation_shares_keeps_its_mode(tmp_path) -> None:
    (tmp_path / "shared").mkdir(0o750)
    Workspace(str(tmp_path), str(tmp_path / "shared"))
    assert stat.S_IMODE((tmp_path / "shared").stat().st_mode) == 0o750


def test_a_link_in_place_of_the_working_directory_is_not_taken_for_it(tmp_path, make_order) -> None:
    workspace = Workspace(str(tmp_path))
    paths = workspace.paths(make_order())
    Path(paths.control).mkdir()
    Path(paths.work).symlink_to("/")
    with pytest.raises(FileExistsError):
        workspace.make(paths)


def test_tidying_after_a_job_with_many_files_takes_no_time_for_each_of_them(tmp_path, make_order, monkeypatch) -> None:
    workspace = Workspace(str(tmp_path))
    paths = workspace.paths(make_order())
    workspace.make(paths)
    for directory in (paths.control, paths.work, paths.checkpoints):
        for number in range(1_000):
            Path(directory, f"file{number}").touch()
    looked: list[str] = []
    scandir = os.scandir

    class Counted:
        def __init__(self, path: str) -> None:
            self.entries = scandir(path)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self.entries.close()

        def __iter__(self) -> Self:
            return self

        def __next__(self) -> os.DirEntry[str]:
            looked.append("")
            return next(self.entries)

    monkeypatch.setattr("os.scandir", Counted)
    workspace.tidy(paths)
    assert len(looked) < 20
