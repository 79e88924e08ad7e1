"""Which elements of an array have a record, and which of these stands in line."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.facts.admission import Dependency
from headrace.domain.fold.arrays import element_of, job_of, state_of
from headrace.domain.snapshots.snapshot import copy_of, dump, load
from tests.unit.allocator.history import policy
from tests.unit.domain.fold.array_history import KEY, admit, element, history, in_line
from tests.unit.domain.snapshot import differences, snapshot


def test_of_those_that_wait_one_has_a_record_and_stands_in_line():
    past = history()
    array = past.state.arrays[KEY]
    assert (in_line(past), array.waiting, past.state.policies["default", "ml"].pending) == ([element(0)], ((1, 9),), 10)

    granted = [fact.job for fact in past.allocate()]

    assert granted == [element(index) for index in range(4)]
    assert (in_line(past), array.waiting, past.state.policies["default", "ml"].pending) == ([element(4)], ((5, 9),), 6)


def test_no_more_run_at_once_than_may():
    past = history(at_once=3)
    assert [fact.job for fact in past.allocate()] == [element(0), element(1), element(2)]
    assert (in_line(past), sorted(past.state.pending.ineligible)) == ([], [element(3)])

    job = past.state.jobs[element(1)]
    past.start(job)
    past.end(job)
    past.allocate()
    past.allocate()

    assert past.state.jobs[element(3)].leases
    assert past.state.arrays[KEY].ended == {"succeeded": 1}


def test_elements_that_wait_follow_a_change_of_who_may_exceed_the_limit():  # R12
    past = history(count=1)
    past.append_facts(f.PolicyAppliedV1(author="a.b", policy=policy("ml", beyond_limit=("ann",))))

    past.allocate()

    array = past.state.arrays[KEY]
    assert (in_line(past), [past.state.jobs[element(index)].beyond for index in (0, 1)]) == ([element(1)], [True, True])
    assert (array.job.beyond, element_of(past.state, element(7)).beyond) == (True, True)


def test_a_part_ends_by_one_fact_and_is_known_afterwards():
    past = history()
    past.allocate()
    past.append_facts(f.JobCancelRequestedV1(job=KEY, by="default.ann", elements=((3, 3), (6, 8))), by="admission")

    facts = past.allocate()

    ended = f.JobEndedV1(job=KEY, attempt=0, state="cancelled", cause="cancelled", elements=((6, 8),))
    assert (facts[0], [type(fact) for fact in facts[1:]]) == (ended, [f.StopOrderedV1])
    states = [state_of(past.state, element(index)) for index in (0, 4, 5, 6, 8, 9, 10)]
    assert states == ["starting", "pending", "pending", "cancelled", "cancelled", "pending", None]
    gone = element_of(past.state, element(7))
    assert (gone.state, gone.reason, gone.ended_at, job_of(past.state, KEY).state) == (
        "cancelled",
        "cancelled",
        past.now,
        "pending",
    )


def test_who_waits_for_an_array_waits_for_its_last_element():
    past, later = history(count=2, last=1), "default.ann.01kdvdna000000000000000002"
    admit(past, later, after=(Dependency(job=KEY),), last=2)
    assert past.state.arrays[later].front is past.state.arrays[later].job
    past.allocate()
    for index in (0, 1):
        job = past.state.jobs[element(index)]
        past.start(job)
        past.end(job)
    past.allocate()

    assert (past.state.arrays[KEY].job.state, past.state.arrays[KEY].job.message) == ("succeeded", "of 2 elements: 2 succeeded")
    assert in_line(past) == [f"{later}-000000"]


def test_a_queue_that_is_gone_dismisses_all_elements_by_one_fact():
    past = history()
    past.append_facts(f.PolicyDeletedV1(author="a", tenant="default", name="ml"))

    assert [(type(fact), fact.job) for fact in past.allocate()] == [(f.JobDismissedV1, KEY)]
    array = past.state.arrays[KEY]
    assert (array.job.state, array.ended, array.waiting, array.elements) == ("rejected", {"rejected": 10}, (), {})


def test_a_snapshot_and_a_copy_are_equal_to_the_state():
    past = history(at_once=2)
    past.allocate()
    for made in (load(dump(past.state)), copy_of(past.state)):
        assert differences(snapshot(made), snapshot(past.state)) == []


def test_an_array_that_is_cancelled_in_part_has_the_reason_of_what_was_cancelled():
    past = history(count=4, last=3)
    past.allocate()
    past.append_facts(f.JobCancelRequestedV1(job=KEY, by="default.ann", elements=((3, 3),)), by="admission")
    past.allocate()
    for index in (3, 0, 1, 2):
        job = past.state.jobs[element(index)]
        past.start(job)
        past.end(job)
        past.allocate()

    whole = job_of(past.state, KEY)
    assert (whole.state, whole.reason, whole.message) == (
        "cancelled",
        "cancelled",
        "of 4 elements: 3 succeeded, 1 cancelled",
    )
