"""R42: with which of their shares waiting jobs stand in line within one round; random histories are in `tests/properties`."""

from __future__ import annotations

from headrace.contracts.facts import JobAdmittedV1, LeaseGrantedV1, ReclaimOpenedV1
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.arrays import ArrayRange
from headrace.contracts.values.gpu_memory import ModelShare
from tests.unit.allocator.history import History, gpus, policy
from tests.unit.domain.snapshot import differences, snapshot

SHARES = (ModelShare(model="H100", gpu=GPU_UNITS // 2), ModelShare(model="A100", gpu=GPU_UNITS))


def history(**limit: object) -> History:
    """One GPU of each model."""
    found = History(policy("q", **limit))
    found.node("large", 1)
    found.node("small", 1, model="A100")
    found.learn()
    return found


def admit(found: History, count: int, **fields: object) -> list[str]:
    return [found.admit("q/half", gpu_memory=20_480, shares=SHARES, **fields).key for _ in range(count)]


def granted(found: History) -> list[tuple[str, str, int]]:
    return [(fact.job, fact.node, fact.amounts[GPU]) for fact in found.allocate() if isinstance(fact, LeaseGrantedV1)]


def test_jobs_take_the_first_model_while_it_has_room_and_then_the_next():
    found = history()
    keys = admit(found, 4)
    half = GPU_UNITS // 2
    assert granted(found) == [(keys[0], "large", half), (keys[1], "large", half), (keys[2], "small", GPU_UNITS)]
    assert granted(found) == []


def test_a_limit_is_held_against_the_share_of_each_model():
    found = history(limit={GPU: GPU_UNITS})
    keys = admit(found, 3)
    assert granted(found) == [(keys[0], "large", GPU_UNITS // 2), (keys[1], "large", GPU_UNITS // 2)]


def test_a_better_ranked_job_takes_its_second_model_before_others_that_want_it_first():
    found = history()
    found.admit("q/one", request=gpus(1), priority=9)
    first = admit(found, 1, priority=5)
    found.admit("q/one", request=gpus(1), priority=1)
    assert granted(found)[1] == (first[0], "small", GPU_UNITS)


def test_a_round_leaves_the_line_as_it_was():
    found = history()
    admit(found, 5)
    granted(found)
    before = snapshot(found.state)
    assert found.allocator.decide(found.now) == ()
    assert differences(snapshot(found.state), before) == []
    assert [job.request is job.request.first for job in found.state.jobs.values() if job.state == "pending"] == [True, True]


def test_elements_of_an_array_choose_one_after_the_other():
    found = history()
    array = ArrayRange(first=0, last=3)
    job = "default.ann.01kdvdna000000000000000009"
    found.append_facts(
        JobAdmittedV1(job=job, policy="q", profile="half", request=gpus(1), gpu_memory=20_480, shares=SHARES, array=array),
        by="admission",
    )
    assert [(node, units) for _, node, units in granted(found)] == [
        ("large", GPU_UNITS // 2),
        ("large", GPU_UNITS // 2),
        ("small", GPU_UNITS),
    ]


def test_a_search_opens_for_a_share_inside_the_reservation_although_the_first_share_is_beyond_it():  # R23
    found = History(policy("lent"), policy("q", reservation={GPU: GPU_UNITS // 2}))
    found.node("small", 1, model="A100")
    found.node("large", 1)
    found.learn()
    for _ in range(2):
        found.run("lent/one")
    job = found.admit("q/half", gpu_memory=20_480, shares=SHARES[::-1], request=gpus(1))

    assert [fact for fact in found.allocate() if isinstance(fact, ReclaimOpenedV1)] == [
        ReclaimOpenedV1(job=job.key, pool="hall", cause="reclaim")
    ]
