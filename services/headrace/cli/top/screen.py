"""The terminal view, in Textual: totals, pools, every GPU as half a cell, queues, and what happens.

It draws at most four times a second, and of that only what changed. What happens without an end, such as 40 events a second on 8,000 GPUs,
is drawn less often, down to once a second, so that it takes a fifteenth of a core. What the user asks for is drawn at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, ClassVar

import msgspec
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Input, Static

from headrace.cli.top.answers import Loads, Overview, decode_change, decode_overview
from headrace.cli.top.lines import Gpus, Log, Piece, Table
from headrace.cli.top.overview import EventRow, Picture, Pictures, QueueRow, events_of, picture_of
from headrace.client import HeadraceError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.client import Client

DRAW_EVERY = 0.25
REST, REST_MAX = 14, 1.0
"""Seconds between two draws for each second of CPU time since the last one, and at most."""
RETRY_AFTER = 1.0
EVENTS_KEPT = 500
_CONTROLS = dict.fromkeys((*range(32), 127), " ")


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
    #strip { height: auto; max-height: 60%; padding: 1; scrollbar-size-vertical: 0; }
    #left { width: 3fr; }
    #happens { width: 2fr; border-left: solid $panel; padding: 0 1; background: $surface; }
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
        self._is_asked = True
        """Whether the user waits for the next draw."""
        self._drawn_at = self._spent = 0.0
        """When the last draw began (monotonic), and the CPU time until then, in seconds."""
        self._pictures = Pictures()
        self._overview: Overview | None = None
        self._loads: Loads | None = None
        self._is_newer = False
        """Whether the picture is older than the overview and the loads."""

    def compose(self) -> ComposeResult:
        yield Static(id="totals", markup=False)
        with Horizontal():
            with Vertical(id="left"):
                yield Table("pools", "pool", "used", "free", "kept", "unusable", "GPUs")
                yield Gpus("strip")
                yield Table("queues", "queue", "running", "waiting", "policy uses", "reserved", "borrowed", "limit")
                yield Table("idle", "held and idle for ten minutes", "user", "queue", "GPUs", "nodes")
            with Vertical(id="happens"):
                yield Log("events", EVENTS_KEPT)
        yield Input(id="ask")
        yield Footer()

    @property
    def _base(self) -> Screen[None]:
        """The view itself, also while an answer stands over it."""
        base: Screen[None] = self.screen_stack[0]
        return base

    def on_mount(self) -> None:
        self.set_interval(DRAW_EVERY, self._draw)
        self.run_worker(self._watch(), exclusive=False)

    async def _watch(self) -> None:
        since = 0
        while True:
            try:
                async with aclosing(self._hr.watch_overview_json(since)) as changes:
                    async for answer in changes:
                        change = decode_change(answer)
                        since = int(change.sequence) or since
                        self._fresh += events_of(change)
                        self._overview = change.overview or self._overview
                        self._loads = change.loads or self._loads
                        self._is_newer = self._is_newer or change.overview is not None or change.loads is not None
                        self._trouble, self._dirty = "", True
                self._trouble = "the connection ended; connecting again"
            except HeadraceError as error:
                self._trouble = str(error)
            self._dirty = True
            await asyncio.sleep(RETRY_AFTER)

    def _draw(self) -> None:
        now, spent = time.monotonic(), time.process_time()
        rests = now - self._drawn_at < min(REST_MAX, REST * (spent - self._spent))
        if not self._dirty or (rests and not self._is_asked):
            return
        self._dirty, self._is_asked, self._drawn_at, self._spent = False, False, now, spent
        if self._is_newer and self._overview is not None and self._past is None:
            self._live, self._is_newer = self._pictures.of(self._overview, self._loads), False
        shown = self._past or self._live
        totals = _totals(shown, self._trouble, past=self._past is not None)
        self._base.query_one("#totals", Static).update(totals, layout=False)
        self.set_class(self._past is not None, "past")
        fresh, self._fresh = self._fresh, []
        self._events.extend(fresh)
        self._base.query_one("#events", Log).write(self._paragraphs(fresh))
        if shown is None:
            return
        queues = [row for row in shown.queues if self._passes(row.queue, row.tenant)]
        self._table("pools").fill(shown.pools)
        self._table("queues").fill([_queue_cells(row) for row in queues], [row.colour for row in queues])
        self._table("idle").fill(shown.idle)
        self._table("idle").display = bool(shown.idle)
        nodes = [node for node in shown.nodes if self._passes(node.name, node.state)] if self._words else shown.nodes
        self._base.query_one("#strip", Gpus).fill(nodes)

    def _table(self, name: str) -> Table:
        return self._base.query_one(f"#{name}", Table)

    def _paragraphs(self, events: Iterable[EventRow]) -> list[tuple[Piece, ...]]:
        return [_paragraph(event) for event in events if self._passes(event.text, event.about)]

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
        self._dirty = self._is_asked = True

    def _redraw_events(self) -> None:
        log = self._base.query_one("#events", Log)
        log.clear()
        log.write(self._paragraphs(self._events))

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
        if self._overview is not None and not self._base.query_one("#ask", Input).display:
            self._go((self._wanted or self._tip) + by)

    def action_live(self) -> None:
        self._go(0)

    def _go(self, sequence: int) -> None:
        """Show the installation after a record; 0, or the newest one: live. Of requests that come fast the last one counts."""
        self._wanted = 0 if not sequence or sequence >= self._tip else max(1, sequence)
        if self._wanted:
            self.run_worker(self._show(self._wanted), exclusive=True, group="past")
        else:
            self._past, self._dirty, self._is_asked = None, True, True

    @property
    def _tip(self) -> int:
        """Number of the newest record that is known."""
        return int(self._overview.sequence) if self._overview is not None else 0

    async def _show(self, sequence: int) -> None:
        found, trouble = self._past, ""
        try:
            found = picture_of(decode_overview(msgspec.json.encode(await self._hr.overview(sequence))))
        except HeadraceError as error:
            trouble = str(error)
        if self._wanted == sequence:
            self._past, self._trouble, self._dirty, self._is_asked = found, trouble, True, True


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


def _queue_cells(row: QueueRow) -> tuple[str, ...]:
    name = f"{row.tenant} {row.queue}" if row.tenant != "default" else row.queue
    return name, str(row.running), str(row.waiting), row.used, row.reserved, row.borrowed, row.limit


def _paragraph(event: EventRow) -> tuple[Piece, ...]:
    time = f"{event.time} "
    text = f"{time}{event.text}".expandtabs().translate(_CONTROLS)[len(time) :]
    return (time, "dim"), (text, ""), (f"  {event.rule}" if event.rule else "", "cyan"), (f"  {event.about}", "dim")
