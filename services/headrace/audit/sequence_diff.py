"""Differences between two lists of marks: changed, removed, inserted and moved records. Pure.

Strategy: both are followed as long as they are equal; where they differ, up to the nearest place where they are equal again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.audit.findings import at, gone_records
from headrace.audit.seals import MARK_CONTENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.contracts.messages.audit import Finding

SEARCH_WINDOW = 256
"""Records that are searched for a place where both are equal again."""


class Step(NamedTuple):
    """A difference: its place in each list, and how many records of each have no counterpart."""

    sealed: int
    there: int
    gone: int
    new: int


class Walk:
    """Compares both lists, to the end of the first `count` of the sealed ones.

    `steps`: the differences; `retimed`: (place in the one, in the other) of those whose times alone differ; `passed`: how far it came in
    the present records.
    """

    def __init__(self, sealed: list[bytes], there: list[bytes], count: int) -> None:
        self.sealed = [mark[:MARK_CONTENT] for mark in sealed]
        self.there = [mark[:MARK_CONTENT] for mark in there]
        self.steps: list[Step] = []
        self.retimed: list[tuple[int, int]] = []
        at_sealed = at_there = 0
        while at_sealed < count:
            if at_there < len(there) and self.sealed[at_sealed] == self.there[at_there]:
                if sealed[at_sealed] != there[at_there]:
                    self.retimed.append((at_sealed, at_there))
                at_sealed, at_there = at_sealed + 1, at_there + 1
                continue
            step = Step(at_sealed, at_there, *self._parted(at_sealed, at_there, count - at_sealed))
            self.steps.append(step)
            at_sealed, at_there = at_sealed + step.gone, at_there + step.new
        self.passed = at_there

    def _parted(self, sealed: int, there: int, left: int) -> tuple[int, int]:
        """How many of each to skip until both are equal again, as few as possible; at most `left` of the sealed ones."""
        places: dict[bytes, int] = {}
        for place, mark in enumerate(self.there[there : there + SEARCH_WINDOW]):
            places.setdefault(mark, place)
        best: tuple[int, int] | None = None
        for gone, mark in enumerate(self.sealed[sealed : sealed + SEARCH_WINDOW]):
            if best is not None and gone >= sum(best):
                break
            new = places.get(mark)
            if new is not None and (best is None or gone + new < sum(best)):
                best = gone, new
        if best is None:
            return left, min(left, len(self.there) - there)
        gone, new = best
        return best if gone <= left else (left, max(0, new - (gone - left)))


def differences(walk: Walk, first: int, sequences: Sequence[int], before: Sequence[bytes] = ()) -> Iterator[Finding]:
    """The differences as findings. `first`: the sequence of the first sealed record; `sequences`: those of the present ones; `before`.

    Marks before them.
    """
    for sealed, there in walk.retimed:
        was, sequence = first + sealed, sequences[there]
        yield at("restamped", sequence, f"record {sequence} was stored at another time when it was sealed{_as(was, sequence)}")
    lost = {walk.sealed[step.sealed + n]: first + step.sealed + n for step in walk.steps for n in range(step.gone)}
    new = {walk.there[step.there + n] for step in walk.steps for n in range(step.new)}
    ahead = [mark[:MARK_CONTENT] for mark in before] + walk.sealed
    known = {mark: first - len(before) + place for place, mark in enumerate(ahead)}
    for step in walk.steps:
        replaced = set()
        for n in range(step.new):
            sequence, mark, was = sequences[step.there + n], walk.there[step.there + n], first + step.sealed + n
            if mark in lost:
                yield at("moved", sequence, f"record {sequence} is what was sealed as record {lost[mark]}")
            elif mark in known:
                yield at("repeated", sequence, f"record {sequence} is record {known[mark]} again")
            elif n < step.gone and walk.sealed[step.sealed + n] not in new:
                replaced.add(n)
                yield at("changed", sequence, f"record {sequence} is not what was sealed{_as(was, sequence)}")
            else:
                yield at("inserted", sequence, f"record {sequence} was not there when its neighbours were sealed")
        yield from _runs(
            [first + step.sealed + n for n in range(step.gone) if n not in replaced and walk.sealed[step.sealed + n] not in new]
        )


def _runs(lost: list[int]) -> Iterator[Finding]:
    """One finding for each run of consecutive removed records."""
    begins = 0
    for place, last in enumerate(lost):
        if place + 1 == len(lost) or lost[place + 1] != last + 1:
            yield gone_records(lost[begins], last)
            begins = place + 1


def _as(was: int, sequence: int) -> str:
    return "" if was == sequence else f" as record {was}"
