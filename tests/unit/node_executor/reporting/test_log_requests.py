from __future__ import annotations

from pathlib import Path

import pytest

from headrace.contracts.messages.orders import LogsRequest
from headrace.contracts.messages.queries import LogsAnswer
from headrace.node_executor.files.workspace import Workspace
from headrace.node_executor.reporting.log_requests import read_log

JOB = "acme.alice.01j9z3k4m5n6p7q8r9s0t1v2w3"


@pytest.fixture
def workspace(tmp_path) -> Workspace:
    return Workspace(str(tmp_path))


def write(workspace: Workspace, data: bytes) -> None:
    Path(workspace.log(JOB, 1, 0)).write_bytes(data)


def ask(workspace: Workspace, *, alive: bool = False, job: str = JOB, offset: int = 0, limit: int = 100) -> LogsAnswer:
    return read_log(workspace, LogsRequest(job=job, attempt=1, offset=offset, limit=limit), alive=alive)


def test_output_is_read_piece_by_piece_until_it_ends(workspace) -> None:
    write(workspace, b"hello world")
    assert ask(workspace, limit=6) == LogsAnswer(data="hello ", next_offset=6)
    assert ask(workspace, offset=6, limit=6) == LogsAnswer(data="world", next_offset=11, ended=True)
    assert ask(workspace, offset=11, alive=True) == LogsAnswer(next_offset=11)


def test_a_character_is_never_cut_in_two(workspace) -> None:
    write(workspace, "aäb€c😀".encode())
    data, offset, pieces = "", 0, 0
    while True:
        answer = ask(workspace, offset=offset, limit=5)
        data, offset, pieces = data + answer.data, answer.next_offset, pieces + 1
        if answer.ended:
            break
    assert data == "aäb€c😀"
    assert pieces == 3


def test_bytes_that_are_not_text_are_replaced_and_do_not_stop_the_reading(workspace) -> None:
    write(workspace, b"\xff\xfe\xc3")
    assert ask(workspace, limit=1, alive=True) == LogsAnswer(data="�", next_offset=1)
    assert ask(workspace, offset=2, alive=True) == LogsAnswer(data="�", next_offset=3)
    assert ask(workspace) == LogsAnswer(data="���", next_offset=3, ended=True)


def test_a_job_without_output_has_ended_or_may_yet_print(workspace) -> None:
    assert ask(workspace) == LogsAnswer(ended=True)
    assert ask(workspace, alive=True) == LogsAnswer()


def test_a_name_that_is_not_a_job_reads_no_file(workspace) -> None:
    answer = ask(workspace, job="../../etc/passwd")
    assert answer.ended
    assert "invalid job key" in answer.error


def test_output_that_cannot_be_read_is_an_error_of_one_line(workspace) -> None:
    Path(workspace.log(JOB, 1, 0)).mkdir()
    assert ask(workspace) == LogsAnswer(ended=True, error="the output cannot be read: Is a directory")


def test_a_piece_has_a_largest_size(workspace) -> None:
    write(workspace, b"x" * 3_000_000)
    assert ask(workspace, limit=10**9).next_offset == 1024 * 1024
    assert ask(workspace, limit=-1, offset=-5).next_offset == 1


def test_a_long_log_is_read_over_its_pieces_and_says_what_is_missing_in_between(workspace) -> None:
    write(workspace, b"head\n")
    folder = Path(workspace.log(JOB, 1, 0) + ".d")
    folder.mkdir()
    (folder / "100").write_bytes("tä".encode())
    (folder / "103").write_bytes(b"il\n")
    assert ask(workspace) == LogsAnswer(data="head\n", next_offset=5)
    assert ask(workspace, offset=5) == LogsAnswer(data="\n[headrace] 95 bytes in between were dropped\ntä", next_offset=103)
    assert ask(workspace, offset=103) == LogsAnswer(data="il\n", next_offset=106, ended=True)
    assert ask(workspace, offset=50).next_offset == 103
    assert ask(workspace, offset=106, alive=True) == LogsAnswer(next_offset=106)
