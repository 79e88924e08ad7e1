"""What a fact says by implication is heard as facts of their own."""

from headrace.contracts import facts as f
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.facts.preemption import Victim

QUICK = Ladder(cause="preempted", callback_grace=0, term_grace=1, preemptor="a.b.p")
SLOW = Ladder(cause="preempted", callback_grace=9, term_grace=1, preemptor="a.b.p")
ENDED = f.NominationEndedV1(preemption="a.b.p@1", job="a.b.p", why="over")


def ordered(*ladders: Ladder) -> f.PreemptionOrderedV1:
    victims = tuple(Victim(job=f"a.b.v{number}", attempt=number, policy="a/q", lost=0, ladder=number % 2) for number in (1, 2))
    fields = {"preemption": "a.b.p@1", "job": "a.b.p", "pool": "hall", "cause": "reclaim", "rule": "R26"}
    return f.PreemptionOrderedV1(victims=victims, places=(), ladders=ladders, **fields)


def test_an_order_that_carries_ladders_stands_for_the_stops_of_its_victims():
    order = ordered(QUICK, SLOW)
    assert list(with_implied_facts([order, ENDED])) == [
        (0, order),
        (0, f.StopOrderedV1(job="a.b.v1", attempt=1, ladder=SLOW)),
        (0, f.StopOrderedV1(job="a.b.v2", attempt=2, ladder=QUICK)),
        (1, ENDED),
    ]


def test_any_other_fact_says_what_it_says():
    order = ordered()
    assert list(with_implied_facts([ENDED, order])) == [(0, ENDED), (1, order)]
