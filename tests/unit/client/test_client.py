"""The client over a link and an API that answer from a table: what is asked where, and what becomes of the answers."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager

import pytest

from headrace.client import Refused, SubmittedJob, Unreachable, following
from headrace.client import client as client_module
from headrace.client.api import ApiTarget
from headrace.client.client import Client
from headrace.client.contexts import Targets
from headrace.client.endpoint import ConnectionTarget, Login
from headrace.client.submissions import make_submission, new_job_id
from headrace.contracts.messages.queries import JobView
from headrace.contracts.messages.submissions import CANCELS_MAX, CancelManyRequest
from headrace.contracts.transport.codec import decode_cancel_many, decode_submit
from headrace.contracts.transport.digests import submission_digest

ID = "01jd3v8k5w2m4x6z8b0c2e4g6h"
KEY = f"acme.alice.{ID}"
ACK = b'{"stream": "SUBMIT", "seq": 7}'


def view(state="running", **more):
    return JobView(id=ID, job=KEY, tenant="acme", user="alice", name="", queue="ai-dev/half", state=state, **more)


def job_json(state="running", **more):
    """A job as the API says it."""
    named = {"name": f"tenants/acme/jobs/{ID}", "user": "alice", "queue": "ai-dev/half"}
    return named | {"state": state, "preemptible": True, "replicas": 1, **more}


class FakeLink:
    """Answers each question with the next of its answers, the last one for ever; hears what a test says."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.messages = asyncio.Queue()
        self.subject = ""

    async def open(self):
        return None

    async def ask(self, subject, payload=b"", headers=None, within=0):
        self.asked.append((subject, payload, headers))
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def listening(self, subject):
        self.subject = subject
        yield self.messages


class FakeApi:
    """Answers each call with the next of its answers, the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def get(self, path, query=None, within=0):
        return await self._answer(path, {key: value for key, value in (query or {}).items() if value})

    async def post(self, path, body=None, within=0):
        return await self._answer(path, body)

    async def lines(self, path, query=None):
        for one in await self._answer(path, query):
            yield one

    async def close(self):
        return None

    async def _answer(self, path, asked):
        self.asked.append((path, asked))
        await asyncio.sleep(0)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def make(monkeypatch):
    """A client of alice over a fake link with these answers, and an API with those of `asks`; without answers it knows the API only."""
    login = Login(name="acme-alice", password="p", tenant="acme", user="alice")
    nats = ConnectionTarget("nats://x", login)
    monkeypatch.setattr(following, "LOOK_AGAIN_OVER_API", 0.001)
    monkeypatch.setattr(following, "LOOK_AGAIN", 0.01)
    monkeypatch.setattr(following, "LAST_LOOK", 0.001)
    monkeypatch.setattr(following, "TRY_AGAIN", 0.001)
    monkeypatch.setattr(following, "STORED_WITHIN", 0.05)

    def make(*answers, asks=(), **options):
        targets = Targets(
            ApiTarget(socket="/x", token="p") if asks else None, nats if answers or not asks else None, "acme", "alice"
        )
        monkeypatch.setattr(client_module, "find_targets", lambda _: targets)
        make.link = FakeLink(*answers)
        hr = Client(**options)
        hr.api = FakeApi(*asks)
        return hr

    monkeypatch.setattr("headrace.client.link.Link", lambda _target: make.link)
    return make


def test_a_client_speaks_as_its_login_or_as_whom_it_is_told_to(make):
    assert (make().tenant, make().user) == ("acme", "alice")
    feed_message = make(tenant="emca", user="bob")
    assert (feed_message.tenant, feed_message.user) == ("emca", "bob")
    with pytest.raises(Refused, match="user: invalid name 'Bob Smith'"):
        make(user="Bob Smith")


async def test_a_submit_is_a_request_on_the_queue_of_the_user_without_a_message_id(make):
    hr = make(ACK)
    job = await hr.submit("ai-dev/half", ["python", "train.py"], id=ID, name="train", trace="")
    assert job == SubmittedJob(
        ID, KEY, submission_digest("ai-dev", "half", make_submission(["python", "train.py"], id=ID, name="train"))
    )
    ((subject, payload, headers),) = make.link.asked
    assert subject == "hr.submit.acme.alice.ai-dev.half"
    assert headers is None
    assert decode_submit(payload) == (make_submission(["python", "train.py"], id=ID, name="train", trace=""),)


async def test_a_submit_whose_acknowledgement_is_lost_is_repeated_with_the_same_id(make):
    hr = make(Unreachable("away"), ACK)
    await hr.submit("ai-dev/half", ["true"], id=ID)
    assert make.link.asked[0] == make.link.asked[1]


async def test_a_submit_that_is_never_acknowledged_fails(make):
    hr = make(Unreachable("away"))
    with pytest.raises(Unreachable, match="away"):
        await hr.submit("ai-dev/half", ["true"])
    assert len(make.link.asked) > 1


async def test_what_nats_takes_for_a_repetition_is_not_submitted(make):
    hr = make(b'{"stream": "SUBMIT", "seq": 7, "duplicate": true}')
    with pytest.raises(
        Refused, match="NATS took it for the repetition of another message .* did not store it; submit it again"
    ):
        await hr.submit("ai-dev/half", ["true"])


async def test_a_submit_that_the_stream_does_not_take_is_refused_with_the_way_out(make):
    hr = make(b'{"error": {"code": 503, "description": "maximum messages per subject exceeded"}}')
    with pytest.raises(Refused, match="NATS does not store it: maximum messages per subject exceeded; try again in a while"):
        await hr.submit("ai-dev/half", ["true"])


async def test_a_submit_beyond_the_cap_of_its_queue_is_refused_with_word_when_to_try_again(make):
    hr = make(b'{"error": {"code": 503, "err_code": 10077, "description": "maximum messages per subject exceeded"}}')
    with pytest.raises(Refused, match="^too many submissions of this queue are not judged yet; try again in 5 s$") as refused:
        await hr.submit("ai-dev/half", ["true"])
    assert (refused.value.code, refused.value.retry_after) == ("TOO_FAST", 5)


BUSY = b'{"error": {"code": 429, "err_code": 10167, "description": "too many requests"}, "stream": "SUBMIT", "seq": 0}'


async def test_a_submit_among_too_many_is_repeated_with_the_same_id(make):
    hr = make(BUSY, BUSY, ACK)
    await hr.submit("ai-dev/half", ["true"], id=ID)
    assert [asked == make.link.asked[0] for asked in make.link.asked] == [True] * 3


async def test_a_submit_for_which_there_is_no_room_all_the_time_is_refused_with_word_when_to_try_again(make):
    hr = make(BUSY)
    with pytest.raises(
        Refused, match="^too many submissions of this tenant, or of all, are being stored .* in 5 s$"
    ) as refused:
        await hr.submit("ai-dev/half", ["true"])
    assert (refused.value.code, refused.value.retry_after) == ("TOO_FAST", 5)
    assert len(make.link.asked) > 3


async def test_a_full_disk_is_said_in_the_words_of_who_has_seen_it(make):
    hr = make(b'{"error": {"code": 500, "err_code": 10047, "description": "the disk is full: it goes on by itself"}}')
    with pytest.raises(Refused, match="the disk is full: it goes on by itself; try again in 5 s") as caught:
        await hr.submit("ai-dev/half", ["true"])
    assert (caught.value.code, caught.value.retry_after) == ("DISK_FULL", 5)


async def test_a_disk_that_takes_no_more_is_not_a_queue_with_too_many_submissions(make):
    hr = make(b'{"error": {"code": 503, "err_code": 10077, "description": "write /srv/1.blk: no space left on device"}}')
    with pytest.raises(
        Refused, match=r"^NATS cannot write to its disk \(no space left on device\): .*; try again in 5 s$"
    ) as caught:
        await hr.submit("ai-dev/half", ["true"])
    assert (caught.value.code, caught.value.retry_after) == ("DISK_FULL", 5)


async def test_many_jobs_are_few_messages(make):
    hr = make(ACK)
    submissions = [make_submission(["true"]) for _ in range(1_500)]
    jobs = await hr.submit_many("ai-dev/half", submissions)
    assert [job.id for job in jobs] == [submission.id for submission in submissions]
    assert [[submission.id for submission in decode_submit(payload)] for _, payload, _ in make.link.asked] == [
        [submission.id for submission in submissions[:1_000]],
        [submission.id for submission in submissions[1_000:]],
    ]


@pytest.mark.parametrize(
    ("job", "subject"), [(ID, f"hr.cancel.acme.alice.{ID}"), (f"acme.bob.{ID}", f"hr.cancel.acme.bob.{ID}")]
)
async def test_a_cancel_is_a_request_about_ones_own_job_or_the_one_that_a_key_names(make, job, subject):
    hr = make(ACK)
    await hr.cancel(job, "wrong data")
    assert make.link.asked == [(subject, b'{"reason":"wrong data"}', None)]


async def test_many_jobs_are_cancelled_by_one_message_for_each_user(make):
    hr = make(ACK)
    many = [new_job_id() for _ in range(CANCELS_MAX)]
    await hr.cancel_many([ID, f"acme.bob.{ID}", *many], "wrong data")
    asked = [(subject, decode_cancel_many(payload)) for subject, payload, _ in make.link.asked]
    assert asked == [
        ("hr.cancel.acme.alice.many", CancelManyRequest(jobs=(ID, *many[:-1]), reason="wrong data")),
        ("hr.cancel.acme.alice.many", CancelManyRequest(jobs=(many[-1],), reason="wrong data")),
        ("hr.cancel.acme.bob.many", CancelManyRequest(jobs=(ID,), reason="wrong data")),
    ]


@pytest.mark.parametrize(
    ("job", "subject"), [(ID, f"hr.requeue.acme.alice.{ID}"), (f"acme.bob.{ID}", f"hr.requeue.acme.bob.{ID}")]
)
async def test_a_requeue_is_also_a_request(make, job, subject):
    hr = make(ACK)
    await hr.requeue(job, "slow node")
    assert make.link.asked == [(subject, b'{"reason":"slow node"}', None)]


async def test_what_is_not_utf_8_is_refused_before_it_travels(make):
    for ask in (
        lambda hr: hr.cancel(ID, "caf\udce9"),
        lambda hr: hr.cancel_many([ID], "caf\udce9"),
        lambda hr: hr.requeue(ID, "caf\udce9"),
    ):
        hr = make(ACK)
        with pytest.raises(Refused, match=r"^invalid text 'caf\\udce9': use UTF-8$") as caught:
            await ask(hr)
        assert (caught.value.code, make.link.asked) == ("INVALID", [])


async def test_what_is_not_a_job_is_refused_at_once(make):
    with pytest.raises(Refused, match="job: invalid job id 'nonsense'"):
        await make(ACK).cancel("nonsense")


PATH = f"/v1/tenants/acme/jobs/{ID}"


async def test_a_question_about_a_submission_says_what_that_was(make):
    hr = make(ACK, asks=[job_json("succeeded")])
    job = await hr.submit("ai-dev/half", ["true"], id=ID)
    assert [await hr.job(job), await hr.judged(job), await hr.wait(job)] == 3 * [view("succeeded")]
    assert hr.api.asked == 3 * [(f"/v1/tenants/acme/jobs/alice.{ID}", {"digest": job.digest})]


async def test_an_id_of_another_job_is_told_to_the_one_who_waits_for_a_submission(make):
    hr = make(ACK, asks=[Refused("ID_REUSED", "id: this id already names a job with other content")])
    job = await hr.submit("ai-dev/half", ["true"], id=ID)
    for ask in (hr.judged, hr.wait, hr.job):
        with pytest.raises(Refused, match="already names a job") as caught:
            await ask(job)
        assert caught.value.code == "ID_REUSED"


async def test_without_the_apis_address_a_question_says_what_to_set(make):
    hr = make(ACK)
    hr.api = None
    with pytest.raises(Unreachable, match="the API's address or token is unknown: set HEADRACE_SERVER"):
        await hr.job(ID)


async def test_who_knows_the_api_only_submits_cancels_and_requeues_over_it(make):
    hr = make(asks=[{}])
    job = await hr.submit("ai-dev/half", ["true"], id=ID, trace="")
    assert job.key == KEY
    await hr.cancel(ID, "wrong data")
    await hr.requeue(f"acme.bob.{ID}", "slow node")
    assert hr.api.asked == [
        ("/v1/tenants/acme/jobs:submit", {"queue": "ai-dev/half", "jobs": [{"id": ID, "command": ("true",)}], "user": "alice"}),
        ("/v1/tenants/acme/jobs:cancel", {"jobs": [f"tenants/acme/jobs/{ID}"], "reason": "wrong data"}),
        (f"/v1/tenants/acme/jobs/bob.{ID}:requeue", {"reason": "slow node"}),
    ]


async def test_who_prefers_the_api_submits_cancels_and_requeues_over_it_although_nats_is_known(make):
    hr = make(ACK, asks=[{}], prefers_api=True)
    await hr.submit("ai-dev/half", ["true"], id=ID, trace="")
    await hr.cancel(ID)
    await hr.requeue(ID)
    assert [path for path, _ in hr.api.asked] == [
        "/v1/tenants/acme/jobs:submit",
        "/v1/tenants/acme/jobs:cancel",
        f"/v1/tenants/acme/jobs/{ID}:requeue",
    ]
    assert make.link.asked == []


async def test_while_the_preferred_api_is_away_nats_gets_it(make):
    hr = make(ACK, ACK, ACK, asks=[Unreachable("away")], prefers_api=True)
    await hr.submit("ai-dev/half", ["true"], id=ID, trace="")
    await hr.cancel(ID)
    await hr.requeue(ID)
    subjects = ["hr.submit.acme.alice.ai-dev.half", "hr.cancel.acme.alice.many", f"hr.requeue.acme.alice.{ID}"]
    assert [subject for subject, *_ in make.link.asked] == subjects


async def test_what_the_preferred_api_refuses_is_not_tried_again(make):
    hr = make(ACK, asks=[Refused("NOT_ALLOWED", "no")], prefers_api=True)
    with pytest.raises(Refused, match="no"):
        await hr.submit("ai-dev/half", ["true"], id=ID, trace="")
    assert make.link.asked == []


async def test_a_submit_over_the_api_is_repeated_while_it_is_away(make):
    hr = make(asks=[Unreachable("away"), {}])
    await hr.submit("ai-dev/half", ["true"], id=ID)
    assert hr.api.asked[0] == hr.api.asked[1]


async def test_who_knows_the_api_only_hears_of_a_job_by_its_stream_and_waits_by_asking(make):
    event = {"time": "1970-01-01T00:00:00.000001Z", "sequence": "2", "number": 1, "fact": {"job": KEY}}
    stream = [event | {"type": kind} for kind in ("job", "lease.granted.v1", "alive", "job.ended.v1", "job.never.v1")]
    hr = make(asks=[job_json("pending"), stream])
    assert [fact.type async for fact in hr.watch(ID)] == ["lease.granted.v1", "job.ended.v1"]
    hr = make(asks=[job_json(), Unreachable("away"), job_json("succeeded")])
    assert await hr.wait(ID) == view("succeeded")


async def test_waiting_survives_a_job_that_is_not_known_yet_and_an_api_that_is_away(make):
    asks = [Refused("NOT_FOUND", "unknown"), Unreachable("away"), job_json(), job_json("succeeded", exit_code=0)]
    hr = make(ACK, asks=asks)
    assert await hr.wait(ID) == view("succeeded", exit_code=0)
    assert make.link.subject == f"hr.feed.acme.job.*.{ID}"


async def test_waiting_for_a_job_that_stays_unknown_ends(make, monkeypatch):
    monkeypatch.setattr(following, "UNKNOWN_FOR", 0.0)
    with pytest.raises(Refused, match="unknown"):
        await make(ACK, asks=[Refused("NOT_FOUND", "unknown")]).wait(ID)


def feed_message(kind, **fields):
    fact = {"type": kind, "at": 1, "sequence": 2, "number": 1, "job": KEY, **fields}
    noun, verb = kind.split(".")[:2]
    return f"hr.feed.acme.{noun}.{verb}.{ID}", json.dumps(fact).encode()


async def test_watching_yields_facts_until_the_end(make):
    hr = make(ACK, asks=[job_json("pending")])
    for message in (
        feed_message("lease.granted.v1"),
        ("hr.feed.acme.x.y.z", b"nonsense"),
        feed_message("job.ended.v1"),
        feed_message("job.never.v1"),
    ):
        make.link.messages.put_nowait(message)
    assert [fact.type async for fact in hr.watch(ID)] == ["lease.granted.v1", "job.ended.v1"]
    assert make.link.subject == f"hr.feed.acme.*.*.{ID}"


async def test_watching_a_job_that_has_ended_ends_at_once(make):
    assert [fact async for fact in make(ACK, asks=[job_json("failed")]).watch(ID)] == []


async def test_watching_notices_an_end_that_it_has_not_heard(make):
    hr = make(ACK, asks=[job_json(), job_json("cancelled")])
    assert [fact async for fact in hr.watch(ID)] == []


async def test_a_job_is_judged_once_it_is_known(make):
    hr = make(ACK, asks=[Refused("NOT_FOUND", "unknown"), job_json("rejected", reason="NOT_ALLOWED")])
    assert await hr.judged(ID) == view("rejected", reason="NOT_ALLOWED")


async def test_a_judgement_that_does_not_come_is_missing(make):
    assert await make(ACK, asks=[Refused("NOT_FOUND", "unknown")]).judged(ID, within=0.01) is None
