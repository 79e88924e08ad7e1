"""Arrays while grants are tried: what a round leaves behind, and what it may not grant."""

from __future__ import annotations

from headrace.allocator.array_lines import cancel_order, unstarted_of, with_others
from headrace.contracts import facts as f
from tests.unit.domain.fold.array_history import KEY, element, history, in_line


def test_a_round_leaves_the_line_as_it_was():
    past = history(count=3)
    before = in_line(past)

    facts = past.allocator.decide(past.now)

    assert [fact.job for fact in facts] == [element(0), element(1), element(2)]
    assert (in_line(past), list(past.state.arrays[KEY].elements)) == (before, [element(0)])


def test_an_element_whose_end_was_asked_for_is_not_granted():
    past = history(count=8)
    past.append_facts(f.JobCancelRequestedV1(job=KEY, by="default.ann", elements=((2, 9),)), by="admission")

    facts = past.allocate()

    assert {fact.job for fact in facts if isinstance(fact, f.LeaseGrantedV1)} == {element(0), element(1)}
    assert past.state.arrays[KEY].ended == {"cancelled": 8}


def test_new_elements_are_ended_with_their_array_and_granted_ones_by_themselves():
    past = history(count=1)
    past.allocate()
    state = past.state
    granted, waiting, whole = state.jobs[element(0)], state.jobs[element(1)], state.arrays[KEY].job
    assert (with_others(granted), with_others(waiting)) == (granted, whole)
    ended = f.JobEndedV1(job=KEY, attempt=0, state="cancelled", cause="cancelled", elements=((0, 1),))
    assert unstarted_of(state, [ended]) == {element(1)}
    assert sorted([granted, waiting, whole], key=cancel_order) == [whole, waiting, granted]
