"""R42, R43: which GPU models jobs that wait may be given once documents or nodes have changed."""

from __future__ import annotations

from headrace.allocator.matching import match_pending
from headrace.allocator.pending_review import review_pending
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.arrays import ArrayRange
from headrace.contracts.values.gpu_memory import ModelShare, share_with
from tests.unit.allocator.history import HALL, History, gpus, policy

H100, A100 = "gpu:H100", "gpu:A100"
ONE_H100, ONE_A100 = (ModelShare(model=model, gpu=GPU_UNITS) for model in ("H100", "A100"))


def govern(history: History, *models: str, **limit: int) -> None:
    """From now on the hall governs these models, and the policy has a limit."""
    pool = d.Pool(name="hall", selector=HALL.selector, capacity={f"gpu:{model}": 8 * GPU_UNITS for model in models})
    history.law(d.Documents(pools=(pool,), policies=(policy("q", limit=limit),)))


def test_jobs_that_wait_are_matched_when_a_pool_begins_to_govern_a_model_and_granted_only_then():
    history = History(policy("q"))
    history.node("large", 1)
    history.node("small", 1, model="A100")
    history.learn()
    jobs = [history.admit("q/one") for _ in range(3)]
    govern(history, "H100", **{H100: 0})

    facts = history.allocate()

    assert facts == tuple(f.JobMatchedV1(job=job.key, shares=(ONE_A100,), by_model=True) for job in jobs)
    assert [(fact.job, fact.node, fact.amounts) for fact in history.allocate()] == [
        (jobs[0].key, "small", {GPU: GPU_UNITS, A100: GPU_UNITS, "job": 1})
    ]


def test_what_is_granted_is_charged_the_model_and_a_limit_of_the_model_binds():
    history = History(policy("q"))
    history.node("large", 2)
    history.learn()
    govern(history, "H100", **{H100: GPU_UNITS})
    first, second = (history.admit("q/one") for _ in range(2))
    history.allocate()

    granted = [fact for fact in history.allocate() if isinstance(fact, f.LeaseGrantedV1)]

    assert [(fact.job, fact.amounts) for fact in granted] == [(first.key, {GPU: GPU_UNITS, H100: GPU_UNITS, "job": 1})]
    assert history.state.policies["default", "q"].wide.use == {GPU: GPU_UNITS, H100: GPU_UNITS, "job": 1}
    assert second.state == "pending"


def test_a_job_that_can_be_given_no_model_under_its_limits_is_dismissed():
    history = History(policy("q"))
    history.node("large", 4)
    job = history.admit("q/three")
    govern(history, "H100", **{H100: 2 * GPU_UNITS})

    message = "it asks for 3 gpu:H100, the limit of policy default/q is 2"
    assert review_pending(history.state) == [f.JobDismissedV1(job=job.key, reason="EXCEEDS_POLICY_LIMIT", message=message)]


def test_a_model_that_registers_later_is_added_to_what_was_stated():
    history = History(policy("q"))
    history.node("small", 1, model="A100")
    stated = ModelShare(model="A100", gpu=share_with(81_920, 20_480))
    job = history.admit("q/half", gpu_memory=20_480, shares=(stated,), request={GPU: stated.gpu})
    assert match_pending(history.state) == []

    history.node("twin", 1, model="A100")
    assert match_pending(history.state) == []

    history.node("large", 1)
    [fact] = match_pending(history.state)
    assert (fact.job, fact.by_model, {share.model for share in fact.shares}) == (job.key, False, {"A100", "H100"})


def test_elements_of_an_array_are_matched_by_one_fact():
    history = History(policy("q"))
    history.node("large", 2)
    history.learn()
    key = "default.ann.01kdvdna000000000000000009"
    admitted = f.JobAdmittedV1(job=key, policy="q", profile="one", request=gpus(1), array=ArrayRange(first=0, last=9))
    history.append_facts(admitted, by="admission")
    govern(history, "H100", **{H100: 8 * GPU_UNITS})

    assert history.allocate() == (f.JobMatchedV1(job=key, shares=(ONE_H100,), by_model=True),)
    assert [fact.amounts[H100] for fact in history.allocate() if isinstance(fact, f.LeaseGrantedV1)] == [GPU_UNITS] * 2
    assert history.state.arrays[key].job.request.amounts == {GPU: GPU_UNITS, H100: GPU_UNITS}


def test_a_job_that_waits_for_another_is_matched_too():
    history = History(policy("q"))
    history.node("large", 2)
    first = history.admit("q/one")
    second = history.admit("q/one", after=(Dependency(job=first.key),))
    govern(history, "H100", **{H100: 8 * GPU_UNITS})

    assert [fact.job for fact in match_pending(history.state)] == [first.key, second.key]


def test_what_runs_is_charged_by_model_from_its_next_start_on():
    history = History(policy("q"))
    history.node("large", 1)
    history.learn()
    job = history.run("q/one")
    govern(history, "H100", **{H100: 8 * GPU_UNITS})
    history.allocate()
    assert history.state.policies["default", "q"].wide.use == {GPU: GPU_UNITS, "job": 1}

    history.append_facts(f.JobRequeueRequestedV1(job=job.key, attempt=1, by="default.ann"), by="admission")
    history.allocate()
    history.end(job, exit_code=143)
    facts = history.allocate()

    assert [type(fact) for fact in facts] == [f.JobRequeuedV1, f.JobMatchedV1]
    history.allocate()
    assert history.state.policies["default", "q"].wide.use == {GPU: GPU_UNITS, H100: GPU_UNITS, "job": 1}


def test_nothing_is_looked_at_where_no_pool_governs_a_model_and_no_job_asks_for_memory():
    history = History(policy("q"))
    history.node("large", 1)
    history.admit("q/one")
    assert match_pending(history.state) == []
