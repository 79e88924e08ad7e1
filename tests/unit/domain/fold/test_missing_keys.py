"""Keys that are missing, as the fold has them (R22)."""

from headrace.contracts import facts as f
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.explain.wait_reasons import wait_of
from tests.unit.allocator.history import History, policy


def locked(history: History, handle: str = "ann") -> None:
    history.append_facts(f.TextsLockedV1(tenant="default", handle=handle))


def test_jobs_whose_key_is_missing_wait_frozen_and_are_granted_nothing_until_it_is_back():
    history = History(policy("ml", 2))
    history.node()
    job, other = history.admit("ml/one"), history.admit("ml/one", user="bob")
    locked(history)
    granted = [fact.job for fact in history.allocate() if isinstance(fact, f.LeaseGrantedV1)]
    wait = wait_of(history.state, job, history.now)
    assert (granted, wait.reason) == ([other.key], WaitReason.FROZEN)
    assert wait.message == (
        "the key of default.ann is missing, so what it runs cannot be read; it starts when the key is put back from a backup"
    )

    history.append_facts(f.TextsUnlockedV1(tenant="default", handle="ann"))
    granted = [fact.job for fact in history.allocate() if isinstance(fact, f.LeaseGrantedV1)]
    assert (granted, history.state.locked) == ([job.key], {})


def test_what_runs_goes_on_and_once_back_in_line_it_waits_too():
    history = History(policy("ml", 2))
    history.node()
    job = history.run("ml/one", max_retries=1)
    locked(history)
    assert job.state == "running"
    history.end(job, 1)
    history.allocate()
    history.wait(60 * SECOND)
    assert (job.state, [fact for fact in history.allocate() if isinstance(fact, f.LeaseGrantedV1)]) == ("pending", [])


def test_jobs_admitted_since_have_a_key_of_their_own_and_start():
    history = History(policy("ml", 2))
    history.node()
    history.admit("ml/one")
    locked(history)
    since = history.admit("ml/one")
    assert [fact.job for fact in history.allocate() if isinstance(fact, f.LeaseGrantedV1)] == [since.key]


def test_a_locked_job_may_be_cancelled():
    history = History(policy("ml", 2))
    history.node()
    job = history.admit("ml/one")
    locked(history)
    history.cancel(job)
    history.allocate()
    assert job.state == "cancelled"
