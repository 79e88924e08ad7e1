"""Which jobs count as idle (R39)."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.values.durations import MINUTE
from headrace.domain.snapshots.snapshot import copy_of
from headrace.domain.state.idleness import idle_jobs, idle_since, is_idle
from tests.unit.allocator.history import History, policy


def marked(**terms: object) -> tuple[History, object]:
    history = History(policy("dev", 4, **terms))
    history.node("n1", 4)
    job = history.run("dev/one")
    history.wait(MINUTE)
    history.append_facts(f.LeaseIdledV1(job=job.key, attempt=1, node="n1", idle_for=MINUTE), by="preemption")
    return history, job


def test_a_marked_job_yields_where_its_policy_says_so() -> None:
    history, job = marked(idle_after=MINUTE, idle="yield")
    assert (is_idle(job), idle_since(job), idle_jobs(job.policy, "hall")) == (True, history.now, [job])
    assert idle_jobs(job.policy, "annex") == []


def test_with_warn_or_without_a_word_it_is_marked_and_does_not_yield() -> None:
    for terms in ({"idle_after": MINUTE, "idle": "warn"}, {"idle_after": MINUTE}, {}):
        history, job = marked(**terms)
        assert (is_idle(job), idle_since(job), idle_jobs(job.policy, "hall")) == (False, history.now, [])


def test_marks_make_a_search_worthwhile_again() -> None:
    history, job = marked(idle_after=MINUTE, idle="yield")
    epoch = history.state.pools["hall"].epoch
    history.append_facts(f.LeaseUsedV1(job=job.key, attempt=1, node="n1", cause="busy"), by="preemption")
    assert (history.state.pools["hall"].epoch > epoch, is_idle(job)) == (True, False)


def test_a_fact_about_an_attempt_that_is_over_changes_nothing() -> None:
    history, job = marked(idle_after=MINUTE, idle="yield")
    history.append_facts(f.LeaseUsedV1(job=job.key, attempt=7, node="n1", cause="busy"), by="preemption")
    assert is_idle(job)


def test_copies_have_the_marks() -> None:
    history, job = marked(idle_after=MINUTE, idle="yield")
    copied = copy_of(history.state).jobs[job.key]
    assert (is_idle(copied), copied.policy.idle[job.key] is copied) == (True, True)
