from __future__ import annotations

from headrace.contracts import facts as f
from headrace.domain.snapshots.snapshot import copy_of
from headrace.domain.state.state import IDS_REMEMBERED
from headrace.domain.state.used_ids import job_with, known_digest
from tests.unit.domain.hall import Hall


def test_an_id_is_known_by_what_was_first_submitted_under_it_admitted_or_not():
    hall = Hall()
    hall.policy("p")
    job = hall.admit("p", "j")
    job.digest = "a"
    hall.append_facts(
        "admission", f.JobRejectedV1(job="acme.u.k", policy="p", profile="p", reason="TOO_FAST", message="m", digest="b")
    )
    assert [known_digest(hall.state, key) for key in (job.key, "acme.u.k", "acme.u.l")] == ["a", "b", None]


def rejected(hall, key):
    hall.append_facts("admission", f.JobRejectedV1(job=key, policy="p", profile="any", reason="NOT_ALLOWED", message="no"))


def test_an_id_is_found_in_any_order_before_or_after_the_job_came():
    hall = Hall()
    hall.policy("p")
    before = hall.admit("p", "early")
    tenant, _, early = before.key.split(".")
    assert job_with(hall.state, tenant, early) == before.key
    after = hall.admit("p", "late")
    late = after.key.split(".")[2]
    assert (job_with(hall.state, tenant, late), job_with(hall.state, "elsewhere", late)) == (after.key, "")
    assert job_with(copy_of(hall.state), tenant, late) == after.key


def test_the_first_of_two_jobs_with_one_id_has_it_until_it_is_forgotten():
    hall = Hall()
    hall.policy("p")
    rejected(hall, "acme.ann.x")
    rejected(hall, "acme.bob.x")
    assert job_with(hall.state, "acme", "x") == "acme.ann.x"
    hall.later(IDS_REMEMBERED // 1_000_000 + 1)
    hall.admit("p", "other")
    assert job_with(hall.state, "acme", "x") == ""
