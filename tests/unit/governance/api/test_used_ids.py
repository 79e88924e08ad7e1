from __future__ import annotations

import pytest
from grpc import StatusCode

from headrace.domain.model.attempts import PastJob
from headrace.domain.model.job_states import JobState
from headrace.domain.state.state import State
from headrace.governance.api.errors import ApiError, Violation
from headrace.governance.api.used_ids import UsedIds

A, B = "acme.alice.01jd3v8k5w2m4x6z8b0c2e4g6h", "acme.alice.01jd3v8k5w2m4x6z8b0c2e4g6j"
REUSED = (
    "01jd3v8k5w2m4x6z8b0c2e4g6j: this id already names a job with other content; make a new ULID, or repeat the job as it was"
)


def known(judged=0, **jobs):
    state = State(judged=judged, answered={key: PastJob(digest, JobState.REJECTED, 0) for key, digest in jobs.items()})
    state.terms.level = 2
    return state


def submit(used, state, *entries, place=1):
    with used.claim([key for key, _ in entries], [digest for _, digest in entries], state) as stored:
        stored(place)


def test_the_same_id_with_other_content_is_refused_with_its_field_and_nothing_is_stored():
    used, state = UsedIds(), known(**{A: "a", B: "b"})
    submit(used, state, (A, "a"), (B, "b"))
    with pytest.raises(ApiError) as caught:
        submit(used, state, (A, "a"), (B, "c"))
    fault = caught.value
    assert (fault.code, fault.reason) == (StatusCode.ALREADY_EXISTS, "ID_REUSED")
    assert fault.violations == (Violation("jobs[1].id", REUSED),)
    assert fault.message == f"jobs[1].id: {REUSED}"


def test_the_same_id_twice_in_one_request_is_one_job_or_refused():
    submit(UsedIds(), known(), (A, "a"), (A, "a"))
    with pytest.raises(ApiError, match=r"^jobs\[1\].id: "):
        submit(UsedIds(), known(), (A, "a"), (A, "b"))


def test_what_is_under_way_and_not_judged_yet_counts():
    used = UsedIds()
    with used.claim([A], ["a"], known()) as stored:
        with pytest.raises(ApiError):
            submit(used, known(), (A, "b"))
        stored(7)
    with pytest.raises(ApiError):
        submit(used, known(judged=6), (A, "b"))
    submit(used, known(judged=7), (A, "b"))  # it was counted in a flood of refusals: the fold knows nothing of it


def test_what_could_not_be_stored_does_not_count():
    used = UsedIds()
    with pytest.raises(ZeroDivisionError), used.claim([A], ["a"], known()):
        raise ZeroDivisionError
    submit(used, known(), (A, "b"))


def test_a_repetition_beside_the_first_try_lets_go_of_nothing():
    used = UsedIds()
    with used.claim([A], ["a"], known()):
        submit(used, known(), (A, "a"))
        with pytest.raises(ApiError):
            submit(used, known(judged=1), (A, "b"))


def test_who_was_second_is_told_behind_the_storing():
    used = UsedIds()
    used.check([A, B], ["a", "b"], known(**{A: "a"}))
    with pytest.raises(ApiError, match=r"^jobs\[1\].id: "):
        used.check([A, B], ["a", "b"], known(**{B: "c"}))


def test_the_id_of_another_users_job_in_the_tenant_is_refused_and_of_another_tenants_is_not():
    of_bob = A.replace("alice", "bob")
    with pytest.raises(ApiError, match="this id names a job of somebody else in this tenant") as caught:
        submit(UsedIds(), known(**{of_bob: "a"}), (A, "a"))
    assert caught.value.reason == "ID_REUSED"
    submit(UsedIds(), known(**{A.replace("acme", "other"): "a"}), (A, "a"))


def test_of_two_users_who_submit_an_id_at_the_same_time_the_second_is_told_that_it_is_the_others():
    used, of_bob = UsedIds(), A.replace("alice", "bob")
    with used.claim([A], ["a"], known()):
        with pytest.raises(ApiError, match="this id names a job of somebody else in this tenant"):
            submit(used, known(), (of_bob, "a"))
        submit(used, known(), (A.replace("acme", "other"), "a"))
