"""What a pool is usually asked for: counted by the fold as jobs are admitted, and stated by the allocator when it has changed (R20).

Places are chosen for the mix that was last stated, so that no choice depends on who looked when. The count forgets: when it has grown to
`COUNTED_MAX`, all of it is halved, and so it follows what changes. Before a pool has been asked often enough nothing is stated, and places
are simply packed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from headrace.contracts.facts.allocation import UsualRequest
from headrace.domain.model.requests import Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.domain.model.requests import Request

COUNTED_MAX = 16_384
SHAPES_MAX = 1_024
"""Different requests that are counted; a flood of them halves the count, which drops those that came once."""
REPLICAS_COUNTED = 32
"""Of one gang, so that none of them is the whole mix."""
FIRST = 16
"""Replicas asked for before anything is stated, and before it is stated again."""
LEARNING = 4_096
GROWTH = 8
"""Up to `LEARNING` replicas the mix is stated again whenever their number has grown by this part of it: what is learnt early is rough,
and what is placed early stays. On a real trace a growth by half or more costs a tenth of a percent of the GPUs.
"""
DRIFT = 16
"""The mix is stated again when more than one request in this number is different now."""
STATED_MAX = 256
"""Requests that are stated, the most frequent first; the rest would make choices finer than they are."""


@dataclass(slots=True, eq=False)
class DemandMix:
    """One pool's count, and the mix in force.

    `asked`: replicas ever counted; `counted`: the sum of `counts`, which is what has not been forgotten. `stated`: request and weight;
    `stated_at` and `stated_of` are `asked` and `counted` at that time.
    """

    counts: dict[Shape, int] = field(default_factory=dict)
    asked: int = 0
    counted: int = 0
    stated: tuple[tuple[Shape, int], ...] = ()
    stated_at: int = 0
    stated_of: int = 0

    def count(self, request: Request, times: int = 1) -> None:
        """Jobs have been admitted that may come here, as many as `times`.

        Its isolation, and whether it needs nodes that stay, are not part of it, because they do not change what it takes.
        """
        replicas = min(request.replicas, REPLICAS_COUNTED) * times
        shape = request.shape
        if shape.isolation or shape.contained or shape.steady:
            shape = shape._replace(isolation=0, contained=False, steady=False)
        self.counts[shape] = self.counts.get(shape, 0) + replicas
        self.asked += replicas
        self.counted += replicas
        while self.counted > COUNTED_MAX or len(self.counts) > SHAPES_MAX:
            self.counts = {shape: count // 2 for shape, count in self.counts.items() if count > 1}
            self.counted = sum(self.counts.values())

    def learn(self, requests: Iterable[UsualRequest]) -> None:
        """The mix has been stated."""
        self.stated = tuple(
            (Shape(one.whole, one.fraction, one.cpu, one.memory, one.models, one.mig), one.weight) for one in requests
        )
        self.stated_at, self.stated_of = self.asked, self.counted

    def usual(self) -> tuple[UsualRequest, ...]:
        """The most frequent requests, as they are counted now."""
        by_weight = sorted(self.counts.items(), key=lambda item: (-item[1], item[0]))
        return tuple(
            UsualRequest(whole=whole, fraction=fraction, cpu=cpu, memory=memory, models=models, mig=mig, weight=weight)
            for (whole, fraction, cpu, memory, models, mig, *_), weight in by_weight[:STATED_MAX]
        )

    def holds_until(self) -> int:
        """What `asked` has to reach before the stated mix may have to be stated anew; no more than `asked` when it has to be now.

        By one more request the stated mix loses less than one part in `counted`, so until then no check is due. Halving may
        change more at once: it is waited for.
        """
        since = self.asked - self.stated_at
        if since < FIRST:
            return self.stated_at + FIRST
        grown = max(FIRST, self.stated_of // GROWTH)
        if self.stated_of < LEARNING and since >= grown:
            return self.asked
        lost = sum(max(0, weight * self.counted - self.counts.get(shape, 0) * self.stated_of) for shape, weight in self.stated)
        left = (self.counted * self.stated_of - DRIFT * lost) // (DRIFT * max(1, self.stated_of))
        if left < 0:
            return self.asked
        soon = grown - since if self.stated_of < LEARNING else left + 1
        return self.asked + min(soon, 1 + min(left, COUNTED_MAX - self.counted, SHAPES_MAX - len(self.counts)))
