"""Columns line up, numbers to the right; what others have written cannot move the cursor."""

from __future__ import annotations

from headrace.cli.output.tables import pairs, table


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
