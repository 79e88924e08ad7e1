from __future__ import annotations

import json

import msgspec
import pytest

from headrace.admission.judge import Asker
from headrace.admission.trial import try_message
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.messages.submissions import JobSubmission, JobSubmissions
from headrace.contracts.messages.trials import TrialRequest
from headrace.contracts.transport.codec import Malformed, encode
from headrace.contracts.transport.digests import submission_digest
from headrace.contracts.transport.subjects import by, submit
from headrace.contracts.values.amounts import GPU, GPU_MEMORY, GPU_UNITS
from headrace.contracts.values.ids import IdError, make_job_id
from tests.unit.allocator.history import START, History, gpus, policy
from tests.unit.domain.site import applied
from tests.unit.domain.snapshot import differences, snapshot
from tests.unit.provisioner.cloud import OFFERS, cloud

ANN = Asker("default", "ann", "ml", "one")
QUEUE = submit(*ANN[:4])
KNOWN = JobSubmission(id=make_job_id(START // 1_000, bytes(10)), command=("a",))


def submission(number: int, **fields: object) -> JobSubmission:
    return JobSubmission(**{"id": make_job_id(START // 1_000, bytes([0] * 9 + [number])), "command": ("a",), **fields})


@pytest.fixture
def history() -> History:
    history = History()
    history.append_facts(f.PolicyAppliedV1(author="a.b", policy=policy("ml", max_pending=2, limit=gpus(8))), by="governance")
    fact = f.JobAdmittedV1(
        job=f"default.ann.{KNOWN.id}",
        policy="ml",
        profile="one",
        request={GPU: GPU_UNITS},
        digest=submission_digest(ANN.policy, ANN.profile, KNOWN),
    )
    history.append_facts(fact, by="admission")
    return history


def verdicts(history: History, *submissions: JobSubmission, subject: str = QUEUE) -> list[tuple[str, str]]:
    """(handle and id, reason) of each; the state is left alone."""
    before = snapshot(history.state)
    message = encode(submissions[0]) if len(submissions) == 1 else encode(JobSubmissions(jobs=submissions))
    answer = try_message(history.state, TrialRequest(subject=subject, message=msgspec.Raw(message)), history.now)
    assert differences(snapshot(history.state), before) == []
    return [(one.job.partition(".")[2], one.reason) for one in answer.verdicts]


def test_each_submission_is_judged_as_if_those_before_it_had_been_admitted(history):
    asked = [submission(1), submission(2), submission(3, request={"gpu": "64"})]
    assert verdicts(history, *asked) == [
        (f"ann.{asked[0].id}", ""),
        (f"ann.{asked[1].id}", "TOO_MANY_PENDING"),  # one waits, and the first would
        (f"ann.{asked[2].id}", "BEYOND_PROFILE"),
    ]


def test_a_job_that_is_there_is_one_already_and_its_id_good_for_nothing_else(history):
    other = msgspec.structs.replace(KNOWN, name="other")
    twice = (submission(1), submission(1), submission(1, name="another"))
    assert verdicts(history, KNOWN) == [(f"ann.{KNOWN.id}", "")]
    assert verdicts(history, other) == [(f"ann.{KNOWN.id}", "ID_REUSED")]
    assert [reason for _, reason in verdicts(history, *twice)] == ["", "", "ID_REUSED"]
    assert verdicts(history, submission(1, id="x")) == [("", "MALFORMED")]


def test_who_speaks_for_whom_is_judged_alike(history):
    first = submission(1)
    assert verdicts(history, first, subject=by(QUEUE, "acme", "boss")) == [(f"ann.{first.id}", "")]
    assert (
        verdicts(history, submission(2, on_behalf_of="ann"), subject=submit("default", "ci", "ml", "one"))[0][1]
        == "NOT_ALLOWED"
    )


def test_what_cannot_be_read_is_refused_as_a_whole(history):
    with pytest.raises(IdError):
        try_message(history.state, TrialRequest(subject="hr.submit.x", message=msgspec.Raw(encode(KNOWN))), history.now)
    with pytest.raises(Malformed):
        try_message(
            history.state, TrialRequest(subject=QUEUE, message=msgspec.Raw(json.dumps({"jobs": []}).encode())), history.now
        )


def test_what_new_nodes_would_cost_is_shown_once_for_equal_jobs(history):
    grows = cloud(offers=OFFERS, node=d.BurstNode(gpus=2, gpu_model="H100-80GB"))
    links = d.Profile(name="one", request={GPU: GPU_UNITS}, pools=("hall", "cloud"))
    history.append_facts(applied(grows), applied(links), applied(policy("ml", reservation=gpus(4))), by="governance")
    asked = JobSubmissions(jobs=(submission(1), submission(2), submission(3, preemptible=False)))
    request = TrialRequest(subject=QUEUE, message=msgspec.Raw(encode(asked)))
    answer = try_message(history.state, request, history.now)
    assert ([one.reason for one in answer.verdicts], answer.costs) == (
        ["", "", ""],
        (
            "1 new node of pool cloud by offer spot, at 1.00 an hour each: 0.20 at least",
            "1 new node of pool cloud by offer cheap, at 2.50 an hour each: 0.50 at least",
        ),
    )


def test_what_gpu_memory_is_of_each_model_is_shown_with_what_nodes_of_one_of_them_cost(history):  # R42
    grows = cloud(offers=OFFERS, node=d.BurstNode(gpus=2, gpu_model="H100-80GB"))
    other = d.Pool(
        name="other",
        selector={"pool": "other"},
        burst=d.Burst(provider="local", node=d.BurstNode(gpus=1, gpu_model="A100-40GB"), max_nodes=1),
    )
    of_memory = d.Profile(name="one", request={GPU_MEMORY: 20 * 1024}, pools=("other", "cloud"))
    history.append_facts(applied(grows), applied(other), applied(of_memory), by="governance")
    request = TrialRequest(subject=QUEUE, message=msgspec.Raw(encode(submission(1))))
    answer = try_message(history.state, request, history.now)
    assert ([(one.reason, one.message) for one in answer.verdicts], answer.costs) == (
        [("", "20GiB of GPU memory: 0.552 of A100-40GB, or 0.273 of H100-80GB")],
        ("1 new node of pool cloud by offer spot, at 1.00 an hour each: 0.20 at least",),
    )
