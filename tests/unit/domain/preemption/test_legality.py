"""Which jobs may be taken together (R26)."""

from headrace.contracts.documents.model import PreemptionTerms
from headrace.contracts.values.amounts import GPU
from headrace.domain.preemption.eligibility import PRIORITY, RECLAIM, kind_of
from headrace.domain.preemption.legality import Taken
from tests.unit.domain.hall import Hall


def lenders(*held, reservation=0, **terms):
    """One lender that holds jobs of these sizes; the kind of each."""
    hall = Hall(devices=16)
    hall.policy("owner", reservation=16, priority=1, terms=PreemptionTerms(**terms))
    lender = hall.policy("lender", reservation=reservation)
    kinds, at = [], 0
    for number, size in enumerate(held):
        hall.policy(f"p{number}", size=size)
        job = hall.admit(f"p{number}", f"v{number}")
        job.policy = lender
        hall.grant(job, ("n1", at, size))
        at += size
        kinds.append(kind_of(hall.state, hall.admit("owner", f"o{number}"), hall.pool, frozenset({GPU}), lender, job.request))
    return kinds


def test_each_is_taken_while_its_side_is_above_and_the_last_may_bring_it_below():
    small, large = lenders(1, 3, reservation=2)
    taken = Taken(RECLAIM)
    assert [taken.admits(small), taken.admits(large), taken.admits(small)] == [True, True, False]
    assert taken.is_allowed()


def test_no_order_helps_where_no_job_may_come_last():
    one, other, third = lenders(1, 1, 1, reservation=2)
    taken = Taken(RECLAIM)
    assert [taken.admits(one), taken.admits(other)] == [True, False]
    assert not Taken(RECLAIM, [one, other]).is_allowed()
    taken.remove(one)
    assert taken.admits(third)


def test_the_order_of_asking_does_not_matter_because_the_largest_may_be_last():
    large, small = lenders(3, 1, reservation=2)
    taken = Taken(RECLAIM)
    assert [taken.admits(large), taken.admits(small)] == [True, True]


def test_by_priority_no_victim_is_taken_that_could_reclaim_afterwards():
    small, large = lenders(1, 3, reservation=2, preempt_lower_priority=True)
    assert [Taken(PRIORITY).admits(small), Taken(PRIORITY).admits(large)] == [True, True]
    assert not Taken(PRIORITY, [small, large]).is_allowed()
