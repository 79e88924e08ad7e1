from __future__ import annotations

from types import SimpleNamespace

import pytest
from google.protobuf.json_format import MessageToDict

from headrace.contracts.messages.audit import Finding, PoolBins, TimelineAnswer, VerifyReport
from headrace.contracts.messages.preemptions import (
    AttemptView,
    PreemptionJobView,
    PreemptionView,
    StepView,
    VictimView,
)
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.governance.api import timeline, verification
from headrace.governance.api.preemptions import message_of
from headrace.identity.caller import Caller, Role

VICTIM = PreemptionJobView(job="acme.alice.01h", name="tune", user="alice", queue="rnd/any")


def test_a_preemption_names_jobs_as_resources_and_amounts_in_gpu_seconds() -> None:
    attempt = AttemptView(attempt=1, pool="hq", nodes=("n1",), granted_at=SECOND, started_at=2 * SECOND)
    victim = VictimView(
        job=VICTIM,
        expected=9,
        lost=str(12 * GPU_UNITS * SECOND),
        attempt=attempt,
        steps=(StepView(rank=0, rung="term", at=3 * SECOND, took=5, result="ok"),),
    )
    view = PreemptionView(
        ordered=81_234,
        place=1,
        preemptor=PreemptionJobView(),
        pool="hq",
        cause="reclaim",
        rule="R26",
        ordered_at=2 * SECOND,
        victims=(victim,),
        others=3,
    )
    assert MessageToDict(message_of(view), preserving_proto_field_name=True) == {
        "name": "preemptions/81234.1",
        "preemptor": {},
        "pool": "hq",
        "cause": "reclaim",
        "rule": "R26",
        "order_time": "1970-01-01T00:00:02Z",
        "others": 3,
        "victims": [
            {
                "job": {
                    "job": "tenants/acme/jobs/01h",
                    "display_name": "tune",
                    "user": "alice",
                    "queue": "rnd/any",
                },
                "expected_loss": "9",
                "lost": "12",
                "attempt": {
                    "attempt": 1,
                    "pool": "hq",
                    "nodes": ["n1"],
                    "grant_time": "1970-01-01T00:00:01Z",
                    "start_time": "1970-01-01T00:00:02Z",
                },
                "steps": [{"rung": "term", "time": "1970-01-01T00:00:03Z", "took": "5", "result": "ok"}],
            }
        ],
    }


@pytest.mark.parametrize(("role", "findings"), [(Role.PROVIDER_VIEWER, 1), (Role.TENANT_ADMIN, 0), (Role.TENANT_MEMBER, 0)])
def test_what_verification_found_is_told_to_the_provider_and_to_others_as_a_number(role: Role, findings: int) -> None:
    finding = Finding(kind="changed", sequence=5, through=5, text="record 5 of job emca.eve.01h was changed")
    report = VerifyReport(through=7, sealed_through=4, seals=2, seal_age=30, key="k", found=1, findings=(finding,))
    backend = SimpleNamespace(now=lambda: SECOND, state=SimpleNamespace(sequence=9))
    call = SimpleNamespace(caller=Caller(role, "acme", "ann"), backend=backend)
    shown = verification.message_of(report, call)  # type: ignore[arg-type]
    assert (shown.sequence, shown.behind, shown.sealed_sequence, shown.seals, shown.seal_age, shown.found) == (
        "7",
        2,
        "4",
        2,
        30,
        1,
    )
    assert len(shown.findings) == findings


def test_a_timeline_is_columns_by_bin() -> None:
    pool = PoolBins(
        pool="hq", usable=(8_000,), used=(500,), reserved=(500,), borrowed=(0,), kept=(0,), preemptions=(2,), growth=(1,)
    )
    answer = TimelineAnswer(
        since=SECOND, until=2 * SECOND, through=9, before=3, sequences=(9,), pools=(pool,), pending=(250,), changes=(4,)
    )
    assert MessageToDict(timeline.message_of(answer), preserving_proto_field_name=True) == {
        "since": "1970-01-01T00:00:01Z",
        "until": "1970-01-01T00:00:02Z",
        "before": "3",
        "sequence": ["9"],
        "pools": [
            {
                "pool": "hq",
                "usable": [8_000],
                "used": [500],
                "reserved": [500],
                "borrowed": [0],
                "kept": [0],
                "preemptions": [2],
                "growth": [1],
            }
        ],
        "pending": [250],
        "changes": [4],
        "through": "9",
    }
