from __future__ import annotations

from headrace.node_executor.runtimes.job_log import Output, pieces


def test_a_log_has_its_pieces_in_order(tmp_path) -> None:
    path = str(tmp_path / "log")
    assert pieces(path) == [(0, path)]
    (tmp_path / "log.d").mkdir()
    for name in ("900", "1000", "other"):
        (tmp_path / "log.d" / name).touch()
    assert pieces(path) == [(0, path), (900, f"{path}.d/900"), (1000, f"{path}.d/1000")]


def test_a_line_of_our_own_stands_at_the_end(tmp_path) -> None:
    output = Output(str(tmp_path / "log"), 100)
    output.note("first")
    (tmp_path / "log.d").mkdir()
    (tmp_path / "log.d" / "40").write_text("last words\n")
    output.note("second")
    assert (tmp_path / "log").read_text() == "[headrace] first\n"
    assert (tmp_path / "log.d" / "40").read_text() == "last words\n[headrace] second\n"


def test_where_it_cannot_be_written_nothing_is(tmp_path) -> None:
    Output(str(tmp_path / "gone" / "log"), 100).note("lost")
    assert list(tmp_path.iterdir()) == []
