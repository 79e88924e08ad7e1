"""The widgets of lines: how they are made, and that only what changed is drawn again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text
from textual.app import App, ComposeResult

from headrace.cli.top.lines import Gpus, Lines, Log, Table, gpu_line, line_begins, line_of, wrapped
from headrace.cli.top.overview import COLOURS, NodeCells

RED, BLUE = COLOURS[5], COLOURS[0]


def test_two_gpus_share_a_character_and_nodes_that_do_not_fit_go_to_the_next_line() -> None:
    nodes = [NodeCells(f"node-{number}", "ready", (BLUE,) * 8) for number in range(3)]
    assert line_begins(40, [len(node.colours) for node in nodes]) == [0, 2]
    assert gpu_line(nodes[:2]).text == "node-0      ▀▀▀▀  node-1      ▀▀▀▀  "


def test_the_first_half_of_the_gpus_stands_above_the_second() -> None:
    line = gpu_line([NodeCells("n1", "lost", (BLUE, BLUE, RED, RED, BLUE))])
    assert [(text, str(style)) for text, style, _ in line] == [
        ("n1          ", "yellow"),
        ("▀", f"{BLUE} on {RED}"),
        ("▀", f"{BLUE} on {BLUE}"),
        ("▀", RED),
        ("  ", "none"),
    ]


@given(st.text(st.sampled_from("ab c-é日本 "), max_size=60), st.integers(4, 20))
def test_paragraphs_are_wrapped_as_rich_wraps_them(text: str, width: int) -> None:
    if not text.strip():
        return
    expected = [str(line).rstrip() for line in Text(text).wrap(Console(), width)]
    assert [line.text.rstrip() for line in wrapped([(text[:7], "dim"), (text[7:], "")], width)] == expected


def test_a_piece_keeps_its_style_on_each_line() -> None:
    lines = wrapped([("14:02 ", "dim"), ("one two three", ""), ("  R15", "cyan")], 10)
    assert [[(text, str(style)) for text, style, _ in line] for line in lines] == [
        [("14:02 ", "dim"), ("one ", "none")],
        [("two three", "none"), ("  ", "cyan")],
        [("R15", "cyan")],
    ]


class Noted(Lines):
    """Lines that note which of them are to be drawn again."""

    def __init__(self) -> None:
        super().__init__("lines")
        self.again: list[int] = []

    def refresh_line(self, y: int) -> None:
        self.again.append(y)
        super().refresh_line(y)


class Case(App[None]):
    """One widget, as large as the terminal."""

    CSS = "Lines { height: 1fr; scrollbar-size: 0 0; }"

    def __init__(self, widget: Lines) -> None:
        super().__init__()
        self.widget = widget

    def compose(self) -> ComposeResult:
        yield self.widget


def text_of(widget: Lines) -> list[str]:
    """What is seen of it."""
    return [strip.text.rstrip() for strip in widget.render_lines(widget.size.region)]


async def test_only_lines_that_changed_and_are_seen_are_drawn_again() -> None:
    widget = Noted()
    async with Case(widget).run_test(size=(20, 6)) as pilot:
        lines = [line_of([(str(number), "")]) for number in range(8)]
        widget.show(lines)
        await pilot.pause()
        widget.again.clear()
        changed = [*lines[:3], line_of([("other", "")]), *lines[4:7], line_of([("below", "")])]
        widget.show(changed)
        await pilot.pause()
        assert (widget.again, text_of(widget)) == ([3], ["0", "1", "2", "other", "4", "5"])
        widget.show([*changed])
        assert widget.again == [3]


@pytest.mark.parametrize("padding", [0, 1])
async def test_a_line_is_the_same_object_after_it_has_scrolled_unless_something_surrounds_it(padding: int) -> None:
    widget = Noted()
    widget.styles.padding = padding
    async with Case(widget).run_test(size=(20, 6)) as pilot:
        lines = [line_of([(str(number), "")]) for number in range(8)]
        widget.show(lines)
        await pilot.pause()
        before = widget.render_lines(widget.size.region)[2]
        widget.show(lines[1:])
        await pilot.pause()
        after = widget.render_lines(widget.size.region)[1]
        assert (after.text, after is before) == (before.text, not padding)


async def test_columns_are_as_wide_as_their_widest_cell_ever_was_and_labels_stay_above() -> None:
    table = Table("rows", "name", "n")
    async with Case(table).run_test(size=(20, 4)) as pilot:
        table.fill([("a long name", "1"), ("b", "2"), ("c", "3"), ("d", "4"), ("e", "5")])
        await pilot.pause()
        assert text_of(table) == [" name         n", " a long name  1", " b            2", " c            3"]
        table.scroll_to(y=2, animate=False)
        await pilot.pause()
        table.fill([("a", "1"), ("b", "2"), ("c", "3"), ("日本", "4"), ("e", "5")], [RED] * 5)
        await pilot.pause()
        assert text_of(table) == [" name         n", " c            3", " 日本         4", " e            5"]
        table.fill([])
        await pilot.pause()
        assert text_of(table)[:2] == [" name         n", ""]


async def test_a_log_shows_its_end_keeps_its_last_lines_and_is_wrapped_again_for_another_width() -> None:
    log = Log("log", 5)
    async with Case(log).run_test(size=(12, 3)) as pilot:
        log.write([(("one two three", ""),), (("four", ""),)])
        await pilot.pause()
        assert text_of(log) == ["one two", "three", "four"]
        log.write([((str(number), ""),) for number in range(4)])
        await pilot.pause()
        assert text_of(log) == ["1", "2", "3"]
        assert log.virtual_size.height == 5
        await pilot.resize_terminal(22, 6)
        await pilot.pause()
        assert text_of(log)[:5] == ["four", "0", "1", "2", "3"]
        log.clear()
        await pilot.pause()
        assert text_of(log) == [""] * 6


async def test_gpus_are_laid_out_again_for_another_width() -> None:
    gpus = Gpus("gpus")
    async with Case(gpus).run_test(size=(40, 6)) as pilot:
        gpus.fill([NodeCells(f"node-{number}", "ready", (BLUE,) * 8) for number in range(3)])
        await pilot.pause()
        assert text_of(gpus)[:2] == ["node-0      ▀▀▀▀  node-1      ▀▀▀▀", "node-2      ▀▀▀▀"]
        await pilot.resize_terminal(22, 6)
        await pilot.pause()
        assert text_of(gpus)[:3] == ["node-0      ▀▀▀▀", "node-1      ▀▀▀▀", "node-2      ▀▀▀▀"]
