"""Columns line up, numbers to the right; what others have written cannot move the cursor."""

from __future__ import annotations

import sys

import pytest

from headrace.cli.output.tables import columns_of, pairs, table


def test_words_stand_to_the_left_and_numbers_to_the_right():
    rows = [("full-8", 8, "64GiB", None), ("half", "0.5", "1/7", "x")]
    assert table(("PROFILE", "GPU", "MEMORY", "NOTE"), rows).splitlines() == [
        "PROFILE  GPU  MEMORY  NOTE",
        "full-8     8   64GiB",
        "half     0.5     1/7  x",
    ]


def test_a_column_in_which_nothing_stands_is_left_out():
    assert table(("A", "B", "C"), [("a", "", 1), ("b", None, 2)]).splitlines() == ["A  C", "a  1", "b  2"]


def test_a_table_without_rows_is_its_heads():
    assert table(("A", "B"), []) == "A  B"


def test_control_characters_are_shown_as_what_they_are_not():
    assert table(("NAME",), [("evil\x1b[2J\nname",)]).splitlines() == ["NAME", "evil?[2J?name"]


def test_pairs_line_up_and_say_nothing_of_what_is_not_there():
    assert pairs((("job", "x"), ("exit code", 0), ("reason", ""), ("labels", None))).splitlines() == [
        "job        x",
        "exit code  0",
    ]


@pytest.fixture
def terminal(monkeypatch):
    """Lets standard output be a terminal with this many columns."""

    def of(columns):
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
        monkeypatch.setenv("COLUMNS", str(columns))

    return of


def test_wide_characters_take_two_columns_and_combining_ones_none():
    assert [columns_of(text) for text in ("job", "漢字", "e\u0301", "가a")] == [3, 4, 1, 3]
    assert table(("NAME", "N"), [("漢字", 1), ("abcd", 2)]).splitlines() == ["NAME  N", "漢字  1", "abcd  2"]


def test_a_line_fits_a_narrow_terminal_by_cutting_the_widest_cells_but_the_first(terminal):
    terminal(40)
    job = "01jd3v8k5w2m4x6z8b0c2e4g6h"
    rows = [(job, "n" * 256, "a long note about it"), (job, "漢" * 20, "x")]
    assert table(("JOB", "NAME", "NOTE"), rows).splitlines() == [
        "JOB                         NAME      NOTE",
        f"{job}  nnnnnnn…  a long …",
        f"{job}  漢漢漢…   x",
    ]


def test_a_table_in_a_file_is_not_cut():
    assert table(("JOB", "NAME", "NOTE"), [("1", "n" * 256, "m" * 300)]).splitlines()[1] == f"  1  {'n' * 256}  {'m' * 300}"
