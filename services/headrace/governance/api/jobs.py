"""The service of jobs: lists, single jobs, their history, output and explanation; cancel, requeue, preempt."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from headrace.contracts.api import jobs_pb2 as pb
from headrace.contracts.messages.explanation import WhyView
from headrace.contracts.messages.queries import Answer, ForceRequest, JobRequest
from headrace.contracts.messages.submissions import CANCELS_MAX, CancelManyRequest, CancelRequest, RequeueRequest
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.values.arrays import ArrayError, format_array, parse_part
from headrace.contracts.values.ids import split_job_key
from headrace.domain.model.job_states import FINAL, JobState
from headrace.governance.api import filters, names, paging
from headrace.governance.api.apply import plan_message
from headrace.governance.api.errors import invalid
from headrace.governance.api.filter_fields import field_lookup
from headrace.governance.api.job_messages import explanation, fact_message, job_message
from headrace.governance.api.messages import microseconds, moment, sequence_of
from headrace.governance.api.submit_batcher import STORED_WITHIN, TRY_AGAIN, append
from headrace.governance.force_preempt import forcing
from headrace.identity.caller import Role
from headrace.identity.principals import act_for
from headrace.identity.roles import authorize
from headrace.views import shown_states, tenant_views
from headrace.views.job_index import Rejected
from headrace.views.pseudonyms import name as name_of
from headrace.views.pseudonyms import seen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from headrace.contracts.messages.queries import JobView
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State
    from headrace.governance.api.context import ApiContext, CallContext
    from headrace.governance.api.filters import Filter
    from headrace.views.job_index import Listed

AT_ONCE = 500
"""Jobs processed before other tasks of the event loop run."""

REASON_MAX = 256


class FoundJob(NamedTuple):
    """A job addressed by name: its tenant, owner, key, and the job."""

    tenant: str
    user: str
    key: str
    job: JobRecord | Rejected

    @property
    def policy(self) -> str:
        """Policy of the job's queue."""
        return self.job.fact.policy if isinstance(self.job, Rejected) else self.job.policy.document.name


def find(name: str, call: CallContext, field: str = "name") -> FoundJob:
    """The job of that name; the caller's own first if two users have the same id. Raises ApiError, Refused."""
    tenant, text = names.job_of(name, field)
    job = call.backend.queries.find(tenant, call.caller.acting_for or call.caller.handle, text)
    key = job.fact.job if isinstance(job, Rejected) else job.key
    return FoundJob(tenant, split_job_key(key)[1], key, job)


class _Wanted(NamedTuple):
    """The name and the labels that listed jobs have to have."""

    name: str
    labels: tuple[tuple[str, ...], ...]

    def fits(self, job: JobRecord | Rejected) -> bool:
        """True if a job has them."""
        name, labels = (job.fact.name, {}) if isinstance(job, Rejected) else (job.name, job.labels)
        return (not self.name or fnmatchcase(name, self.name)) and all(labels.get(key) == text for key, text in self.labels)


def view_of(
    job: JobRecord | Rejected, backend: ApiContext, waits: tenant_views.WaitReasons | None = None, *, whole: bool = True
) -> JobView:
    """The job as its tenant sees it."""
    if isinstance(job, Rejected):
        return seen(backend.state, tenant_views.rejected_view(job))
    waits = waits or tenant_views.WaitReasons(backend.state, backend.now())
    return seen(backend.state, tenant_views.job_view(job, waits, all_attempts=whole))


async def list_jobs(request: Any, call: CallContext) -> pb.ListJobsResponse:
    """A page of a tenant's jobs, the last admitted first."""
    (tenant,) = names.parts_of(request.parent, "tenants/*", "parent")
    backend = call.backend
    wanted = _Wanted(request.name_pattern, tuple(tuple(text.partition("=")[::2]) for text in request.labels))
    question = (call.method, tenant, request.filter, request.name_pattern, *request.labels, request.array)
    page = paging.page_of(request.page_size, request.page_token, *question)
    passes = filters.parse(request.filter, pb.Job.DESCRIPTOR.fields_by_name)
    waits = tenant_views.WaitReasons(backend.state, backend.now())
    answer, last = pb.ListJobsResponse(), ""
    for number, (key, job) in enumerate(_listed(request, tenant, call, page.last), 1):
        if not number % AT_ONCE:
            await asyncio.sleep(0)
        message = _passing(job, backend, waits, passes) if wanted.fits(job) else None
        if message is None:
            continue
        if len(answer.jobs) == page.size:
            answer.next_page_token = page.token(last)
            break
        answer.jobs.append(message)
        last = key
    answer.sequence = str(backend.state.sequence)
    return answer


def _listed(request: Any, tenant: str, call: CallContext, last: str) -> Iterable[Listed]:
    """All jobs of the tenant behind `last`, with arrays for their elements; or the elements of one array."""
    if not request.array:
        return call.backend.job_index.newest(tenant, last)
    whole = find(f"{names.tenant_name(tenant)}/jobs/{request.array}", call, "array")
    return call.backend.job_index.elements(whole.key, last)


def _passing(
    job: JobRecord | Rejected, backend: ApiContext, waits: tenant_views.WaitReasons, passes: Filter | None
) -> pb.Job | None:
    """The message of a job that passes the filter, else None. Fields that need no message are tested first."""
    if passes is not None and not isinstance(job, Rejected):
        lookup = _Cheap(job, backend.state)
        if not passes(lookup) and lookup.saw_all:
            return None
    message = job_message(view_of(job, backend, waits, whole=False), backend.state.sequence)
    return message if passes is None or passes(field_lookup(message)) else None


class _Cheap:
    """Field lookup of a job without its message. `saw_all`: the filter used no other fields."""

    def __init__(self, job: JobRecord, state: State) -> None:
        self._job = job
        self._state = state
        self.saw_all = True

    def __call__(self, path: str) -> Collection[str]:
        name, _, rest = path.partition(".")
        job = self._job
        match name:
            case "state":
                return (shown_states.state_of(job),)
            case "queue":
                return (job.queue,)
            case "name" if not rest:
                return (names.job_name(job.key),)
            case "admit_time" if not rest:
                admitted = moment(job.admitted_at)
                return () if admitted is None else (admitted.ToJsonString(),)
            case "user":
                return (name_of(self._state, job.tenant, job.user),)
            case "display_name":
                return (job.name,) if job.name else ()
            case "labels":
                return (job.labels[rest],) if rest in job.labels else tuple(job.labels) if not rest else ()
        self.saw_all = False
        return ()


async def get_job(request: Any, call: CallContext) -> pb.Job:
    """One job. Raises Refused (`ID_REUSED`) if the caller has submitted other content under its id."""
    found = find(request.name, call)
    if request.digest:
        call.backend.queries.check_content(
            found.job, found.tenant, call.caller.acting_for or call.caller.handle, request.digest
        )
    return job_message(view_of(found.job, call.backend), call.backend.state.sequence)


async def list_job_facts(request: Any, call: CallContext) -> pb.ListJobFactsResponse:
    """The history of a job."""
    asked = find(request.parent, call, "parent")
    lines = await call.backend.queries.facts(asked.tenant, asked.user, encode(JobRequest(job=asked.key)))
    return pb.ListJobFactsResponse(facts=map(fact_message, lines), sequence=str(call.backend.state.sequence))


async def get_job_logs(request: Any, call: CallContext) -> pb.JobLogs:
    """A part of a job's output."""
    asked = find(request.name, call)
    authorize_owner(asked, call)
    for field in ("attempt", "rank", "offset"):
        if getattr(request, field) < 0:
            raise invalid(field, "it must be 0 or greater")
    query = JobRequest(job=asked.key, attempt=request.attempt, rank=request.rank, offset=request.offset)
    logs = await call.backend.queries.logs(asked.tenant, asked.user, encode(query))
    return pb.JobLogs(text=logs.data, next_offset=logs.next_offset, ended=logs.ended, sequence=str(call.backend.state.sequence))


async def explain_job(request: Any, call: CallContext) -> pb.Explanation:
    """Explanation why a job waits, now or earlier (R22)."""
    tenant, text = names.job_of(request.name)
    handle = call.caller.acting_for or call.caller.handle
    at = microseconds(request.at_time, "at_time") if request.HasField("at_time") else 0
    if at < 0:
        raise invalid("at_time", "write a moment since 1970")
    query = JobRequest(job=text, sequence=sequence_of(request.at_sequence, "at_sequence"), at=at)
    found = call.backend.queries.why(tenant, handle, encode(query))
    view = await found if asyncio.iscoroutine(found) else found
    if isinstance(view, Answer):
        return explanation(decode(bytes(view.body), WhyView), view.sequence, at)
    if not isinstance(view, WhyView):
        raise TypeError(f"{type(view).__name__} is not an answer to why")
    return explanation(view, call.backend.state.sequence, call.backend.now())


async def cancel_job(request: Any, call: CallContext) -> pb.CancelJobResponse:
    """Request a job's end; durable when this returns."""
    job, sequence = await _request_change(
        request, call, subjects.cancel, CancelRequest(reason=request.reason[:REASON_MAX], elements=request.elements)
    )
    return pb.CancelJobResponse(job=job, sequence=sequence)


async def cancel_jobs(request: Any, call: CallContext) -> pb.CancelJobsResponse:
    """Request the end of several jobs; durable when this returns.

    Nothing is requested if one is unknown, or the caller may not cancel it.
    """
    (tenant,) = names.parts_of(request.parent, "tenants/*", "parent")
    if not 1 <= len(request.jobs) <= CANCELS_MAX:
        raise invalid("jobs", f"write 1 to {CANCELS_MAX} jobs, this has {len(request.jobs)}")
    asked = [find(name, call, f"jobs[{index}]") for index, name in enumerate(request.jobs)]
    for index, one in enumerate(asked):
        if one.tenant != tenant:
            raise invalid(f"jobs[{index}]", f"it is not a job of {names.tenant_name(tenant)}")
        authorize_owner(one, call)
    going = [one for one in asked if not isinstance(one.job, Rejected) and one.job.state not in FINAL]
    if not request.validate_only:
        await _cancel(going, request.reason[:REASON_MAX], call)
    return pb.CancelJobsResponse(jobs=[names.job_name(one.key) for one in going], sequence=str(call.backend.state.sequence))


async def _cancel(going: list[FoundJob], reason: str, call: CallContext) -> None:
    """Cancel jobs, one message per owner. Of several owners, waiting jobs come first, so that no resources are released for them."""
    owners: dict[tuple[str, bool], dict[str, None]] = {}
    several = len({one.user for one in going}) > 1
    for one in sorted(going, key=lambda one: not _waits(one)):
        owners.setdefault((one.user, several and _waits(one)), {})[split_job_key(one.key)[2]] = None
    for (owner, _), ids in owners.items():
        tenant = going[0].tenant
        subject, for_whom = spoken(partial(subjects.cancel_many, tenant), tenant, owner, call)
        await _append(subject, encode(CancelManyRequest(jobs=tuple(ids), reason=reason, on_behalf_of=for_whom)), call)


def _waits(asked: FoundJob) -> bool:
    return not isinstance(asked.job, Rejected) and asked.job.state is JobState.PENDING


async def _append(subject: str, payload: bytes, call: CallContext) -> None:
    """Store a message in SUBMIT; while the bus is away, retry within the caller's deadline."""
    loop = asyncio.get_running_loop()
    until = loop.time() + min(call.within, STORED_WITHIN) - TRY_AGAIN
    await append(call.backend.submits, subject, payload, lambda: loop.time() < until)


async def requeue_job(request: Any, call: CallContext) -> pb.RequeueJobResponse:
    """Request that a job is queued again; durable when this returns."""
    job, sequence = await _request_change(
        request, call, subjects.requeue, RequeueRequest(reason=request.reason[:REASON_MAX], elements=request.elements)
    )
    return pb.RequeueJobResponse(job=job, sequence=sequence)


async def _request_change(
    request: Any, call: CallContext, subject_of: Callable[[str, str, str], str], change: CancelRequest | RequeueRequest
) -> tuple[pb.Job, str]:
    """The job when the request is durable, and the sequence that it reflects."""
    asked = find(request.name, call)
    authorize_owner(asked, call)
    if change.elements:
        _check_part(change.elements, asked.job)
    _, _, job_id = split_job_key(asked.key)
    subject, for_whom = spoken(lambda user: subject_of(asked.tenant, user, job_id), asked.tenant, asked.user, call)
    if not request.validate_only:
        await _append(subject, encode(structs.replace(change, on_behalf_of=for_whom)), call)
    sequence = call.backend.state.sequence
    return job_message(view_of(asked.job, call.backend), sequence), str(sequence)


def _check_part(elements: str, job: JobRecord | Rejected) -> None:
    if isinstance(job, Rejected) or job.array is None or not shown_states.is_whole_array(job):
        raise invalid("elements", "this is not an array; leave it out")
    try:
        part = parse_part(elements)
    except ArrayError as error:
        raise invalid("elements", str(error)) from None
    if not job.array.range.numbers(part):
        raise invalid(
            "elements",
            f"the array has no element {elements[:40]}; its indices are {format_array(job.array.range, bound=False)}",
        )


def spoken(subject_of: Callable[[str], str], tenant: str, owner: str, call: CallContext) -> tuple[str, str]:
    """Subject of a request about an owner's job, and the `on_behalf_of` that it needs.

    A service account acts in its own name for a member, as on the bus; an administrator in the owner's name, by another subject.
    """
    caller = call.caller
    if caller.author == f"{tenant}.{owner}":
        return subject_of(owner), ""
    if caller.role is Role.SERVICE_ACCOUNT:
        return subject_of(caller.handle), owner
    return subjects.by(subject_of(owner), caller.tenant, caller.handle), ""


def authorize_owner(asked: FoundJob, call: CallContext) -> None:
    """Raise unless the caller may act on this job: its owner, administrators, and service accounts trusted by the queue's group."""
    caller = call.caller
    if caller.role is Role.SERVICE_ACCOUNT and caller.handle != asked.user:
        authorize(caller, call.method, asked.tenant, caller.handle)
        act_for(call.backend.state, caller, group_of(call.backend.state, asked.tenant, asked.policy), asked.user)
    else:
        authorize(caller, call.method, asked.tenant, asked.user)


def group_of(state: State, tenant: str, policy: str) -> str:
    """The group of a policy; empty if the policy is unknown or has no group."""
    found = state.policies.get((tenant, policy))
    return found.document.group if found is not None else ""


async def preempt_job(request: Any, call: CallContext) -> Any:
    """Preempt a job by force (R24)."""
    asked = find(request.name, call)
    operation = forcing(ForceRequest(job=asked.key, force=request.force, reason=request.reason), call.caller.author)
    answer = await call.decided(operation, validate_only=request.validate_only)
    return plan_message(answer, call.backend.state.sequence)
