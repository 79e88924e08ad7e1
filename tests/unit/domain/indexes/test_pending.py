"""The line of pending jobs: its order (R15 (6)-(8)), who stands aside, and that both survive any coming and going."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import facts as f
from headrace.contracts.values.durations import SECOND
from headrace.domain.indexes.pending import JobGroup, Pending, place_in_line
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import JobRecord
from tests.unit.domain.site import Site, place, policy


def member(key: str, priority: int, admitted_at: int, order: tuple[int, int], last_since: int = 0) -> JobRecord:
    """All of a job that its own order depends on."""
    return SimpleNamespace(key=key, priority=priority, admitted_at=admitted_at, order=order, last_since=last_since)


def empty_group() -> JobGroup:
    return JobGroup(
        SimpleNamespace(
            policy=SimpleNamespace(users=None),
            profile="one",
            request=None,
            preemptible=True,
            beyond=False,
            barred_from="",
            outlasts=(),
        )
    )


def drained(group: JobGroup) -> list[str]:
    """The members in the order in which they would go."""
    order = []
    while (head := group.head()) is not None:
        order.append(head.key)
        group.leave(head)
    return order


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(member("b", 5, 9, (9, 9)), member("a", 4, 0, (0, 0)), id="priority, higher first"),
        pytest.param(member("b", 0, 1, (9, 9)), member("a", 0, 2, (0, 0)), id="then time admitted"),
        pytest.param(member("b", 0, 5, (9, 9)), member("a", 0, 2, (0, 0), 6), id="or since when it was last"),
        pytest.param(member("b", 0, 1, (3, 9)), member("a", 0, 1, (4, 0)), id="then the record"),
        pytest.param(member("b", 0, 1, (3, 0)), member("a", 0, 1, (3, 1)), id="then the place in it"),
        pytest.param(member("a", 0, 1, (3, 0)), member("b", 0, 1, (3, 0)), id="then the key"),
    ],
)
def test_the_order_within_a_group(first, second):
    for joining in ((first, second), (second, first)):
        group = empty_group()
        for job in joining:
            group.join(job)
        assert drained(group) == [first.key, second.key]


def test_an_empty_group_has_no_head():
    assert empty_group().head() is None


def test_who_joins_twice_stands_there_once_and_who_is_not_there_cannot_leave():
    group, job = empty_group(), member("a", 0, 0, (0, 0))
    group.join(job)
    group.join(job)
    assert [group.leave(job), group.leave(job)] == [True, False]
    assert (group.head(), group.heap, group.members) == (None, [], {})


def test_who_comes_back_from_the_middle_of_the_line_stands_there_once():
    group = empty_group()
    jobs = [member(key, 0, place, (place, 0)) for place, key in enumerate("abc")]
    for job in jobs:
        group.join(job)
    group.leave(jobs[1])
    group.join(jobs[1])
    assert drained(group) == ["a", "b", "c"]


@pytest.mark.parametrize("again", [1, 2])
def test_who_was_put_behind_the_others_is_not_taken_for_standing_where_it_stood(again):
    group = empty_group()
    jobs = [member(key, 0, place, (place, 0)) for place, key in enumerate("abcd")]
    for job in jobs:
        group.join(job)
    for time in range(again):
        group.leave(jobs[1])
        jobs[1].last_since = 10 + time
        group.join(jobs[1])
        group.join(member(f"e{time}", 0, 10 + time, (10 + time, 0)))
    assert drained(group) == ["a", "c", "d", *(f"e{time}" for time in range(again - 1)), "b", f"e{again - 1}"]


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.tuples(st.integers(0, 2), st.integers(0, 1))), min_size=1, max_size=8
    ),
    st.lists(st.tuples(st.sampled_from(["join", "leave", "leave, and go behind the others"]), st.integers(0, 7)), max_size=30),
)
def test_after_any_coming_and_going_the_members_go_in_sorted_order(orders, moves):
    jobs = [member(f"j{number}", *order) for number, order in enumerate(orders)]
    group, there = empty_group(), set()
    for now, (move, number) in enumerate(moves, start=1):
        job = jobs[number % len(jobs)]
        if move == "join":
            group.join(job)
            there.add(job.key)
        else:
            assert group.leave(job) == (job.key in there)
            there.discard(job.key)
        if move == "leave, and go behind the others":
            job.last_since = now
        assert (group.head() is None) == (not there)
    ranked = sorted(jobs, key=lambda job: (-job.priority, job.last_since or job.admitted_at, job.order, job.key))
    assert drained(group) == [job.key for job in ranked if job.key in there]


def groups(pending: Pending) -> list[list[str]]:
    """The names of the jobs of each group."""
    return [[key.rpartition(".")[2] for key in group.members] for group in pending.groups.values()]


def aside(pending: Pending) -> list[str]:
    return [key.rpartition(".")[2] for key in pending.ineligible]


def test_jobs_that_differ_in_nothing_a_rule_looks_at_stand_in_one_group():
    site = Site(policy("dev", beyond_limit=("eve",)), policy("ops"))
    for name, fields in {
        "first": {},
        "later": {},
        "urgent": {"priority": 9},
        "bobs": {"user": "bob"},
        "limited": {"time_limit": SECOND},
        "other-policy": {"queue": "ops/one"},
        "other-profile": {"queue": "dev/two"},
        "other-request": {"request": {"cpu": 1}},
        "firm": {"preemptible": False},
        "beyond": {"user": "eve"},
    }.items():
        site.admit(name, **fields)
    assert groups(site.state.pending) == [
        ["first", "later", "urgent", "bobs", "limited"],
        ["other-policy"],
        ["other-profile"],
        ["other-request"],
        ["firm"],
        ["beyond"],
    ]
    assert {key: [list(group.members) for group in known] for key, known in site.state.pending.by_policy.items()} == {
        ("default", "dev"): [
            [
                f"default.ann.{name}" if name != "bobs" else "default.bob.bobs"
                for name in ("first", "later", "urgent", "bobs", "limited")
            ],
            ["default.ann.other-profile"],
            ["default.ann.other-request"],
            ["default.ann.firm"],
            ["default.eve.beyond"],
        ],
        ("default", "ops"): [["default.ann.other-policy"]],
    }


def test_a_job_that_is_barred_from_a_pool_stands_in_a_group_of_its_own():  # R27
    site = Site(policy("dev"), policy("ops"))
    site.node(count=1)
    victim, _ = site.run("victim", place("n1", 0)), site.admit("free")
    preemptor = site.admit("preemptor", "ops/one")
    site.order(preemptor, (victim,), place("n1", 0))
    site.leave(victim, requeue="preempted")
    assert (groups(site.state.pending), aside(site.state.pending)) == ([["free"], ["victim"]], ["preemptor"])


def test_what_is_only_asked_about_stands_in_a_group_of_its_own_be_it_like_a_job_that_is_there():
    site = Site()
    pending, job = site.state.pending, site.admit("a")
    asked = replace(job, preemptible=False)
    group = pending.group_for(asked)
    assert (pending.group_for(job), pending.group_of(asked), pending.group_of(replace(job))) == (
        pending.group_of(job),
        None,
        None,
    )
    assert (group.policy, group.profile, group.request, group.preemptible, group.head()) == (
        job.policy,
        "one",
        job.request,
        False,
        None,
    )


def test_an_empty_group_is_gone_and_a_new_one_takes_its_place():
    site = Site()
    pending, job = site.state.pending, site.admit("a")
    before = pending.group_of(job)
    pending.remove(job)
    assert (pending.groups, pending.by_policy, pending.group_of(job)) == ({}, {("default", "dev"): {}}, None)
    pending.add(job, site.now)
    assert pending.group_of(job) is not before
    assert groups(pending) == [["a"]]


def test_who_waits_for_another_job_stands_aside_until_that_has_ended():
    site = Site()
    first = site.admit("first")
    site.admit("second", after=(f.admission.Dependency(job=first.key),))
    seen = [(groups(site.state.pending), aside(site.state.pending))]
    site.append_facts(f.JobEndedV1(job=first.key, attempt=0, state="succeeded", cause="exited"), by="allocator")
    seen.append((groups(site.state.pending), aside(site.state.pending)))
    assert seen == [([["first"]], ["second"]), ([["second"]], [])]


def test_a_job_whose_dependency_failed_stands_aside_for_ever():
    site = Site()
    first = site.admit("first")
    job = site.admit("second", after=(f.admission.Dependency(job=first.key),))
    site.append_facts(f.JobEndedV1(job=first.key, attempt=0, state="cancelled", cause="cancelled"), by="allocator")
    site.state.pending.add(job, site.now)
    assert (groups(site.state.pending), aside(site.state.pending), job.doomed_by) == ([], ["second"], first.key)


def held_back(site: Site, name: str, until: int) -> JobRecord:
    """A job whose back-off ends then (R32)."""
    job = site.run(name, place("n1"))
    site.leave(job)
    site.append_facts(
        f.JobRequeuedV1(job=job.key, attempt=job.attempt, cause="node_lost", not_before=until),
        by="allocator",
    )
    return job


def test_back_offs_end_one_after_the_other():  # R32
    site = Site()
    site.node()
    pending = site.state.pending
    for name, span in {"late": 3, "soon": 1, "next": 2}.items():
        held_back(site, name, site.now + span * SECOND)
    seen = []
    for span in (0, 1, 2, 3):
        pending.follow_time(site.now + span * SECOND)
        next_due = pending.next_due()
        seen.append((groups(pending), aside(pending), next_due and (next_due - site.now) // SECOND))
    assert seen == [
        ([], ["late", "soon", "next"], 1),
        ([["soon"]], ["late", "next"], 2),
        ([["soon", "next"]], ["late"], 3),
        ([["soon", "next", "late"]], [], None),
    ]


def test_a_job_that_ended_during_its_back_off_does_not_come_back():
    site = Site()
    site.node()
    job = held_back(site, "a", site.now + SECOND)
    site.append_facts(f.JobEndedV1(job=job.key, attempt=1, state="cancelled", cause="cancelled"), by="allocator")
    site.state.pending.follow_time(site.now + SECOND)
    assert (groups(site.state.pending), aside(site.state.pending), site.state.pending.next_due()) == ([], [], None)


def test_a_back_off_that_a_later_one_replaced_lets_no_caller_in_early():
    site = Site()
    site.node()
    pending, job = site.state.pending, held_back(site, "a", site.now + SECOND)
    pending.remove(job)
    job.not_before = site.now + 2 * SECOND
    pending.add(job, site.now)
    seen = []
    for span in (1, 2):
        pending.follow_time(site.now + span * SECOND)
        seen.append((groups(pending), aside(pending)))
    assert seen == [([], ["a"]), ([["a"]], [])]


def test_a_reader_is_told_which_groups_may_have_another_head():
    site = Site()
    pending, job = site.state.pending, site.admit("before")
    changes = pending.watch()
    group = pending.group_of(job)
    other = site.admit("after", "dev/two")
    assert list(changes.groups) == [pending.group_of(other)]
    changes = pending.watch()
    pending.remove(job)
    pending.remove(job)
    assert list(changes.groups) == [group]


def test_without_a_reader_nothing_is_collected():
    site = Site()
    site.admit("a")
    assert site.state.pending.changes is None


def test_who_has_once_avoided_a_node_stands_with_the_others_when_the_line_is_filled_anew():
    site = Site()
    old, young = site.admit("old"), site.admit("young")
    old.avoids = {"n1": site.now - SECOND}
    made = Pending()
    made.refill([young, old], site.now)
    assert [[group.head().key, sorted(group.members)] for group in made.groups.values()] == [
        [old.key, sorted([old.key, young.key])]
    ]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.tuples(st.integers(0, 2), st.integers(0, 1))), min_size=1))
def test_a_line_that_is_filled_anew_goes_in_the_order_in_which_it_would_have_grown(orders):
    site = Site()
    jobs = [site.admit(f"j{number}") for number in range(len(orders))]
    for job, (priority, admitted_at, order) in zip(jobs, orders, strict=True):
        job.priority, job.admitted_at, job.order = priority, admitted_at, order
    ended = site.admit("ended")
    ended.state = JobState.SUCCEEDED
    made = Pending()
    made.refill([*jobs, ended], site.now)
    (group,) = made.groups.values()
    assert drained(group) == [job.key for job in sorted(jobs, key=place_in_line)]


@pytest.mark.parametrize("kept", [False, True], ids=["in line", "with places kept for it"])
def test_a_node_is_avoided_until_that_is_over_wherever_the_job_stands(kept):  # R27, R36
    site = Site()
    site.node()
    pending, job = site.state.pending, site.admit("a")
    pending.remove(job)
    job.avoids = {"n1": site.now + SECOND, "n2": site.now + 2 * SECOND}
    pending.add(job, site.now)
    if kept:
        site.order(job, (), place("n1"))
    seen = []
    for span in (0, 1, 2):
        pending.follow_time(site.now + span * SECOND)
        seen.append((job.avoiding, pending.next_due() and (pending.next_due() - site.now) // SECOND))
    assert seen == [(("n1", "n2"), 1), (("n2",), 2), ((), None)]
