"""`jobs:submit`: submissions of the caller, or for a user who trusts the caller with it, durable on SUBMIT when it answers (R14)."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.errors import Refused as InvalidSubmission
from headrace.client.submissions import make_submission, pack, parse_queue
from headrace.contracts.api import jobs_pb2 as pb
from headrace.contracts.messages.queries import Answer
from headrace.contracts.messages.submissions import JOBS_MAX, JobSubmission
from headrace.contracts.messages.trials import TrialAnswer, TrialRequest, Verdict
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.transport.digests import submission_digest
from headrace.contracts.values.ids import is_token, job_key
from headrace.governance.api import names
from headrace.governance.api.errors import invalid, shown
from headrace.governance.api.job_messages import job_message
from headrace.governance.api.jobs import group_of, spoken, view_of
from headrace.governance.api.submit_batcher import STORED_WITHIN, SubmitBatcher
from headrace.governance.api.used_ids import UsedIds
from headrace.identity.caller import Role
from headrace.identity.principals import act_for
from headrace.identity.roles import authorize
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from headrace.governance.api.context import CallContext

JUDGED_WITHIN = 5.0

SUBMITTED = "submitted"
"""State of a job that is durable and not judged yet."""
PENDING, REJECTED = "pending", "rejected"


class SubmitService:
    """The service of `submit_jobs`, with its batcher."""

    def __init__(self) -> None:
        self._batcher = SubmitBatcher()
        self._used = UsedIds()

    async def submit_jobs(self, request: Any, call: CallContext) -> pb.SubmitJobsResponse:
        return await submit(request, call, self._batcher, self._used)


async def submit(request: Any, call: CallContext, batcher: SubmitBatcher, used: UsedIds) -> pb.SubmitJobsResponse:
    """Store all submissions, and return their jobs."""
    (tenant,) = names.parts_of(request.parent, "tenants/*", "parent")
    try:
        policy, profile = parse_queue(request.queue)
    except InvalidSubmission as refusal:
        raise invalid("queue", str(refusal).removeprefix("queue: ")) from None
    user = _for_whom(request.user, tenant, policy, call)
    if not 1 <= len(request.jobs) <= JOBS_MAX:
        raise invalid("jobs", f"write 1 to {JOBS_MAX} jobs, this has {len(request.jobs)}")
    subject, for_whom = spoken(lambda name: subjects.submit(tenant, name, policy, profile), tenant, user, call)
    submissions = [_submission(spec, index, for_whom) for index, spec in enumerate(request.jobs)]
    messages = pack(submissions)  # an error of size concerns only this caller
    keys: list[str] = [job_key(tenant, user, submission.id) for submission in submissions]
    await call.ready_to_submit()
    if request.validate_only:
        return await _verdicts(subject, messages, submissions, request.queue, call)
    digests = [submission_digest(policy, profile, submission) for submission in submissions]
    with used.claim(keys, digests, call.backend.state) as stored:
        place = await batcher.store(call.backend.submits, subject, submissions, min(call.within, STORED_WITHIN))
        stored(place)
    if request.wait:
        await _judged(keys, place, call)
    used.check(keys, digests, call.backend.state)
    sequence = call.backend.state.sequence
    jobs = [_shown(key, submission, request.queue, call) for key, submission in zip(keys, submissions, strict=True)]
    return pb.SubmitJobsResponse(jobs=jobs, sequence=str(sequence))


def _for_whom(user: str, tenant: str, policy: str, call: CallContext) -> str:
    """Owner of the jobs: the caller, or the user for whom the caller may act in the policy's queues. Raises ApiError."""
    caller = call.caller
    if user in ("", caller.handle):
        authorize(caller, call.method, tenant, caller.handle)
        return caller.handle
    if not is_token(user):
        raise invalid("user", f"{shown(user)!r} is not a name; use 1-63 of a-z, 0-9, '-'")
    if caller.role is Role.SERVICE_ACCOUNT:
        authorize(caller, call.method, tenant, caller.handle)
        return act_for(call.backend.state, caller, group_of(call.backend.state, tenant, policy), user).acting_for
    authorize(caller, call.method, tenant, user)
    return user


def _submission(spec: pb.JobSpec, index: int, on_behalf_of: str) -> JobSubmission:
    options: dict[str, Any] = {
        "on_behalf_of": on_behalf_of,
        "name": spec.name,
        "env": dict(spec.env),
        "secret_env": list(spec.secret_env),
        "image": spec.image,
        "workdir": spec.workdir,
        "priority": spec.priority,
        "on_abort": list(spec.on_abort),
        "retries": spec.retries,
        "time_limit": spec.time_limit,
        "after": [f"{one.job}:{one.when or 'ok'}" for one in spec.after],
        "request": dict(spec.request),
        "labels": dict(spec.labels),
        "array": spec.array,
    }
    if spec.HasField("preemptible"):
        options["preemptible"] = spec.preemptible
    options |= {name: value for name, value in (("id", spec.id), ("trace", spec.trace)) if value}
    try:
        return make_submission(list(spec.command), **options)
    except InvalidSubmission as refusal:
        field, _, message = str(refusal).partition(": ")
        fault = invalid(f"jobs[{index}].{field}" if message else f"jobs[{index}]", message or str(refusal))
        raise fault from None


async def _verdicts(
    subject: str,
    messages: list[tuple[tuple[JobSubmission, ...], bytes]],
    submissions: list[JobSubmission],
    queue: str,
    call: CallContext,
) -> pb.SubmitJobsResponse:
    """Admission's verdict on each submission."""
    backend, verdicts, costs, sequence = call.backend, list[Verdict](), dict[str, None](), 0
    judge = subjects.query("admission", "judge", call.caller.tenant, call.caller.handle)
    for _, payload in messages:
        asked = encode(TrialRequest(subject=subject, message=msgspec.Raw(payload)))
        answer = decode((await backend.connection.ask(judge, asked, within=min(JUDGED_WITHIN, call.within))).data, Answer)
        if answer.error:
            raise Refused(answer.code or "REFUSED", answer.error)
        trial = decode(bytes(answer.body), TrialAnswer)
        verdicts += trial.verdicts
        costs |= dict.fromkeys(trial.costs)
        sequence = answer.sequence
    jobs = []
    for verdict, submission in zip(verdicts, submissions, strict=True):
        job = _unjudged(verdict.job, submission, queue, sequence)
        job.state, job.reason, job.message = REJECTED if verdict.reason else PENDING, verdict.reason, verdict.message
        jobs.append(job)
    return pb.SubmitJobsResponse(jobs=jobs, sequence=str(sequence), costs=costs)


async def _judged(keys: list[str], place: int, call: CallContext) -> None:
    """Wait until all are judged, or SUBMIT up to `place`; on timeout the jobs are returned as they are."""
    job_index, state, waiting = call.backend.job_index, call.backend.state, keys

    def judged() -> bool:
        nonlocal waiting
        waiting = [key for key in waiting if job_index.find(key) is None]
        return state.judged >= place or not waiting

    with suppress(TimeoutError):
        async with asyncio.timeout(min(JUDGED_WITHIN, call.within)):
            await call.backend.until(judged)


def _shown(key: str, submission: JobSubmission, queue: str, call: CallContext) -> pb.Job:
    backend = call.backend
    job = backend.job_index.find(key)
    if job is not None:
        return job_message(view_of(job, backend), backend.state.sequence)
    return _unjudged(key, submission, queue, backend.state.sequence)


def _unjudged(key: str, submission: JobSubmission, queue: str, sequence: int) -> pb.Job:
    return pb.Job(
        name=names.job_name(key),
        user=key.split(".")[1],
        display_name=submission.name,
        queue=queue,
        state=SUBMITTED,
        preemptible=submission.preemptible,
        priority=submission.priority,
        labels=submission.labels,
        sequence=str(sequence),
    )
