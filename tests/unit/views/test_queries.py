"""Answers to people."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec import structs

from headrace.bus.log import LogRefused, LogUnavailable
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Tenant
from headrace.contracts.messages.explanation import WhyView
from headrace.contracts.messages.orders import LogsRequest
from headrace.contracts.messages.queries import JobRequest, LogsAnswer
from headrace.contracts.transport.codec import Malformed, decode, encode
from headrace.contracts.transport.subjects import node_logs
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.service.answering import Refused
from headrace.views import tenant_views
from headrace.views.history import History
from headrace.views.job_index import JobIndex, Rejected, jobs_of
from headrace.views.queries import Queries, Sources

REJECTED = "acme.alice.01k00000000000000000000009"


class FakeNode:
    """A node that answers for its jobs' output with `answers`, in order."""

    def __init__(self, *answers):
        self.asked = []
        self._answers = list(answers)

    async def ask(self, subject, payload=b"", headers=None, within=0):
        self.asked.append((subject, decode(payload, LogsRequest)))
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return SimpleNamespace(data=answer)


@pytest.fixture
def ask(hall):
    """`ask(what, request, tenant, user)` is the answer of a feed that has followed the story."""
    index, history = JobIndex(hall.state), History()

    def note(record, sequence):
        keys = jobs_of(record)
        index.note(record, keys)
        history.note(keys, sequence)

    hall.note = note
    sources = Sources(hall.state, index, history, hall.log, None, {}, lambda: hall.now)

    async def ask(what, request=None, tenant="acme", user="alice"):
        queries = Queries(sources._replace(wire=ask.node, ledger=ask.ledger))
        if what == "job":
            found = queries.find(tenant, user, request.job)
            if request.digest:
                queries.check_content(found, tenant, user, request.digest)
            waits = tenant_views.WaitReasons(hall.state, hall.now)
            is_rejected = isinstance(found, Rejected)
            return tenant_views.rejected_view(found) if is_rejected else tenant_views.job_view(found, waits, all_attempts=True)
        answer = getattr(queries, what)(tenant, user, request if isinstance(request, bytes) else encode(request))
        return await answer if hasattr(answer, "__await__") else answer

    ask.node = None
    ask.ledger = hall.log
    return ask


def reject(hall):
    hall.append_facts(
        "admission", f.JobRejectedV1(job=REJECTED, policy="dev", profile="one", reason="TOO_FAST", message="slow down")
    )


@pytest.mark.parametrize(("user", "owner"), [("alice", "alice"), ("bob", "bob"), ("carol", "alice")])
async def test_a_job_is_found_by_its_id_the_askers_own_first(hall, ask, user, owner):
    hall.admit(hall.job(1))
    hall.admit(hall.job(1, user="bob"))
    assert (await ask("job", JobRequest(job=hall.job(1)[-26:]), user=user)).job == hall.job(1, user=owner)


async def test_an_id_of_another_job_is_told_to_its_owner_and_to_no_one_who_guesses(hall, ask):
    hall.admit(hall.job(1))
    hall.append_facts(
        "admission", f.JobRejectedV1(job=REJECTED, policy="dev", profile="one", reason="TOO_FAST", message="slow", digest="r")
    )
    for key, digest in ((hall.job(1), ""), (REJECTED, "r")):
        assert (await ask("job", JobRequest(job=key, digest=digest))).job == key
        with pytest.raises(Refused, match="already names a job with other content; make a new ULID") as caught:
            await ask("job", JobRequest(job=key, digest="x"))
        assert caught.value.code == "ID_REUSED"
    hall.append_facts("governance", f.GroupAppliedV1(author="a.b", group=Group(tenant="acme", name="all", members=("bob",))))
    for key in (hall.job(1), REJECTED):
        assert (await ask("job", JobRequest(job=key, digest="x"), user="bob")).job == key


async def test_a_job_is_found_by_its_whole_key(hall, ask):
    hall.admit(hall.job(1, user="bob"))
    assert (await ask("job", JobRequest(job=hall.job(1, user="bob")))).user == "bob"


@pytest.mark.parametrize("what", ["job", "why", "facts", "logs"])
async def test_another_tenants_job_is_not_there(hall, ask, what):
    job = hall.job(1, tenant="rival")
    hall.admit(job)
    for text in (job, job[-26:]):
        with pytest.raises(Refused, match=f"tenant acme has no job {text}") as refused:
            await ask(what, JobRequest(job=text))
        assert refused.value.code == "NOT_FOUND"


async def test_what_is_not_a_job_id_is_told_so(ask):
    with pytest.raises(Refused, match="job: 'train' is not a job id") as refused:
        await ask("job", JobRequest(job="train"))
    assert refused.value.code == "INVALID"


@pytest.mark.parametrize("payload", [b"{}", b"[]", b'{"job": 1}'])
async def test_an_invalid_request_is_malformed(ask, payload):
    with pytest.raises(Malformed):
        await ask("why", payload)


async def test_a_job_that_has_left_is_told_so_with_its_state(hall, ask):
    for number, state in enumerate(["succeeded", "cancelled"]):
        hall.admit(hall.job(number))
        hall.finish(hall.job(number), state, attempt=0)
    hall.pass_time(HOUR // SECOND)
    hall.node()
    for number, message in enumerate(["it succeeded", "it was cancelled"]):
        with pytest.raises(Refused, match=message):
            await ask("job", JobRequest(job=hall.job(number)))


async def test_a_rejected_job_is_found_and_says_why(hall, ask):
    reject(hall)
    assert (await ask("job", JobRequest(job=REJECTED))).reason == "TOO_FAST"
    assert await ask("why", JobRequest(job=REJECTED)) == WhyView(
        job=REJECTED, state="rejected", reason="TOO_FAST", message="slow down"
    )
    assert [line.text for line in await ask("facts", JobRequest(job=REJECTED))] == ["rejected: TOO_FAST: slow down"]
    with pytest.raises(Refused, match="it has no output"):
        await ask("logs", JobRequest(job=REJECTED))


async def test_why_it_waited_then_says_which_record_it_reflects(hall, ask):
    first, second = hall.job(1), hall.job(2)
    for job in (first, second):
        hall.admit(job)
    behind, then = hall.state.sequence, hall.now
    hall.now += 1_000_000
    hall.grant(second, ("gpu01", "g0"))
    for request in (JobRequest(job=second, sequence=behind), JobRequest(job=second, at=then)):
        answer = await ask("why", request)
        view = decode(bytes(answer.body), WhyView)
        assert (answer.sequence, view.sequence, view.state, view.position) == (behind, behind, "pending", 2)
    assert (await ask("why", JobRequest(job=second, sequence=hall.state.sequence + 9))).state == "running"


async def test_then_a_job_was_not_there_yet_or_had_been_rejected(hall, ask):
    before = hall.state.sequence
    hall.admit(hall.job(1))
    reject(hall)
    after = hall.state.sequence
    hall.admit(hall.job(2))
    with pytest.raises(Refused, match=f"had no job .* behind record {before}"):
        await ask("why", JobRequest(job=hall.job(1), sequence=before))
    answer = await ask("why", JobRequest(job=REJECTED, sequence=after))
    assert decode(bytes(answer.body), WhyView).reason == "TOO_FAST"
    with pytest.raises(Refused, match="neither is less than 0"):
        await ask("why", JobRequest(job=hall.job(1), at=-1))


async def test_another_tenant_finds_nothing_in_the_past_either(hall, ask):
    hall.admit(hall.job(1))
    behind = hall.state.sequence
    hall.admit(hall.job(2))
    with pytest.raises(Refused, match="had no job"):
        await ask("why", JobRequest(job=hall.job(1), sequence=behind), tenant="rival", user="mallory")


async def test_why_is_explained_as_of_now(hall, ask):
    hall.admit(hall.job(1))
    why = await ask("why", JobRequest(job=hall.job(1)))
    assert (why.job, why.state, why.reason, why.position) == (hall.job(1), "pending", "BEHIND_HIGHER_RANK", 1)


async def test_the_story_of_a_job_is_read_from_the_ledger(hall, ask):
    job = hall.job(1)
    hall.admit(job)
    hall.admit(hall.job(2))
    hall.grant(job, ("gpu01", "g0"))
    assert [(line.sequence, line.by, line.text) for line in await ask("facts", JobRequest(job=job))] == [
        (3, "admission", "admitted to dev/one: asks for gpu 1"),
        (5, "allocator", "attempt 1 granted gpu 1 on gpu01 of pool hall (g0), borrowed"),
    ]


async def test_a_story_whose_beginning_is_gone_begins_later_and_one_that_cannot_be_read_is_refused(hall, ask):
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    await hall.log.purge_through(3)
    assert [line.sequence for line in await ask("facts", JobRequest(job=job))] == [4]

    class Away:
        async def get(self, sequence):
            raise LogUnavailable("NATS is away")

    ask.ledger = Away()
    with pytest.raises(Refused, match="NATS is away") as refused:
        await ask("facts", JobRequest(job=job))
    assert refused.value.code == "UNAVAILABLE"


async def two_attempts(hall):
    job = hall.job(1)
    hall.node("gpu02")
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    hall.end(job, exit_code=1)
    hall.append_facts("allocator", f.JobRequeuedV1(job=job, attempt=1, cause="failed"))
    hall.grant(job, ("gpu02", "g0"), attempt=2)
    return job


@pytest.mark.parametrize(("attempt", "asked", "node"), [(0, 2, "gpu02"), (1, 1, "gpu01"), (2, 2, "gpu02")])
async def test_output_comes_from_the_node_of_the_attempt(hall, ask, attempt, asked, node):
    job = await two_attempts(hall)
    output = LogsAnswer(data="epoch 1", next_offset=12, ended=True)
    ask.node = FakeNode(encode(output))
    assert await ask("logs", JobRequest(job=job, attempt=attempt, offset=5)) == output
    assert ask.node.asked == [(node_logs(node), LogsRequest(job=job, attempt=asked, offset=5))]


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        ({"attempt": 3}, "NOT_FOUND", "has attempts 1 to 2, not 3"),
        ({"rank": 1}, "INVALID", "rank: attempt 2 has replicas 0 to 0, not 1"),
        ({"rank": -1}, "INVALID", "rank: attempt 2 has replicas 0 to 0, not -1"),
    ],
)
async def test_output_of_what_never_was_is_refused(hall, ask, request_, code, message):
    job = await two_attempts(hall)
    with pytest.raises(Refused, match=message) as refused:
        await ask("logs", JobRequest(job=job, **request_))
    assert refused.value.code == code


async def test_output_is_its_owners_and_of_who_runs_the_tenant_or_is_trusted_with_it(hall, ask):
    job = await two_attempts(hall)
    policy = hall.state.jobs[job].policy.document
    group = Group(tenant="acme", name="dev", members=("alice", "bob"), service_accounts=("ci", "cd"), on_behalf=("ci",))
    hall.append_facts(
        "governance",
        f.GroupAppliedV1(author="a.b", group=group),
        f.TenantAppliedV1(author="a.b", tenant=Tenant(name="acme", admins=("lea",))),
        f.PolicyAppliedV1(author="a.b", policy=structs.replace(policy, group="dev")),
        f.MembershipClaimedV1(tenant="acme", handle="rita", groups=("dev",), issued_at=1, until=hall.state.now + 1_000_000),
    )
    ask.node = FakeNode(*([encode(LogsAnswer(data="epoch 1"))] * 4))
    for who in ("alice", "lea", "ci", "operator"):
        assert (await ask("logs", JobRequest(job=job), user=who)).data == "epoch 1", who
    for who in ("bob", "cd", "rita"):
        with pytest.raises(Refused, match="is for alice and who runs the tenant to read"):
            await ask("logs", JobRequest(job=job), user=who)


async def test_a_job_that_has_not_started_has_no_output(hall, ask):
    hall.admit(hall.job(1))
    with pytest.raises(Refused, match="has not started yet"):
        await ask("logs", JobRequest(job=hall.job(1)))


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (LogUnavailable("nobody listens"), "UNAVAILABLE", r"node gpu02, which has the output, is away \(ready\)"),
        (LogRefused("too big"), "UNAVAILABLE", "gives no output: too big"),
        (b"no JSON", "UNAVAILABLE", "gives no output"),
        (encode(LogsAnswer(error="it was deleted")), "NOT_FOUND", "node gpu02: it was deleted"),
    ],
)
async def test_a_node_that_gives_no_output_is_told_so(hall, ask, answer, code, message):
    job = await two_attempts(hall)
    ask.node = FakeNode(answer)
    with pytest.raises(Refused, match=message) as refused:
        await ask("logs", JobRequest(job=job))
    assert refused.value.code == code
