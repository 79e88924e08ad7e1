"""The terminal view, in Textual: totals, pools, every GPU as half a cell, queues, and what happens.

It draws at most four times a second, and of that only what changed, so that it takes little of a core however much happens.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import aclosing
from itertools import groupby, zip_longest
from typing import TYPE_CHECKING, Any, ClassVar

from rich.console import Group
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import DataTable, Footer, Input, RichLog, Static

from headrace.cli.top.overview import EventRow, NodeCells, Picture, QueueRow, events_of, picture_of
from headrace.client import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.client import Client

DRAW_EVERY = 0.25
RETRY_AFTER = 1.0
EVENTS_KEPT = 500
NAME_WIDTH = 12


class Answered(ModalScreen[None]):
    """A text over the view, until a key is pressed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,enter,q,w", "dismiss", "close")]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static(self._text, id="answer", markup=False)


class Top(App[None]):
    """The view of one installation. `hr`: a client whose connection is open."""

    TITLE = "headrace top"
    AUTO_FOCUS = None  # keys are commands until something is asked
    CSS = """
    #totals { height: 1; padding: 0 1; background: $panel; }
    #pools, #queues { height: auto; max-height: 12; }
    #idle { height: auto; max-height: 8; display: none; }
    #strip { height: auto; max-height: 60%; padding: 1; overflow-y: auto; }
    #left { width: 3fr; }
    #events { width: 2fr; border-left: solid $panel; padding: 0 1; }
    #ask { dock: bottom; display: none; }
    #answer { width: 80%; height: auto; max-height: 80%; padding: 1 2; background: $surface; border: round $primary; }
    Answered { align: center middle; }
    .past #totals { background: $warning; color: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "quit"),
        Binding("w", "why", "why does a job wait"),
        Binding("slash", "filter", "filter"),
        Binding("left", "step(-1)", "earlier", priority=True),
        Binding("right", "step(1)", "later", priority=True),
        Binding("t", "at", "go to a record"),
        Binding("l", "live", "live"),
    ]

    def __init__(self, hr: Client) -> None:
        super().__init__()
        self._hr = hr
        self._live: Picture | None = None
        self._past: Picture | None = None
        self._trouble = "connecting"
        self._events: deque[EventRow] = deque(maxlen=EVENTS_KEPT)
        self._fresh: list[EventRow] = []
        self._wanted = 0
        self._words = ""
        self._asked = ""
        self._dirty = True
        self._drawn: dict[str, object] = {}

    def compose(self) -> ComposeResult:
        yield Static(id="totals", markup=False)
        with Horizontal():
            with Vertical(id="left"):
                yield DataTable(id="pools", cursor_type="none")
                yield Static(id="strip")
                yield DataTable(id="queues", cursor_type="none")
                yield DataTable(id="idle", cursor_type="none")
            yield RichLog(id="events", wrap=True, min_width=20, max_lines=EVENTS_KEPT)
        yield Input(id="ask")
        yield Footer()

    @property
    def _base(self) -> Screen[None]:
        """The view itself, also while an answer stands over it."""
        base: Screen[None] = self.screen_stack[0]
        return base

    def on_mount(self) -> None:
        self._base.query_one("#pools", DataTable).add_columns("pool", "used", "free", "kept", "unusable", "GPUs")
        columns = ("queue", "running", "waiting", "policy uses", "reserved", "borrowed", "limit")
        self._base.query_one("#queues", DataTable).add_columns(*columns)
        self._base.query_one("#idle", DataTable).add_columns("held and idle for ten minutes", "user", "queue", "GPUs", "nodes")
        self.set_interval(DRAW_EVERY, self._draw)
        self.run_worker(self._watch(), exclusive=False)

    async def _watch(self) -> None:
        since = 0
        overview: Mapping[str, Any] = {}
        loads: Mapping[str, Any] = {}
        while True:
            try:
                async with aclosing(self._hr.watch_overview(since)) as changes:  # type: ignore[type-var]
                    async for change in changes:
                        since = int(change.get("sequence", since))
                        self._fresh += events_of(change)
                        if "overview" in change:
                            overview = change["overview"]
                        loads = change.get("loads", loads)
                        if "overview" in change or "loads" in change:
                            self._live = picture_of(overview, loads if _fits(loads, overview) else None)
                        self._trouble, self._dirty = "", True
                self._trouble = "the connection ended; connecting again"
            except HeadraceError as error:
                self._trouble = str(error)
            self._dirty = True
            await asyncio.sleep(RETRY_AFTER)

    def _draw(self) -> None:
        if not self._dirty:
            return
        self._dirty = False
        shown = self._past or self._live
        self._base.query_one("#totals", Static).update(_totals(shown, self._trouble, past=self._past is not None))
        self.set_class(self._past is not None, "past")
        log = self._base.query_one("#events", RichLog)
        for event in self._fresh:
            self._events.append(event)
            if self._passes(event.text, event.about):
                log.write(_line(event))
        self._fresh = []
        if shown is None:
            return
        queues = [row for row in shown.queues if self._passes(row.queue, row.tenant)]
        self._fill("pools", shown.pools, [*shown.pools])
        self._fill("queues", queues, [_queue_cells(row) for row in queues])
        self._fill("idle", shown.idle, [*shown.idle])
        self._base.query_one("#idle", DataTable).display = bool(shown.idle)
        strip = self._base.query_one("#strip", Static)
        nodes, width = [node for node in shown.nodes if self._passes(node.name, node.state)], max(20, strip.size.width - 2)
        if self._is_new("strip", (nodes, width)):
            strip.update(cells(nodes, width))

    def _fill(self, table: str, rows: object, drawn: Sequence[Sequence[object]]) -> None:
        """Draw the rows of a table, if they are others than those that it shows."""
        if self._is_new(table, rows):
            found = self._base.query_one(f"#{table}", DataTable)
            found.clear()
            found.add_rows(drawn)

    def _is_new(self, part: str, what: object) -> bool:
        """Note what a part shows from now on; False if it shows that already."""
        if self._drawn.get(part) == what:
            return False
        self._drawn[part] = what
        return True

    def _passes(self, *texts: str) -> bool:
        return not self._words or any(self._words in text for text in texts)

    def action_filter(self) -> None:
        self._ask("filter", "show queues, nodes and events that contain this; empty: all")

    def action_why(self) -> None:
        self._ask("why", "id of a job")

    def action_at(self) -> None:
        self._ask("at", "number of a record")

    def _ask(self, what: str, hint: str) -> None:
        asking = self._base.query_one("#ask", Input)
        self._asked, asking.placeholder, asking.value, asking.display = what, hint, "", True
        asking.focus()

    async def on_input_submitted(self, submitted: Input.Submitted) -> None:
        submitted.input.display = False
        self.set_focus(None)
        text = submitted.value.strip()
        if self._asked == "filter":
            self._words = text
            self._redraw_events()
        elif self._asked == "at" and text.isdecimal():
            self._go(int(text))
        elif self._asked == "why" and text:
            self.run_worker(self._why(text), exclusive=True, group="why")
        self._dirty = True

    def _redraw_events(self) -> None:
        log = self._base.query_one("#events", RichLog)
        log.clear()
        for event in self._events:
            if self._passes(event.text, event.about):
                log.write(_line(event))

    async def _why(self, job: str) -> None:
        try:
            view = await self._hr.why(job, sequence=self._past.sequence if self._past else 0)
            lines = [f"{view.state}: {view.message or 'it does not wait'}", *view.blockers]
            lines += [f"{need.pool}: {need.message}" for need in view.pools if need.message]
            text = "\n".join(lines)
        except HeadraceError as error:
            text = str(error)
        self.push_screen(Answered(text))

    def action_step(self, by: int) -> None:
        if self._live is not None and not self._base.query_one("#ask", Input).display:
            self._go((self._wanted or self._live.sequence) + by)

    def action_live(self) -> None:
        self._go(0)

    def _go(self, sequence: int) -> None:
        """Show the installation after a record; 0, or the newest one: live. Of requests that come fast the last one counts."""
        tip = self._live.sequence if self._live is not None else 0
        self._wanted = 0 if not sequence or sequence >= tip else max(1, sequence)
        if self._wanted:
            self.run_worker(self._show(self._wanted), exclusive=True, group="past")
        else:
            self._past, self._dirty = None, True

    async def _show(self, sequence: int) -> None:
        found, trouble = self._past, ""
        try:
            found = picture_of(await self._hr.overview(sequence))
        except HeadraceError as error:
            trouble = str(error)
        if self._wanted == sequence:
            self._past, self._trouble, self._dirty = found, trouble, True


def _totals(shown: Picture | None, trouble: str, *, past: bool) -> str:
    if shown is None:
        return trouble
    when = f"as of record {shown.sequence}, {shown.time[:19].replace('T', ' ')}" if past else f"live, record {shown.sequence}"
    away = sum(node.state != "ready" for node in shown.nodes)
    nodes = f"{len(shown.nodes)} nodes, {away} not ready"
    if shown.idle_nodes:
        nodes += f", {shown.idle_nodes} without work"
    parts = [when, f"{shown.running} running", f"{shown.waiting} waiting", nodes]
    if shown.idle_gpus:
        parts.append(f"{shown.idle_gpus} {'GPU' if shown.idle_gpus == 1 else 'GPUs'} held and idle")
    return "   ".join([*parts, trouble] if trouble else parts)


def _fits(loads: Mapping[str, Any], overview: Mapping[str, Any]) -> bool:
    """Whether loads are those of an overview's devices."""
    return len(loads.get("idle", ())) == len(overview.get("devices", {}).get("node", ()))


def _queue_cells(row: QueueRow) -> tuple[object, ...]:
    name = Text(f"{row.tenant} {row.queue}" if row.tenant != "default" else row.queue, style=row.colour)
    return name, row.running, row.waiting, row.used, row.reserved, row.borrowed, row.limit


def _line(event: EventRow) -> Text:
    return Text.assemble(
        (f"{event.time} ", "dim"), event.text, (f"  {event.rule}" if event.rule else "", "cyan"), (f"  {event.about}", "dim")
    )


def cells(nodes: list[NodeCells], width: int) -> Group:
    """Every GPU as half a character: two rows of GPUs in one line; the name of each node stands before its own."""
    lines: list[Text] = []
    line, used = Text(), 0
    for node in nodes:
        columns = (len(node.colours) + 1) // 2
        wide = NAME_WIDTH + columns + 2
        if used and used + wide > width:
            lines.append(line)
            line, used = Text(), 0
        line.append(f"{node.name[-NAME_WIDTH + 1 :]:<{NAME_WIDTH}}", "dim" if node.state == "ready" else "yellow")
        pairs = zip_longest(node.colours[:columns], node.colours[columns:])
        for (upper, lower), alike in groupby(pairs):
            line.append("▀" * len(list(alike)), f"{upper} on {lower}" if lower else upper or "")
        line.append("  ")
        used += wide
    return Group(*lines, line)
