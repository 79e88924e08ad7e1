from __future__ import annotations

import json

import msgspec
import pytest

from headrace.contracts.messages.submissions import PRIORITY_MAX, RETRIES_MAX, After, JobSubmission, JobText
from headrace.contracts.transport.codec import Malformed, decode_submit, encode

JOB = "01kgz5v0q8x4m2c7b9n3d6f1ha"


def test_the_smallest_submission_is_an_id_and_a_command():
    assert encode(JobSubmission(id=JOB, command=("true",))) == f'{{"id":"{JOB}","command":["true"]}}'.encode()


def test_a_submission_says_all_that_the_command_line_can_ask_for():
    written = {
        "id": JOB,
        "command": ["python", "train.py"],
        "name": "train",
        "env": {"SEED": "1"},
        "secret_env": ["WANDB_API_KEY"],
        "image": "trainer:3",
        "workdir": "/srv/train",
        "preemptible": False,
        "priority": 5,
        "on_abort": ["python", "save.py"],
        "retries": 2,
        "time_limit": "1h30m",
        "after": [{"job": JOB, "when": "any"}],
        "request": {"gpu": "0.25", "cpu": 2, "memory": "8GiB"},
        "labels": {"experiment": "7"},
        "trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    }
    (submission,) = decode_submit(msgspec.json.encode(written))
    assert submission.after == (After(job=JOB, when="any"),)
    assert msgspec.json.decode(encode(submission)) == written


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", PRIORITY_MAX + 1),
        ("priority", -PRIORITY_MAX - 1),
        ("retries", RETRIES_MAX + 1),
        ("retries", -1),
        ("env", {"A": 1}),
        ("preemptible", "yes"),
        ("request", {"gpu": [1]}),
    ],
)
def test_a_submission_of_the_wrong_form_is_refused_where_it_is_wrong(field, value):
    with pytest.raises(Malformed, match=rf"\$\.{field}"):
        decode_submit(msgspec.json.encode({"id": JOB, "command": ["true"], field: value}))


def test_the_sealed_text_of_a_job_tolerates_fields_of_a_newer_version():
    assert msgspec.json.decode(b'{"command":["true"],"new":1}', type=JobText) == JobText(command=("true",))


@pytest.mark.parametrize("field", ["command", "on_abort", "secret_env", "after"])
def test_a_text_for_a_list_is_refused_with_what_to_write(field):
    encoded = json.dumps({"id": "x", "command": ["a"]} | {field: "echo hello"}).encode()
    for payload, path in ((encoded, field), (b'{"jobs": [' + encoded + b"]}", f"jobs[0].{field}")):
        with pytest.raises(Malformed) as caught:
            decode_submit(payload)
        assert str(caught.value) == f'{path}: write a list such as ["echo", "hello"], not one text'
