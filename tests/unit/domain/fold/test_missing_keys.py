"""Keys that are missing, as the fold has them (R22)."""

from headrace.contracts import facts as f
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.reasons import WaitReason
from headrace.domain.explain.wait_reasons import wait_of
from tests.unit.allocator.history import History, policy


def locked(told: History, handle: str = "ann") -> None:
    told.append_facts(f.TextsLockedV1(tenant="default", handle=handle))


def test_jobs_whose_key_is_missing_wait_frozen_and_are_granted_nothing_until_it_is_back():
    told = History(policy("ml", 2))
    told.node()
    job, other = told.admit("ml/one"), told.admit("ml/one", user="bob")
    locked(told)
    granted = [fact.job for fact in told.allocate() if isinstance(fact, f.LeaseGrantedV1)]
    wait = wait_of(told.state, job, told.now)
    assert (granted, wait.reason) == ([other.key], WaitReason.FROZEN)
    assert wait.message == (
        "the key of default.ann is missing, so what it runs cannot be read; it starts when the key is put back from a backup"
    )

    told.append_facts(f.TextsUnlockedV1(tenant="default", handle="ann"))
    granted = [fact.job for fact in told.allocate() if isinstance(fact, f.LeaseGrantedV1)]
    assert (granted, told.state.locked) == ([job.key], {})


def test_what_runs_goes_on_and_once_back_in_line_it_waits_too():
    told = History(policy("ml", 2))
    told.node()
    job = told.run("ml/one", max_retries=1)
    locked(told)
    assert job.state == "running"
    told.end(job, 1)
    told.allocate()
    told.wait(60 * SECOND)
    assert (job.state, [fact for fact in told.allocate() if isinstance(fact, f.LeaseGrantedV1)]) == ("pending", [])


def test_jobs_admitted_since_have_a_key_of_their_own_and_start():
    told = History(policy("ml", 2))
    told.node()
    told.admit("ml/one")
    locked(told)
    since = told.admit("ml/one")
    assert [fact.job for fact in told.allocate() if isinstance(fact, f.LeaseGrantedV1)] == [since.key]


def test_a_locked_job_may_be_cancelled():
    told = History(policy("ml", 2))
    told.node()
    job = told.admit("ml/one")
    locked(told)
    told.cancel(job)
    told.allocate()
    assert job.state == "cancelled"
