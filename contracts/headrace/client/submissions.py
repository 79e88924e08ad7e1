"""Makes a submission from a caller's arguments (R14): the id, the trace, and every field checked before it is sent."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypedDict, Unpack

import msgspec

from headrace.client.errors import Refused
from headrace.contracts.messages.submissions import (
    COMMAND_MAX,
    JOBS_MAX,
    SUBMISSION_BYTES_MAX,
    After,
    JobSubmission,
    JobSubmissions,
)
from headrace.contracts.transport.encoding import encode
from headrace.contracts.values.amounts import AmountError, parse_amount
from headrace.contracts.values.arrays import ArrayError, parse_array
from headrace.contracts.values.durations import DurationError, parse_duration
from headrace.contracts.values.ids import ENTROPY_BYTES, JobId, is_job_id, is_token, is_ulid, make_job_id


class SubmissionOptions(TypedDict, total=False):
    """Fields of a job besides its queue and command; all are optional.

    `after` names jobs of the same user that have to end first: `"<id>"` or `"<id>:ok"` (with success), `"<id>:any"`. `request` lowers the
    profile's amounts, written as in documents. `time_limit` is a duration such as `1h30m`. `secret_env` names variables whose values the
    node
    finds. `on_behalf_of`: the member of the group for whom a service account submits, and who owns the job. `id` is a lower-case ULID; the
    same
    id again is the same job. `array` such as `0-499%8`: an array of 500 jobs, at most 8 of them at once.
    """

    id: str
    name: str
    env: Mapping[str, str]
    secret_env: Sequence[str]
    image: str
    workdir: str
    preemptible: bool
    priority: int
    on_abort: Sequence[str]
    retries: int
    time_limit: str
    after: Sequence[str]
    request: Mapping[str, str | int | float]
    labels: Mapping[str, str]
    trace: str
    on_behalf_of: str
    array: str


LISTS = {
    "command": "['python', 'train.py']",
    "on_abort": "['python', 'save.py']",
    "secret_env": "['HF_TOKEN']",
    "after": "['01jd3v8k5w2m4x6z8b0c2e4g6h']",
}
"""Fields that are lists, each with an example."""


def new_job_id() -> JobId:
    """A new id with the current time."""
    return make_job_id(time.time_ns() // 1_000_000, os.urandom(ENTROPY_BYTES))


def new_trace() -> str:
    """A new W3C traceparent: the root of the trace from the submit to the job's exit."""
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"


def make_submission(command: Sequence[str], **options: Unpack[SubmissionOptions]) -> JobSubmission:
    """The submission. Raises Refused (`INVALID`) with the name of an invalid field."""
    for field, words in (("command", command), *((name, options.get(name)) for name in ("on_abort", "secret_env", "after"))):
        if isinstance(words, (str, bytes)):
            raise _invalid(field, f"write a list of words such as {LISTS[field]}, not one text")
    fields: dict[str, object] = {"id": new_job_id(), "trace": new_trace(), **options, "command": list(command)}
    if "after" in options:
        fields["after"] = [_after(text) for text in options["after"]]
    if "request" in options:
        fields["request"] = {key: str(amount) for key, amount in options["request"].items()}
    try:  # maps in one order, which the API's maps do not keep: equal content has one digest on every way in (R14)
        submission = msgspec.convert(msgspec.to_builtins(fields, order="deterministic"), JobSubmission)
    except (msgspec.ValidationError, TypeError) as error:
        problem, _, place = str(error).partition(" - at `$.")
        raise _invalid(place.rstrip("`"), problem[:1].lower() + problem[1:]) from None
    _check(submission)
    return submission


def parse_queue(queue: str) -> tuple[str, str]:
    """(policy, profile) of a queue's name. Raises Refused if malformed."""
    policy, _, profile = queue.partition("/")
    if not (is_token(policy) and is_token(profile)):
        raise _invalid("queue", f"invalid queue {queue!r}: use <policy>/<profile>")
    return policy, profile


def pack(submissions: Iterable[JobSubmission]) -> list[tuple[tuple[JobSubmission, ...], bytes]]:
    """The submissions in as few messages as possible, each with its jobs: up to 1,000 jobs and 1 MiB per message."""
    messages: list[tuple[tuple[JobSubmission, ...], bytes]] = []
    group: list[JobSubmission] = []
    size = 0
    for submission in submissions:
        length = len(encode(submission)) + 1
        if length > SUBMISSION_BYTES_MAX - 16:
            raise _invalid("", f"a job is at most {SUBMISSION_BYTES_MAX} bytes, this has {length}; put large input into files")
        if group and (len(group) == JOBS_MAX or size + length > SUBMISSION_BYTES_MAX - 16):
            messages.append(_message(group))
            group, size = [], 0
        group.append(submission)
        size += length
    if group:
        messages.append(_message(group))
    return messages


def _message(group: list[JobSubmission]) -> tuple[tuple[JobSubmission, ...], bytes]:
    jobs = tuple(group)
    return jobs, encode(jobs[0] if len(jobs) == 1 else JobSubmissions(jobs=jobs))


def _after(text: str) -> dict[str, str]:
    job, _, when = text.partition(":")
    submission = After(job=job.rpartition(".")[2], when=when or "ok")
    if not is_job_id(submission.job) or submission.when not in {"ok", "any"}:
        raise _invalid("after", f"invalid dependency {text!r}: use <job id>, <job id>:ok or <job id>:any")
    return {"job": submission.job, "when": submission.when}


def _check(submission: JobSubmission) -> None:
    if not is_ulid(submission.id):
        raise _invalid("id", f"invalid job id {submission.id!r}: use a lower-case ULID of 26 characters")
    for field, words in (("command", submission.command), ("on_abort", submission.on_abort)):
        if len(words) > COMMAND_MAX:
            raise _invalid(field, f"at most {COMMAND_MAX} words, this has {len(words)}; put them into a script")
    if not submission.command or not submission.command[0]:
        raise _invalid("command", "write what is to run")
    for field, text in _texts(submission):
        _check_text(field, text)
    try:
        if submission.time_limit:
            parse_duration(submission.time_limit)
    except DurationError as error:
        raise _invalid("time_limit", str(error)) from None
    try:
        if submission.array:
            parse_array(submission.array)
    except ArrayError as error:
        raise _invalid("array", str(error)) from None
    for key, amount in submission.request.items():
        try:
            parse_amount(key, str(amount))
        except AmountError as error:
            raise _invalid(f"request.{key}", str(error)) from None


def _texts(submission: JobSubmission) -> Iterator[tuple[str, str]]:
    """Every text of a job, with its field."""
    for field in ("name", "image", "workdir", "time_limit", "trace", "on_behalf_of"):
        yield field, getattr(submission, field)
    for field, words in (
        ("command", submission.command),
        ("on_abort", submission.on_abort),
        ("secret_env", submission.secret_env),
    ):
        yield from ((field, word) for word in words)
    for field, table in (("env", submission.env), ("labels", submission.labels)):
        for name, value in table.items():
            yield field, name
            yield f"{field}.{name}", value


def _check_text(field: str, text: str) -> None:
    """Raises Refused if the text cannot be sent, or not passed to a process. The message omits the text: it may be a secret."""
    if "\0" in text:
        raise _invalid(field, "a NUL character is not allowed; leave it out")
    try:
        text.encode()
    except UnicodeEncodeError:
        named = field.encode("utf-8", "backslashreplace").decode()
        raise _invalid(named, "this is not UTF-8; write it as UTF-8, or keep such bytes in a file that the job reads") from None


def _invalid(field: str, text: str) -> Refused:
    return Refused("INVALID", f"{field}: {text}" if field else text)
