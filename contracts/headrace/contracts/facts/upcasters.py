"""Conversion of old versions of facts to the current one, so that a fold handles one version of each.

An upcaster takes a fact of version n and returns the same fact in version n + 1; it is registered here under the old type
and stays for ever, with the golden file of the version it reads. All facts have one version so far, so the table is empty.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.records import Record

UPCASTERS: dict[type[AnyFact], Callable[[AnyFact], AnyFact]] = {}


def upcast(record: Record) -> Record:
    """`record` with every fact in its current version; the same object if all are current."""
    if not UPCASTERS or not any(type(fact) in UPCASTERS for fact in record.facts):
        return record
    return Record(
        by=record.by,
        now=record.now,
        engine=record.engine,
        as_of=record.as_of,
        prev=record.prev,
        cause=record.cause,
        trace=record.trace,
        facts=tuple(map(current, record.facts)),
    )


def current(fact: AnyFact) -> AnyFact:
    """The fact in its current version; the same object if it is current."""
    while (upcaster := UPCASTERS.get(type(fact))) is not None:
        fact = upcaster(fact)
    return fact
