"""An operator's force (R24): explicit, with a reason, of what runs; everything else is refused with the way out."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import ForceRequest
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.arrays import ArrayRange
from headrace.governance.force_preempt import forcing

ADMIN = "default.admin"


@pytest.fixture
def hall(site):
    """`ann` runs a job."""
    site.write("policies: [{name: q, group: all, profiles: [one]}]")
    site.node("w1", site="west")
    return site


def decided(site, job, *, force=True, reason="the demo"):
    return forcing(ForceRequest(job=job, force=force, reason=reason), ADMIN)(site.state, 0)


def test_it_is_a_fact_with_author_and_reason_by_key_or_by_id(hall):
    job = hall.job("q/one", on="w1")
    fact = f.PreemptionForcedV1(author=ADMIN, reason="the demo", job=job, attempt=1)
    for name in (job, job.rpartition(".")[2]):
        decision = decided(hall, name)
        assert (decision.facts, decision.answer.changes[0].name, decision.error) == ((fact,), job, "")


def test_without_force_or_a_reason_or_a_job_that_runs_nothing_is_taken(hall):
    job, waiting = hall.job("q/one", on="w1"), hall.job("q/one")
    asked = [
        decided(hall, job, force=False),
        decided(hall, job, reason="  "),
        decided(hall, waiting),
        decided(hall, "nobody"),
    ]
    assert [(decision.code, decision.facts) for decision in asked] == [
        ("REFUSED", ()),
        ("INVALID", ()),
        ("REFUSED", ()),
        ("NOT_FOUND", ()),
    ]
    assert [decision.error for decision in asked] == [
        f"force: {job} is not stopped: its units may be inside a reservation, which only an explicit order takes; say --force",
        "reason: forced preemption needs one; say --reason TEXT",
        f"{waiting} is pending; only what runs can be taken from",
        "no job nobody runs here; `headrace jobs --state running` lists them",
    ]


def test_of_an_array_an_element_has_to_be_named(hall):
    array = "default.ann.01kdvdna000000000000000001"
    spec = ArrayRange(first=3, last=9)
    admitted = f.JobAdmittedV1(job=array, policy="q", profile="one", request={GPU: GPU_UNITS}, array=spec)
    hall.append_facts(admitted, by="admission")
    why = f"job: {array} is an array, and elements are taken one by one: name an element, such as {array}-000003"
    for name in (array, array.rpartition(".")[2]):
        decision = decided(hall, name)
        assert (decision.code, decision.error, decision.facts) == ("INVALID", why, ())
