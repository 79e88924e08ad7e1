"""What a caller says becomes a submission that admission can read, or one line that names the field."""

from __future__ import annotations

import re

import pytest

from headrace.client.errors import Refused
from headrace.client.submissions import make_submission, new_job_id, new_trace, pack, parse_queue
from headrace.contracts.messages.submissions import SUBMISSION_BYTES_MAX, After, JobSubmission
from headrace.contracts.transport.codec import decode_submit
from headrace.contracts.transport.digests import submission_digest
from headrace.contracts.values.ids import is_job_id

ID = "01jd3v8k5w2m4x6z8b0c2e4g6h"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_ids_are_new_ulids_and_traces_are_w3c_traceparents():
    assert is_job_id(new_job_id())
    assert new_job_id() != new_job_id()
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01", new_trace())


def test_a_submission_has_an_id_and_a_trace_of_its_own():
    submission = make_submission(["true"])
    assert is_job_id(submission.id)
    assert submission == JobSubmission(id=submission.id, command=("true",), trace=submission.trace)


def test_everything_that_is_said_stands_in_the_submission():
    submission = make_submission(
        ["python", "train.py"],
        id=ID,
        name="train",
        env={"SEED": "7"},
        secret_env=["TOKEN"],
        image="registry/image",
        workdir="/work",
        preemptible=False,
        priority=3,
        on_abort=["python", "save.py"],
        retries=2,
        time_limit="1h30m",
        after=[ID, f"{ID}:any", f"acme.alice.{ID}:ok"],
        request={"gpu": 0.25, "cpu": "500m"},
        labels={"team": "vision"},
        trace=TRACE,
    )
    assert submission == JobSubmission(
        id=ID,
        command=("python", "train.py"),
        name="train",
        env={"SEED": "7"},
        secret_env=("TOKEN",),
        image="registry/image",
        workdir="/work",
        preemptible=False,
        priority=3,
        on_abort=("python", "save.py"),
        retries=2,
        time_limit="1h30m",
        after=(After(job=ID), After(job=ID, when="any"), After(job=ID)),
        request={"gpu": "0.25", "cpu": "500m"},
        labels={"team": "vision"},
        trace=TRACE,
    )


@pytest.mark.parametrize(
    ("command", "fields", "message"),
    [
        ("python train.py", {}, "command: write a list of words"),
        (["x"], {"on_abort": "python save.py"}, "on_abort: write a list of words such as"),
        (["x"], {"secret_env": "HF_TOKEN"}, "secret_env: write a list of words such as"),
        (["x"], {"after": ID}, "after: write a list of words such as"),
        ([], {}, "command: write what is to run"),
        ([""], {}, "command: write what is to run"),
        (["x"] * 257, {}, "command: at most 256 words, this has 257"),
        (["x", 1], {}, r"command\[1\]: expected `str`, got `int`"),
        (["x"], {"on_abort": ["x"] * 257}, "on_abort: at most 256 words"),
        (["x"], {"id": "nonsense"}, "id: invalid job id 'nonsense'"),
        (["x"], {"time_limit": "5x"}, "time_limit: invalid duration '5x'"),
        (["x"], {"after": ["yesterday"]}, "after: invalid dependency 'yesterday'"),
        (["x"], {"after": [f"{ID}:maybe"]}, "after: invalid dependency .*: use <job id>, <job id>:ok or <job id>:any"),
        (["x"], {"request": {"gpu": 0.3333}}, "request.gpu: 0.3333 gpu is not exact"),
        (["x"], {"priority": 10_000_000}, "priority: expected `int` <= 1000000"),
        (["x"], {"retries": -1}, "retries: expected `int` >= 0"),
    ],
)
def test_what_cannot_be_is_refused_before_it_travels(command, fields, message):
    with pytest.raises(Refused, match=message) as caught:
        make_submission(command, **fields)
    assert caught.value.code == "INVALID"


@pytest.mark.parametrize("text", ["caf\udce9", "\0"], ids=["bytes that are not UTF-8", "NUL"])
@pytest.mark.parametrize(
    ("field", "fields_of"),
    [
        ("name", lambda text: {"name": text}),
        ("command", lambda text: {"command": ["echo", text]}),
        ("on_abort", lambda text: {"on_abort": [text]}),
        ("env", lambda text: {"env": {text: "x"}}),
        ("env.A", lambda text: {"env": {"A": text}}),
        ("secret_env", lambda text: {"secret_env": [text]}),
        ("image", lambda text: {"image": text}),
        ("workdir", lambda text: {"workdir": text}),
        ("labels", lambda text: {"labels": {text: "x"}}),
        ("labels.a", lambda text: {"labels": {"a": text}}),
        ("on_behalf_of", lambda text: {"on_behalf_of": text}),
    ],
)
def test_a_text_that_cannot_travel_or_reach_a_process_is_refused_by_its_field(field, fields_of, text):
    with pytest.raises(Refused) as caught:
        make_submission(**({"command": ["true"]} | fields_of(text)))
    why = "this is not UTF-8; write it as UTF-8, or keep such bytes in a file that the job reads"
    assert (caught.value.code, str(caught.value)) == (
        "INVALID",
        f"{field}: {why if text != chr(0) else 'a NUL character is not allowed; leave it out'}",
    )


def test_a_queue_is_a_policy_and_a_profile():
    assert parse_queue("ai-dev/half") == ("ai-dev", "half")
    for name in ("ai-dev", "ai-dev/", "/half", "a/b/c", "A/b"):
        with pytest.raises(Refused, match="queue: invalid queue .*: use <policy>/<profile>"):
            parse_queue(name)


def test_one_job_is_a_message_by_itself_and_several_are_one_message():
    one, two = make_submission(["true"]), make_submission(["false"])
    assert [decode_submit(payload) for _, payload in pack([one])] == [(one,)]
    assert [decode_submit(payload) for _, payload in pack([one, two])] == [(one, two)]
    assert pack([]) == []


def test_no_message_has_more_than_a_thousand_jobs():
    submissions = [make_submission(["true"], id=ID) for _ in range(2_001)]
    assert [len(jobs) for jobs, _ in pack(submissions)] == [1_000, 1_000, 1]


def test_no_message_is_larger_than_the_bus_takes():
    submissions = [make_submission(["echo", "x" * 100_000]) for _ in range(25)]
    messages = pack(submissions)
    assert [submission for jobs, _ in messages for submission in jobs] == submissions
    assert [decode_submit(payload) for _, payload in messages] == [jobs for jobs, _ in messages]
    assert max(len(payload) for _, payload in messages) <= SUBMISSION_BYTES_MAX


def test_a_job_that_is_too_large_by_itself_is_refused():
    with pytest.raises(Refused, match="a job is at most 1048576 bytes"):
        pack([make_submission(["echo", "x" * SUBMISSION_BYTES_MAX])])


def test_the_order_of_maps_is_not_content():
    first = make_submission(["true"], id=ID, trace="", env={"B": "1", "A": "2"}, labels={"y": "1", "x": "2"})
    second = make_submission(["true"], id=ID, trace="", env={"A": "2", "B": "1"}, labels={"x": "2", "y": "1"})
    assert submission_digest("p", "q", first) == submission_digest("p", "q", second)
