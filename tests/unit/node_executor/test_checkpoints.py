from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.node_executor.checkpoints import Checkpoint, CheckpointWatch
from headrace.node_executor.workspace import Paths


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
    assert watch.look() is None
    assert watch.look(thorough=True) is None
    assert not watch.accept(None)


def test_the_newest_finished_file_of_the_directory_counts(paths) -> None:
    watch = CheckpointWatch(paths)
    directory = Path(paths.checkpoints)
    save(directory / "1.pt", 1_000)
    newest = save(directory / "2.pt", 2_000)
    save(directory / ".hidden", 9_000)
    save(directory / "3.pt.tmp", 9_000)
    found = watch.look()
    assert found == Checkpoint(newest, 0, 2_000)
    assert watch.accept(found)
    assert not watch.accept(watch.look(thorough=True))
    assert watch.look() is None


def test_a_file_that_is_replaced_counts_again(paths) -> None:
    watch = CheckpointWatch(paths)
    path = save(Path(paths.checkpoints) / "last.pt", 1_000)
    assert watch.accept(watch.look())
    save(Path(path), 2_000)
    assert watch.accept(watch.look(thorough=True))


def test_who_registers_is_believed_over_what_lies_there(paths, tmp_path) -> None:
    watch = CheckpointWatch(paths)
    save(Path(paths.checkpoints) / "half-written", 9_000)
    elsewhere = save(tmp_path / "elsewhere.pt", 1_000)
    register(paths, f'{{"uri": "{elsewhere}", "step": 40}}')
    assert watch.look() == Checkpoint(elsewhere, 40, 1_000)
    assert watch.complaint == ""
    assert not watch.quick


def test_a_path_may_be_relative_to_the_directory_or_a_file_uri(paths, tmp_path) -> None:
    watch = CheckpointWatch(paths)
    inside = save(Path(paths.checkpoints) / "5.pt", 5_000)
    register(paths, '{"uri": "5.pt", "step": 5}')
    assert watch.look() == Checkpoint(inside, 5, 5_000)
    spaced = save(tmp_path / "a b.pt", 6_000)
    register(paths, f'{{"uri": "file://{tmp_path}/a%20b.pt"}}')
    assert watch.look(thorough=True) == Checkpoint(spaced, 0, 6_000)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ('{"uri": "/gone.pt"}', "checkpoint /gone.pt was not found on this node and does not count"),
        ('{"uri": "s3://bucket/x"}', "checkpoint s3://bucket/x was not found on this node and does not count"),
        ('{"uri": ""}', "checkpoint  was not found on this node and does not count"),
        ('{"uri": "5.pt", "step": -1}', "checkpoint 5.pt was not found on this node and does not count"),
        ("[" * 10_000, 'a line of the registered checkpoints is no JSON of the form {"uri": ..., "step": ...}'),
        ('{"uri": 7}', 'a line of the registered checkpoints is no JSON of the form {"uri": ..., "step": ...}'),
    ],
)
def test_what_cannot_be_found_or_read_does_not_count_and_hides_nothing_earlier(paths, line, complaint) -> None:
    watch = CheckpointWatch(paths)
    good = save(Path(paths.checkpoints) / "5.pt", 5_000)
    register(paths, '{"uri": "5.pt", "step": 5}', line)
    assert watch.look() == Checkpoint(good, 5, 5_000)
    assert watch.complaint == complaint


def test_of_a_very_long_list_the_end_counts(paths) -> None:
    watch = CheckpointWatch(paths)
    good = save(Path(paths.checkpoints) / "5.pt", 5_000)
    register(paths, *(f'{{"uri": "/gone/{number}"}}' for number in range(5_000)), '{"uri": "5.pt", "step": 5}')
    assert watch.look() == Checkpoint(good, 5, 5_000)


def test_of_a_gang_only_the_first_looks_into_the_shared_directory(paths) -> None:
    save(Path(paths.checkpoints) / "5.pt", 5_000)
    assert CheckpointWatch(paths, rank=1).look() is None
    assert CheckpointWatch(paths, rank=0).look() is not None


def test_looking_may_hang_only_where_the_checkpoints_are_not_our_own(paths) -> None:
    assert CheckpointWatch(paths).quick
    assert not CheckpointWatch(paths._replace(elsewhere=True)).quick
