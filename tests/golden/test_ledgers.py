"""Whole ledgers of earlier releases are read as they were: the same state, the same books, and decisions that are not made again.

Each file holds the records that a release wrote, and what that release made of them: the jobs and the use of each pool at the end, and the
lines of the books in unit-microseconds. The files are never edited: they stand for the ledgers of installations that were upgraded.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headrace.accounting.books.aggregate import lines
from headrace.accounting.books.costs import PriceList
from headrace.audit.findings import AuditFindings
from headrace.audit.verify_chains import head_of
from headrace.audit.verify_decisions import JUDGED, Decisions
from headrace.bus.log import Message
from headrace.contracts.transport.codec import Malformed, decode_record
from headrace.contracts.values.durations import DAY
from headrace.service.engine_version import ENGINE
from tests.properties.kept_books import FIELDS, entries, kept

FOLDER = Path(__file__).parent / "ledgers"
FILES = sorted(FOLDER.glob("*/*.json"))
SETTLED_EVERY = 13
"""Records between two settlements of the books; what they say does not depend on it."""


def read(path):
    golden = json.loads(path.read_text("utf-8"))
    messages = [
        Message(sequence, subject, stamped, payload.encode())
        for sequence, (subject, stamped, payload) in enumerate(golden["records"], start=1)
    ]
    return golden, messages


def written(place, line):
    """A line of the books as it stands in a file: exact sums of money as text, and no zeros."""
    sums = {name: value for name in line.__dataclass_fields__ if (value := getattr(line, name))}
    money = {name: str(sums[name]) for name in ("cost", "lost_cost") if name in sums}
    return {"period": place.period, "names": list(place.names), "key": place.key} | sums | money


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_a_ledger_of_an_earlier_release_gives_its_state_and_its_books(path):
    golden, messages = read(path)

    tables, ledger = kept(messages, SETTLED_EVERY, frozenset())
    days = range(golden["first"] // DAY, golden["now"] // DAY + 1)
    bounds = [*(day * DAY for day in days), golden["now"]]
    prices = PriceList(tables.tariffs, tables.prices)
    found = lines(entries(tables, prices, days, golden["now"]), prices, tables.reservations, FIELDS, bounds)

    assert {key: job.state for key, job in sorted(ledger.state.jobs.items())} == golden["jobs"]
    assert {
        name: {key: amount for key, amount in pool.use.items() if amount} for name, pool in ledger.state.pools.items()
    } == golden["used"]
    assert [written(place, line) for place, line in sorted(found.items(), key=str)] == golden["books"]
    assert not ledger.state.terms.amended


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_decisions_of_an_earlier_release_are_counted_as_its_own_and_not_made_again(path):
    _, messages = read(path)
    engine, findings = f"headrace/{path.parent.name}", AuditFindings()
    decisions = Decisions(ENGINE, findings)

    for message in messages:
        decisions.take(message, head_of(message.payload))
    decisions.finish()

    assert engine != ENGINE
    assert (decisions.broken, findings.kept, decisions.recomputed) == ("", [], 0)
    assert decisions.others == {engine: sum(by in JUDGED for by in map(writer, messages))}


def writer(message):
    try:
        return decode_record(message.payload).by
    except Malformed:
        return ""
