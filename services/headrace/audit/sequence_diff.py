"""In what two lists of marks differ: what is changed, gone, new, or somewhere else. Pure.

Strategy: both go on together as long as they are the same; where they part, to the nearest place where they are the same again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.audit.findings import at, gone_records
from headrace.audit.seals import MARK_CONTENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.contracts.messages.audit import Finding

LOOK = 256
"""Records in which a place is looked for where both are the same again."""


class Step(NamedTuple):
    """Where they part, in each: so many of what was sealed and of what is there have no fellow."""

    sealed: int
    there: int
    gone: int
    new: int


class Walk:
    """Goes along both, to the end of the first `count` of what was sealed.

    `steps`: where they part; `retimed`: (place in the one, in the other) of those whose times alone differ; `passed`: how far it came in
    what is there.
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
        """How many of each are passed over until both are the same again, as few as can be; at most `left` of what was sealed."""
        places: dict[bytes, int] = {}
        for place, mark in enumerate(self.there[there : there + LOOK]):
            places.setdefault(mark, place)
        best: tuple[int, int] | None = None
        for gone, mark in enumerate(self.sealed[sealed : sealed + LOOK]):
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
    """As findings. `first`: the sequence of the first that was sealed; `sequences`: those of what is there; `before`: marks before them."""
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
    """Records that follow each other are told at once."""
    begins = 0
    for place, last in enumerate(lost):
        if place + 1 == len(lost) or lost[place + 1] != last + 1:
            yield gone_records(lost[begins], last)
            begins = place + 1


def _as(was: int, sequence: int) -> str:
    return "" if was == sequence else f" as record {was}"
