"""Widgets of prebuilt lines: only those that changed and can be seen are drawn again, and nothing is measured whose width is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby, pairwise, zip_longest
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.events import Resize
    from textual.geometry import Region

    from headrace.cli.top.overview import NodeCells

NAME_WIDTH = 12

Piece = tuple[str, str]
"""A text and its style, as Rich writes styles."""

_WORD = re.compile(r"\s*\S+\s*")
styled = lru_cache(4096)(Style.parse)
"""The style of a text such as `#4c9aff on #3a404c`."""
_blank = lru_cache(256)(Strip.blank)


def line_of(pieces: Iterable[Piece]) -> Strip:
    """One line that consists of these pieces."""
    return Strip([Segment(text, styled(style)) for text, style in pieces if text])


class Lines(ScrollView):
    """Lines, which may be scrolled."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    Lines { height: auto; }
    """

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._lines: Sequence[Strip] = ()
        self._style = Style.null()

    def show(self, lines: Sequence[Strip], width: int = 0) -> None:
        """Show other lines; `width`: of the longest in cells, if it may be scrolled sideways."""
        before, self._lines = self._lines, lines
        above = self._above
        size = Size(width, len(lines) + above)
        if size != self.virtual_size:
            self.virtual_size = size
        top = round(self.scroll_y)
        until = top + self.size.height - above
        for number, (old, new) in enumerate(zip_longest(before[top:until], lines[top:until]), top):
            if old is not new:
                self.refresh_line(number + above)

    @property
    def _above(self) -> int:
        """Lines that stand above the others and do not scroll."""
        return 0

    def render_lines(self, crop: Region) -> list[Strip]:
        """Textual's way, unless nothing surrounds the lines: then each is styled once, and is the same object after it has scrolled."""
        self._style = self.rich_style
        if self.styles.gutter:
            return super().render_lines(crop)
        strips = [self.render_line(y) for y in crop.line_range]
        background = self.background_colors[1]
        for one in self.get_line_filters():
            strips = [strip.apply_filter(one, background) for strip in strips]
        start, end = crop.column_span
        return strips if (start, end) == (0, self.size.width) else [strip.crop(start, end) for strip in strips]

    def render_line(self, y: int) -> Strip:
        scroll_x, scroll_y = self.scroll_offset
        at, width = y + scroll_y - self._above, self.size.width
        if at >= len(self._lines):
            return _blank(width, self._style)
        return self._lines[at].crop_extend(scroll_x, scroll_x + width, self._style).apply_style(self._style)


class Table(Lines):
    """Rows below a line of labels. A column is as wide as its widest cell ever was."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--header"}
    DEFAULT_CSS = """
    Table { background: $surface; color: $foreground; }
    Table > .table--header { text-style: bold; background: $panel; color: $foreground; }
    """

    def __init__(self, id: str, *labels: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id)
        self._labels = labels
        self._widths = [len(label) for label in labels]
        self.rows: Sequence[tuple[str, ...]] = ()
        self._first_styles: Sequence[str] = ()

    def fill(self, rows: Sequence[tuple[str, ...]], styles: Sequence[str] = ()) -> None:
        """Show these rows below the labels; `styles`: of the first cell of each, if it is not that of the others."""
        before, styles_before = self.rows, self._first_styles
        if before == rows and styles_before == styles:
            return
        self.rows, self._first_styles = rows, styles
        widths = [max(map(cell_len, cells)) for cells in zip(self._labels, *rows, strict=True)]
        widths = [max(width, before) for width, before in zip(widths, self._widths, strict=True)]
        are_wider, self._widths = widths != self._widths, widths
        lines: list[Strip] = []
        for number, (cells, style) in enumerate(zip_longest(rows, styles, fillvalue="")):
            is_known = not are_wider and number < len(before) and before[number] == cells
            if is_known and (styles_before[number] if styles_before else "") == style:
                lines.append(self._lines[number])
            else:
                lines.append(self._row(cells, style))
        if are_wider:
            self.refresh()
        self.show(lines, sum(self._widths) + 2 * len(self._widths))

    def _row(self, cells: Sequence[str], style: str = "") -> Strip:
        padded = [f" {cell}{' ' * (width - cell_len(cell))} " for cell, width in zip(cells, self._widths, strict=True)]
        return line_of([(padded[0], style), ("".join(padded[1:]), "")])

    @property
    def _above(self) -> int:
        return 1

    def render_line(self, y: int) -> Strip:
        if y:
            return super().render_line(y)
        style = self.get_component_styles("table--header").rich_style
        rest = style
        if style.bgcolor is not None:
            beside = Color.from_rich_color(style.bgcolor).blend(self.background_colors[1], factor=0.25)
            rest = Style.from_color(style.color, beside.rich_color)
        left = round(self.scroll_x)
        return self._row(self._labels).apply_style(style).crop_extend(left, left + self.size.width, rest)


class Gpus(Lines):
    """Every GPU as half a character: two rows of GPUs in one line; the name of each node stands before its own."""

    def __init__(self, id: str) -> None:  # noqa: A002 - Textual's name
        super().__init__(id)
        self._given: Sequence[NodeCells] = ()
        self._shown: list[Sequence[NodeCells]] = []
        self._laid_out: tuple[int, list[int]] = (0, [])
        self._begins: list[int] = []

    def fill(self, nodes: Sequence[NodeCells]) -> None:
        """Show these nodes, in lines as wide as there is room."""
        self._given = nodes
        laid_out = (max(20, self.size.width - 2), [len(node.colours) for node in nodes])
        if laid_out != self._laid_out:
            self._laid_out, self._begins = laid_out, line_begins(*laid_out)
        before, self._shown = self._shown, [nodes[begin:end] for begin, end in pairwise([*self._begins, len(nodes)])]
        pairs = zip_longest(before[: len(self._shown)], self._shown)
        self.show([self._lines[at] if old == new else gpu_line(new) for at, (old, new) in enumerate(pairs)])

    def on_resize(self, _resized: Resize) -> None:
        self.fill(self._given)


class Log(Lines):
    """Paragraphs, wrapped between words; their end is seen."""

    DEFAULT_CSS = """
    Log { background: $surface; color: $foreground; overflow-y: scroll; height: 1fr; }
    """

    def __init__(self, id: str, most: int) -> None:  # noqa: A002 - Textual's name
        super().__init__(id)
        self._most = most
        self._paragraphs: list[tuple[Piece, ...]] = []
        self._width = 0

    def write(self, paragraphs: Iterable[tuple[Piece, ...]]) -> None:
        """Add paragraphs at the end; of all lines the last ones are kept."""
        new = list(paragraphs)
        self._paragraphs = (self._paragraphs + new)[-self._most :]
        if new and self._width:
            self._add(new)

    def clear(self) -> None:
        """Forget all paragraphs and show none."""
        self._paragraphs = []
        self.show([], self._width)

    def on_resize(self, _resized: Resize) -> None:
        width = self.scrollable_content_region.width
        if width != self._width:
            self._width, self._lines = width, ()
            self._add(self._paragraphs)

    def _add(self, paragraphs: Iterable[tuple[Piece, ...]]) -> None:
        lines = [line for paragraph in paragraphs for line in wrapped(paragraph, self._width)]
        self.show([*self._lines, *lines][-self._most :], self._width)
        self.scroll_end(animate=False, x_axis=False)


def line_begins(width: int, gpus: Sequence[int]) -> list[int]:
    """The number of the first node of each line of `width` cells. A line has at least one. `gpus`: of each node."""
    begins, used = [0], 0
    for number, count in enumerate(gpus):
        wide = NAME_WIDTH + (count + 1) // 2 + 2
        if used and used + wide > width:
            begins.append(number)
            used = 0
        used += wide
    return begins


def gpu_line(nodes: Sequence[NodeCells]) -> Strip:
    """One line of GPUs."""
    pieces: list[Piece] = []
    for node in nodes:
        columns = (len(node.colours) + 1) // 2
        name = f"{node.name[-NAME_WIDTH + 1 :]:<{NAME_WIDTH}}"
        pieces.append((name, "dim" if node.state == "ready" else "yellow"))
        pairs = zip_longest(node.colours[:columns], node.colours[columns:])
        for (upper, lower), alike in groupby(pairs):
            pieces.append(("▀" * len(list(alike)), f"{upper} on {lower}" if lower else upper))
        pieces.append(("  ", ""))
    return line_of(pieces)


def wrapped(paragraph: Sequence[Piece], width: int) -> list[Strip]:
    """Lines of at most this many cells, divided between words, and inside those that are longer than a line."""
    text = "".join(text for text, _ in paragraph)
    begins = [0, *_breaks(text, width)]
    return [line_of(_within(paragraph, begin, end)) for begin, end in zip(begins, [*begins[1:], len(text)], strict=True)]


def _within(paragraph: Sequence[Piece], start: int, end: int) -> Iterable[Piece]:
    """The pieces between two places of the text."""
    at = 0
    for text, style in paragraph:
        yield text[max(0, start - at) : max(0, end - at)], style
        at += len(text)


def _breaks(text: str, width: int) -> list[int]:
    """Where lines begin, but for the first one."""
    found: list[int] = []
    used = 0
    cells = len if text.isascii() else cell_len
    for word in _WORD.finditer(text):
        start, whole = word.start(), word.group()
        needed = cells(whole.rstrip())
        if needed <= width - used:
            used += cells(whole)
        elif needed <= width:
            found.append(start)
            used = cells(whole)
        else:
            for part in chop_cells(whole, width):
                if start:
                    found.append(start)
                start += len(part)
                used = cells(part)
    return found
