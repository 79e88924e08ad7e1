"""The oracle beside the allocator: what it is asked after every step of a history."""

from __future__ import annotations

import pytest

from headrace.allocator import decide
from headrace.contracts import facts as f
from headrace.simulate.world import World
from tests.properties.checked_histories import play
from tests.properties.oracle import Oracle


def round_of(facts) -> tuple[list[object], list[object]]:
    """What the oracle says of a round, read from its facts."""
    granted: dict[str, tuple[str, str, tuple[str, ...], bool]] = {}
    for fact in facts:
        if isinstance(fact, f.LeaseGrantedV1):
            nodes = granted[fact.job][2] if fact.job in granted else ()
            granted[fact.job] = (fact.job, fact.pool, (*nodes, fact.node), fact.inside)
    return list(granted.values()), [(fact.job, fact.pool, fact.cause) for fact in facts if isinstance(fact, f.ReclaimOpenedV1)]


class Watched:
    """Grants; each round is held against the oracle's; memos are dropped now and then."""

    def __init__(self) -> None:
        self.rounds = 0

    def grant(self, state, standings, now, skip, capacity, *, in_line):
        self.rounds += 1
        if self.rounds % 7 == 0:
            standings.forget()
        facts = self.real(state, standings, now, skip, capacity, in_line=in_line)
        slow = Oracle(state, now, frozenset(skip)).play(facts, in_line=in_line)
        assert round_of(facts) == (slow.granted, slow.opened)
        assert [fact.job for fact in facts if isinstance(fact, f.ResumeOrderedV1)] == slow.resumed
        moved = [fact for fact in facts if isinstance(fact, f.MoveOrderedV1)]
        assert [(fact.job, fact.pool, tuple(place.node for place in fact.places)) for fact in moved] == slow.moved
        return facts


def watch(scenario, *, judged: bool = False) -> None:
    watched = Watched()
    watched.real, decide.grant = decide.grant, watched.grant
    try:
        play(World(scenario, judged=judged))
    finally:
        decide.grant = watched.real

    assert watched.rounds


compiled = pytest.mark.skipif(
    not str(decide.__file__).endswith(".py"), reason="calls between compiled rules cannot be intercepted"
)
