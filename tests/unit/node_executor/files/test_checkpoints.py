from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.contracts.values.account_numbers import FIRST
from headrace.node_executor.files.checkpoints import ENTRIES_MAX, Checkpoint, CheckpointWatch
from headrace.node_executor.files.workspace import Paths
from headrace.node_executor.system.accounts import UserAccount

ALICE = FIRST + 1
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root looks at files as others")


@pytest.fixture
def paths(tmp_path) -> Paths:
    for name in ("control", "checkpoints"):
        (tmp_path / name).mkdir()
    return Paths(str(tmp_path / "control"), "", str(tmp_path / "checkpoints"), str(tmp_path / "log"))


def save(path: Path, at: int) -> str:
    path.write_text("weights")
    os.utime(path, ns=(at, at))
    return str(path)


def register(paths: Paths, *lines: str) -> None:
    with Path(paths.registered).open("a") as file:
        file.writelines(line + "\n" for line in lines)


def test_nothing_saved_is_nothing_found(paths) -> None:
    watch = CheckpointWatch(paths)
    assert watch.find_newest() is None
    assert watch.find_newest(thorough=True) is None
    assert not watch.accept(None)


def test_the_newest_finished_file_of_the_directory_counts(paths) -> None:
    watch = CheckpointWatch(paths)
    directory = Path(paths.checkpoints)
    save(directory / "1.pt", 1_000)
    newest = save(directory / "2.pt", 2_000)
    save(directory / ".hidden", 9_000)
    save(directory / "3.pt.tmp", 9_000)
    found = watch.find_newest()
    assert found == Checkpoint(newest, 0, 2_000)
    assert watch.accept(found)
    assert not watch.accept(watch.find_newest(thorough=True))
    assert watch.find_newest() is None


def test_a_file_that_is_replaced_counts_again(paths) -> None:
    watch = CheckpointWatch(paths)
    path = save(Path(paths.checkpoints) / "last.pt", 1_000)
    assert watch.accept(watch.find_newest())
    save(Path(path), 2_000)
    assert watch.accept(watch.find_newest(thorough=True))


def test_who_registers_is_believed_over_what_lies_there(paths, tmp_path) -> None:
    watch = CheckpointWatch(paths, named=(str(tmp_path / "project"),))
    save(Path(paths.checkpoints) / "half-written", 9_000)
    (tmp_path / "project").mkdir()
    another_place = save(tmp_path / "project" / "elsewhere.pt", 1_000)
    register(paths, f'{{"uri": "{another_place}", "step": 40}}')
    assert watch.find_newest() == Checkpoint(another_place, 40, 1_000)
    assert watch.complaint == ""
    assert not watch.quick


def test_a_path_may_be_relative_to_the_directory_or_a_file_uri(paths) -> None:
    watch = CheckpointWatch(paths)
    inside = save(Path(paths.checkpoints) / "5.pt", 5_000)
    register(paths, '{"uri": "5.pt", "step": 5}')
    assert watch.find_newest() == Checkpoint(inside, 5, 5_000)
    spaced = save(Path(paths.control) / "a b.pt", 6_000)
    register(paths, f'{{"uri": "file://{paths.control}/a%20b.pt"}}')
    assert watch.find_newest(thorough=True) == Checkpoint(spaced, 0, 6_000)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"uri": "gone.pt"}', "checkpoint gone.pt was not found on this node and does not count"),
        ('{"uri": "/gone.pt"}', "checkpoint /gone.pt is not below a directory of this job and does not count"),
        ('{"uri": "/etc/passwd"}', "checkpoint /etc/passwd is not below a directory of this job and does not count"),
        ('{"uri": "../../x"}', "checkpoint ../../x is not below a directory of this job and does not count"),
        ('{"uri": "file://["}', "checkpoint file://[ was not found on this node and does not count"),
        ('{"uri": "a\\u0000b"}', "checkpoint a\0b was not found on this node and does not count"),
        ('{"uri": "s3://bucket/x"}', "checkpoint s3://bucket/x was not found on this node and does not count"),
        ('{"uri": ""}', "checkpoint  was not found on this node and does not count"),
        ('{"uri": "5.pt", "step": -1}', "checkpoint 5.pt was not found on this node and does not count"),
        ("[" * 10_000, 'a line of the registered checkpoints is not JSON of the form {"uri": ..., "step": ...}'),
        ('{"uri": 7}', 'a line of the registered checkpoints is not JSON of the form {"uri": ..., "step": ...}'),
    ],
)
def test_what_cannot_be_found_or_read_does_not_count_and_hides_nothing_earlier(paths, line, complaint) -> None:
    watch = CheckpointWatch(paths)
    good = save(Path(paths.checkpoints) / "5.pt", 5_000)
    register(paths, '{"uri": "5.pt", "step": 5}', line)
    assert watch.find_newest() == Checkpoint(good, 5, 5_000)
    assert watch.complaint == complaint


def test_of_a_very_long_list_the_end_counts(paths) -> None:
    watch = CheckpointWatch(paths)
    good = save(Path(paths.checkpoints) / "5.pt", 5_000)
    register(paths, *(f'{{"uri": "/gone/{number}"}}' for number in range(5_000)), '{"uri": "5.pt", "step": 5}')
    assert watch.find_newest() == Checkpoint(good, 5, 5_000)


def test_of_a_gang_only_the_first_looks_into_the_shared_directory(paths) -> None:
    save(Path(paths.checkpoints) / "5.pt", 5_000)
    assert CheckpointWatch(paths, rank=1).find_newest() is None
    assert CheckpointWatch(paths, rank=0).find_newest() is not None


def test_looking_may_hang_only_where_the_checkpoints_are_not_our_own(paths) -> None:
    assert CheckpointWatch(paths).quick
    assert not CheckpointWatch(paths._replace(on_shared_path=True)).quick


@pytest.mark.parametrize("kind", ["fifo", "link", "device", "directory"])
def test_anything_in_place_of_the_list_but_a_file_is_said_and_does_not_block(paths, tmp_path, kind) -> None:
    good = save(Path(paths.checkpoints) / "5.pt", 5_000)
    (tmp_path / "list").write_text('{"uri": "5.pt", "step": 5}\n')
    if kind == "fifo":
        os.mkfifo(paths.registered)
    elif kind == "link":
        Path(paths.registered).symlink_to(tmp_path / "list")
    elif kind == "device":
        Path(paths.registered).symlink_to("/dev/zero")
    else:
        Path(paths.registered).mkdir()
    watch = CheckpointWatch(paths)
    assert watch.find_newest() is None
    assert watch.complaint.startswith("the list of registered checkpoints cannot be read: ")
    Path(paths.registered).rmdir() if kind == "directory" else Path(paths.registered).unlink()
    register(paths, '{"uri": "5.pt", "step": 5}')
    assert watch.find_newest(thorough=True) == Checkpoint(good, 5, 5_000)


def test_a_list_without_end_is_read_from_its_end(paths) -> None:
    good = save(Path(paths.checkpoints) / "5.pt", 5_000)
    with Path(paths.registered).open("wb") as file:
        file.truncate(1 << 40)
        file.seek(0, os.SEEK_END)
        file.write(b'\n{"uri": "5.pt", "step": 5}\n')
    assert CheckpointWatch(paths).find_newest() == Checkpoint(good, 5, 5_000)


@pytest.mark.parametrize("there", [True, False])
def test_of_a_path_of_others_the_answer_is_the_same_whether_it_exists_or_not(paths, tmp_path, there) -> None:
    if there:
        save(tmp_path / "foreign", 1_000)
    Path(paths.checkpoints, "link").symlink_to(tmp_path / "foreign")
    for uri in (f"{tmp_path}/foreign", f"file://{tmp_path}/foreign", "../foreign", "link"):
        register(paths, f'{{"uri": "{uri}"}}')
        watch = CheckpointWatch(paths)
        assert (watch.find_newest(), watch.complaint) == (
            None,
            f"checkpoint {uri} is not below a directory of this job and does not count",
        )
        Path(paths.registered).unlink()


def test_checkpoints_of_earlier_attempts_count_and_those_of_other_jobs_do_not(paths, tmp_path) -> None:
    now = paths._replace(checkpoints=str(tmp_path / "acme.alice.x.2"))
    for name in ("acme.alice.x.2", "acme.alice.x.1", "acme.alice.y.1", "acme.alice.x.1.1"):
        (tmp_path / name).mkdir()
        save(tmp_path / name / "1.pt", 1_000)
    register(now, f'{{"uri": "{tmp_path}/acme.alice.x.1/1.pt"}}')
    assert CheckpointWatch(now).find_newest() == Checkpoint(f"{tmp_path}/acme.alice.x.1/1.pt", 0, 1_000)
    for name in ("acme.alice.y.1", "acme.alice.x.1.1"):
        Path(now.registered).unlink()
        register(now, f'{{"uri": "{tmp_path}/{name}/1.pt"}}')
        assert CheckpointWatch(now).find_newest() is None


def test_links_fifos_and_too_many_entries_of_the_directory_do_not_count(paths, tmp_path, monkeypatch) -> None:
    save(tmp_path / "foreign", 9_000)
    Path(paths.checkpoints, "link").symlink_to(tmp_path / "foreign")
    os.mkfifo(Path(paths.checkpoints, "fifo"))
    assert CheckpointWatch(paths).find_newest() is None
    good = save(Path(paths.checkpoints) / "5.pt", 5_000)
    assert CheckpointWatch(paths).find_newest() == Checkpoint(good, 0, 5_000)
    for number in range(ENTRIES_MAX):
        Path(paths.checkpoints, f"{number}.tmp").touch()
    watch = CheckpointWatch(paths)
    assert (watch.find_newest(), watch.quick) == (None, False)
    assert watch.complaint.startswith(f"HEADRACE_CHECKPOINT_DIR has more than {ENTRIES_MAX} entries")


def test_a_directory_replaced_by_a_link_is_not_looked_into(paths, tmp_path) -> None:
    save(tmp_path / "control" / "5.pt", 5_000)
    Path(paths.checkpoints).rmdir()
    Path(paths.checkpoints).symlink_to(tmp_path / "control")
    assert CheckpointWatch(paths).find_newest() is None


def test_only_a_change_is_news(paths) -> None:
    watch = CheckpointWatch(paths)
    assert watch.may_have_news
    watch.find_newest()
    assert not watch.may_have_news
    save(Path(paths.checkpoints) / "5.pt", 5_000)
    os.utime(paths.checkpoints, ns=(7, 7))
    assert watch.may_have_news
    watch.find_newest()
    register(paths, '{"uri": "5.pt", "step": 5}')
    assert watch.may_have_news
    watch.find_newest()
    assert not watch.may_have_news
    assert CheckpointWatch(paths._replace(on_shared_path=True)).may_have_news


@pytest.fixture
def theirs() -> Iterator[Paths]:
    """Directories of a job of another account, in a place that every account can reach."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o711)
        for name in ("control", "checkpoints"):
            Path(top, name).mkdir(0o700)
            os.chown(Path(top, name), ALICE, ALICE)
        yield Paths(f"{top}/control", "", f"{top}/checkpoints", f"{top}/log")


@only_root
def test_a_list_of_another_owner_does_not_count(theirs) -> None:
    save(Path(theirs.checkpoints) / "5.pt", 5_000)
    register(theirs, '{"uri": "5.pt"}')
    watch = CheckpointWatch(theirs, account=UserAccount(ALICE, ALICE, "alice"))
    assert watch.find_newest() is None
    assert watch.complaint.startswith("the list of registered checkpoints cannot be read: ")
    os.chmod(theirs.registered, 0o644)
    os.chown(theirs.registered, ALICE + 1, ALICE + 1)
    os.link(theirs.registered, f"{theirs.control}/again")
    assert watch.find_newest(thorough=True) is None
    assert watch.complaint.endswith("it is not a regular file of the job's own")
    os.chown(theirs.registered, ALICE, ALICE)
    assert watch.find_newest(thorough=True) == Checkpoint(f"{theirs.checkpoints}/5.pt", 0, 5_000)


@only_root
def test_checkpoints_are_looked_at_with_the_rights_of_the_jobs_account(theirs) -> None:
    closed = Path(theirs.checkpoints, "closed")
    closed.mkdir(0o700)
    save(closed / "5.pt", 5_000)
    register(theirs, f'{{"uri": "{closed}/5.pt"}}')
    os.chown(theirs.registered, ALICE, ALICE)
    watch = CheckpointWatch(theirs, account=UserAccount(ALICE, ALICE, "alice"))
    assert (watch.find_newest(), watch.complaint) == (
        None,
        f"checkpoint {closed}/5.pt was not found on this node and does not count",
    )
    os.chown(closed, ALICE, ALICE)
    assert watch.find_newest(thorough=True) == Checkpoint(f"{closed}/5.pt", 0, 5_000)
