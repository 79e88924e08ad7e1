"""How much one record can still hold: a maximum of facts and of bytes, counted as they will be written.

What belongs together (a gang, a plan: R2, R26) asks for capacity together, and goes in whole or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from headrace.contracts.facts.records import RECORD_BYTES_MAX, RECORD_FACTS_MAX
from headrace.contracts.transport.codec import encode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headrace.contracts.facts import AnyFact

T = TypeVar("T", bound="AnyFact")

AROUND = 4 * 1024
"""Bytes of a record besides its facts: author, time, digest, cause, trace."""


class RecordCapacity:
    """What is left of a record: number of facts, and bytes. `is_untouched`: nothing has been put into it yet."""

    def __init__(self, facts: int = RECORD_FACTS_MAX, size: int = RECORD_BYTES_MAX - AROUND) -> None:
        self.facts = facts
        self.size = size
        self.is_untouched = True

    def takes(self, facts: Sequence[AnyFact]) -> bool:
        """Whether all of `facts` still fit; if so, they are counted."""
        if len(facts) > self.facts:
            return False
        size = len(facts)
        for fact in facts:
            size += len(encode(fact))
        if size > self.size:
            return False
        self.facts -= len(facts)
        self.size -= size
        self.is_untouched = False
        return True

    def fill(self, facts: Iterable[T]) -> Iterator[T]:
        """`facts` up to the first that does not fit."""
        for fact in facts:
            if not self.takes((fact,)):
                return
            yield fact
