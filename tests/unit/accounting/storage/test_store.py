from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from headrace.accounting.books.books import Books
from headrace.accounting.books.meter import LeaseUse
from headrace.accounting.books.meters import Gap, MeterKey
from headrace.accounting.books.rows import NodeRow, Position, RowChanges
from headrace.accounting.storage import store
from headrace.accounting.storage.sql_statements import statements
from headrace.domain.fold.ledger import FoldedLedger

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

BEFORE, AFTER = Position(3, "aa", 10), Position(5, "bb", 20)
NAMES = {text: name for name, text in statements("write").items()}


class Connection:
    """Notes what is written; the position stands at `there`."""

    def __init__(self, there: Position) -> None:
        self.there = there
        self.written: dict[str, tuple[Any, ...]] = {}
        self.open = 0

    @asynccontextmanager
    async def transaction(self, **_: Any) -> AsyncIterator[None]:
        self.open += 1
        yield
        self.open -= 1

    async def execute(self, sql: str, *arguments: Any) -> str:
        assert self.open == 1
        self.written[NAMES[sql]] = arguments
        return "UPDATE 1" if self.there == BEFORE else "UPDATE 0"

    async def fetchrow(self, _sql: str) -> Position:
        return self.there


def changes() -> RowChanges:
    node = NodeRow("n1", "hq", "ready", "", {}, "H100", 8, 1, 2, 3)
    use = {(4_000, "gpu", 10): LeaseUse(20, 1, 2), (4_000, "gpu", 15): None, (4_001, "gpu", 12): LeaseUse(None, 3, 0)}
    return RowChanges(BEFORE, AFTER, usage=use, nodes=[node])


async def test_everything_is_written_with_the_position_column_by_column() -> None:
    connection = Connection(BEFORE)
    await store.write(connection, changes())
    assert connection.written == {
        "advance": (5, "bb", 20, 3, "aa"),
        "nodes": (["n1"], ["hq"], ["ready"], [""], [{}], ["H100"], [8], [1], [2], [3]),
        "usage_gone": ([4_000], ["gpu"], [15]),
        "usage": ([4_000, 4_001], ["gpu", "gpu"], [10, 12], [20, None], [1, 3], [2, 0]),
    }


async def test_nothing_is_read_from_books_that_have_moved_meanwhile() -> None:
    """A commit of an instance that ended a moment ago comes late: what stands there now is not what was folded."""
    connection, books = Connection(AFTER), Books(FoldedLedger().state)
    with pytest.raises(store.PositionMoved, match="the books stand at 5, not at 3"):
        await store.load(connection, books, BEFORE, 0)
    with pytest.raises(store.PositionMoved, match="the books stand at 5, not at 3"):
        await store.close_gap(connection, books, BEFORE, Gap(MeterKey("acme", "rnd", "gpu"), 0))
    assert connection.written == {}


async def test_how_much_there_is_is_told_of_what_is_asked_for_together() -> None:
    executed: list[str] = []

    async def execute(sql: str) -> None:
        executed.append(sql)

    await store.survey(SimpleNamespace(execute=execute))  # type: ignore[arg-type]
    asked = ["jobs", "attempts", "leases", "usage", "suspensions", "unserved", "kept", "hours", "node_hours", "days"]
    assert executed == [f"ANALYZE {', '.join('headrace.' + table for table in asked)}"]


async def test_what_has_been_written_already_is_not_written_again() -> None:
    connection = Connection(AFTER)
    await store.write(connection, changes())
    assert set(connection.written) == {"advance"}


async def test_books_of_another_writer_are_left_alone() -> None:
    connection = Connection(Position(4, "cc", 15))
    with pytest.raises(store.PositionMoved, match="the books stand at 4, not at 3"):
        await store.write(connection, changes())
    assert set(connection.written) == {"advance"}
