"""The books of a run beside those of a program that only adds up: two independent accounts of the same ledger have to agree (R37)."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.accounting.books.aggregate import lines
from headrace.accounting.books.costs import PriceList
from headrace.bus.log import Message
from headrace.contracts.values.durations import DAY
from tests.properties.bookkeeper import Bookkeeper
from tests.properties.kept_books import FIELDS, differences, entries, kept

BUNDLE = 13
"""Records between two settlements; what the books say does not depend on it."""


def disagreement(messages: Sequence[Message], void: set[int]) -> str:
    """What the two do not agree about; empty where they do. `void`: sequences of records that count for nothing."""
    keeper = Bookkeeper().read_all(message for message in messages if message.sequence not in void)
    tables, _ = kept(messages, BUNDLE, frozenset({messages[len(messages) // 2].sequence}))
    days = range(keeper.first // DAY, keeper.now // DAY + 1)
    bounds = [*(day * DAY for day in days), keeper.now]
    prices = PriceList(tables.tariffs, tables.prices)
    found = lines(entries(tables, prices, days, keeper.now), prices, tables.reservations, FIELDS, bounds)
    differing = differences(found, keeper.account(bounds, FIELDS))
    return "; ".join(f"{place}: {ours} and {theirs}" for place, (ours, theirs) in sorted(differing.items(), key=str)[:3])
