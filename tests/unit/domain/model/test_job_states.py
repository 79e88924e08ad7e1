"""The states of a job, and which of them belong together."""

from __future__ import annotations

from headrace.domain.model.job_states import FINAL, HOLDING, JobState


def test_a_job_waits_or_holds_leases_or_has_ended():
    assert frozenset(JobState) - FINAL - HOLDING == {JobState.PENDING}
    assert frozenset() == FINAL & HOLDING
