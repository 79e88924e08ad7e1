from __future__ import annotations

import io
import sys

import pytest

from headrace.cli.output.terminal import made_visible, progress, visible


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("loss 0.5\n\tdone: ä 漢\n", "loss 0.5\n\tdone: ä 漢\n"),
        ("\x1b]0;owned\x07", "^[]0;owned^G"),
        ("\x1b[2J\x1b[31mred", "^[[2J^[[31mred"),
        ("10 %\r20 %\r\n", "10 %\n20 %\n"),
        ("a\x00b\x7fc\x9bd", "a^@b^?c\\x9bd"),
        ("invoice\u202efdp.exe", "invoice\\u202efdp.exe"),
    ],
)
def test_what_a_terminal_would_obey_is_made_visible(text, shown):
    assert visible(text) == shown


def test_terminals_are_shown_control_characters_and_pipes_get_every_byte(monkeypatch):
    out, err = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with made_visible():
        print("\x1b[31mred")
        print("\x1b[31mred", file=sys.stderr)
    print("\x1b[0m")
    assert (out.getvalue(), err.getvalue()) == ("^[[31mred\n\x1b[0m\n", "\x1b[31mred\n")


def test_raw_leaves_a_terminal_as_it_is(monkeypatch):
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    with made_visible(raw=True):
        print("\x1b[31mred")
    assert out.getvalue() == "\x1b[31mred\n"


def test_progress_stays_on_one_line_of_a_terminal_and_is_cleared(monkeypatch):
    err = Terminal()
    monkeypatch.setattr(sys, "stderr", err)
    with made_visible():
        progress("record 5 of 9")
        progress("")
    assert err.getvalue() == "\rrecord 5 of 9\033[K\r\r\033[K\r"
