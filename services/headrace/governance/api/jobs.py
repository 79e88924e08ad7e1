"""Jobs, read and ordered: lists, one job, its story, its output, why it waits; cancel, requeue, preempt."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import structs

from headrace.contracts.api import jobs_pb2 as pb
from headrace.contracts.messages.explanation import WhyView
from headrace.contracts.messages.queries import Answer, ForceRequest, JobRequest
from headrace.contracts.messages.submissions import CANCELS_MAX, CancelManyWish, CancelWish, RequeueWish
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.values.ids import split_job_key
from headrace.domain.model.job_states import FINAL, JobState
from headrace.governance.api import filters, names, paging
from headrace.governance.api.apply import plan_message
from headrace.governance.api.errors import invalid
from headrace.governance.api.filter_fields import look_into
from headrace.governance.api.job_messages import explanation, fact_message, job_message
from headrace.governance.api.messages import microseconds, sequence_of
from headrace.governance.api.submit_batcher import STORED_WITHIN, TRY_AGAIN, append
from headrace.governance.force_preempt import forcing
from headrace.identity.caller import Role
from headrace.identity.principals import act_for
from headrace.identity.roles import authorize
from headrace.views import tenant_views
from headrace.views.job_index import Rejected
from headrace.views.pseudonyms import seen

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from headrace.contracts.messages.queries import JobView
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.state import State
    from headrace.governance.api.context import ApiContext, CallContext
    from headrace.governance.api.filters import Filter

AT_ONCE = 500
"""Jobs looked at before others get their turn."""

REASON_MAX = 256
CHEAP = frozenset({"state", "queue", "user", "display_name", "labels", "priority", "preemptible"})
"""Fields of a job that a filter finds without its view being made."""


class Asked(NamedTuple):
    """A job that is asked for by name: its tenant, whose it is, its key, and the job."""

    tenant: str
    user: str
    key: str
    job: JobRecord | Rejected

    @property
    def policy(self) -> str:
        """Whose queue it is in."""
        return self.job.fact.policy if isinstance(self.job, Rejected) else self.job.policy.document.name


def find(name: str, call: CallContext, field: str = "name") -> Asked:
    """The job of that name; the caller's own first where two people have the same id. Raises `Fault`, `Refused`."""
    tenant, text = names.job_of(name, field)
    job = call.office.queries.find(tenant, call.caller.acting_for or call.caller.handle, text)
    key = job.fact.job if isinstance(job, Rejected) else job.key
    return Asked(tenant, split_job_key(key)[1], key, job)


def view_of(
    job: JobRecord | Rejected, office: ApiContext, waits: tenant_views.Waits | None = None, *, whole: bool = True
) -> JobView:
    """The job as its tenant sees it."""
    if isinstance(job, Rejected):
        return seen(office.state, tenant_views.rejected_view(job))
    waits = waits or tenant_views.Waits(office.state, office.now())
    return seen(office.state, tenant_views.job_view(job, waits, all_attempts=whole))


async def list_jobs(request: Any, call: CallContext) -> pb.ListJobsResponse:
    """A page of a tenant's jobs, the last admitted first."""
    (tenant,) = names.parts_of(request.parent, "tenants/*", "parent")
    office = call.office
    page = paging.page_of(request.page_size, request.page_token, call.method, tenant, request.filter)
    passes = filters.parse(request.filter, pb.Job.DESCRIPTOR.fields_by_name)
    waits = tenant_views.Waits(office.state, office.now())
    answer, last = pb.ListJobsResponse(), ""
    for number, (key, job) in enumerate(_behind(office, tenant, page.last), 1):
        if not number % AT_ONCE:
            await asyncio.sleep(0)
        message = _passing(job, office, waits, passes)
        if message is None:
            continue
        if len(answer.jobs) == page.size:
            answer.next_page_token = page.token(last)
            break
        answer.jobs.append(message)
        last = key
    answer.sequence = str(office.state.sequence)
    return answer


def _behind(office: ApiContext, tenant: str, last: str) -> list[tuple[str, JobRecord | Rejected]]:
    """The jobs behind the one of that key; where it is gone by now, those whose ids are older."""
    jobs = [(job.fact.job if isinstance(job, Rejected) else job.key, job) for job in office.roster.newest(tenant)]
    if not last:
        return jobs
    place = next((number for number, (key, _) in enumerate(jobs) if key == last), None)
    if place is not None:
        return jobs[place + 1 :]
    made = last.rpartition(".")[2]
    return [(key, job) for key, job in jobs if key.rpartition(".")[2] < made]


def _passing(job: JobRecord | Rejected, office: ApiContext, waits: tenant_views.Waits, passes: Filter | None) -> pb.Job | None:
    """The message of a job that passes. What a filter can see without its message is looked at first."""
    if passes is not None and not isinstance(job, Rejected):
        look = _Cheap(job)
        if not passes(look) and look.saw_all:
            return None
    message = job_message(view_of(job, office, waits, whole=False), office.state.sequence)
    return message if passes is None or passes(look_into(message)) else None


class _Cheap:
    """What a filter sees of a job without its message. `saw_all`: it asked for nothing else."""

    def __init__(self, job: JobRecord) -> None:
        self._job = job
        self.saw_all = True

    def __call__(self, path: str) -> Collection[str]:
        name, _, rest = path.partition(".")
        job = self._job
        match name:
            case "state":
                return (tenant_views.state_of(job),)
            case "queue":
                return (job.queue,)
            case "user":
                return (job.key.split(".")[1],)
            case "display_name":
                return (job.name,) if job.name else ()
            case "labels":
                return (job.labels[rest],) if rest in job.labels else tuple(job.labels) if not rest else ()
        self.saw_all = False
        return ()


async def get_job(request: Any, call: CallContext) -> pb.Job:
    """One job with all its attempts."""
    return job_message(view_of(find(request.name, call).job, call.office), call.office.state.sequence)


async def list_job_facts(request: Any, call: CallContext) -> pb.ListJobFactsResponse:
    """The story of a job."""
    asked = find(request.parent, call, "parent")
    lines = await call.office.queries.facts(asked.tenant, asked.user, encode(JobRequest(job=asked.key)))
    return pb.ListJobFactsResponse(facts=map(fact_message, lines), sequence=str(call.office.state.sequence))


async def get_job_logs(request: Any, call: CallContext) -> pb.JobLogs:
    """A piece of a job's output."""
    asked = find(request.name, call)
    authorize_owner(asked, call)
    for field in ("attempt", "rank", "offset"):
        if getattr(request, field) < 0:
            raise invalid(field, "it is not less than 0")
    wish = JobRequest(job=asked.key, attempt=request.attempt, rank=request.rank, offset=request.offset)
    said = await call.office.queries.logs(asked.tenant, asked.user, encode(wish))
    return pb.JobLogs(text=said.data, next_offset=said.next_offset, ended=said.ended, sequence=str(call.office.state.sequence))


async def explain_job(request: Any, call: CallContext) -> pb.Explanation:
    """Why a job waits, now or as it was (R22)."""
    tenant, text = names.job_of(request.name)
    handle = call.caller.acting_for or call.caller.handle
    at = microseconds(request.at_time, "at_time") if request.HasField("at_time") else 0
    if at < 0:
        raise invalid("at_time", "write a moment since 1970")
    wish = JobRequest(job=text, sequence=sequence_of(request.at_sequence, "at_sequence"), at=at)
    found = call.office.queries.why(tenant, handle, encode(wish))
    said = await found if asyncio.iscoroutine(found) else found
    if isinstance(said, Answer):
        return explanation(decode(bytes(said.body), WhyView), said.sequence, at)
    if not isinstance(said, WhyView):
        raise TypeError(f"{type(said).__name__} is no answer to why")
    return explanation(said, call.office.state.sequence, call.office.now())


async def cancel_job(request: Any, call: CallContext) -> pb.CancelJobResponse:
    """Operation that it ends; durable when this answers."""
    job, sequence = await _wished(request, call, subjects.cancel, CancelWish(reason=request.reason[:REASON_MAX]))
    return pb.CancelJobResponse(job=job, sequence=sequence)


async def cancel_jobs(request: Any, call: CallContext) -> pb.CancelJobsResponse:
    """Operation that several end; durable when this answers. Nothing is wished where any of them is unknown, or not the caller's to end."""
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
    return pb.CancelJobsResponse(jobs=[names.job_name(one.key) for one in going], sequence=str(call.office.state.sequence))


async def _cancel(going: list[Asked], reason: str, call: CallContext) -> None:
    """The jobs of one owner are one message; of several owners those that wait come first, so that nothing is let go of before."""
    owners: dict[tuple[str, bool], dict[str, None]] = {}
    several = len({one.user for one in going}) > 1
    for one in sorted(going, key=lambda one: not _waits(one)):
        owners.setdefault((one.user, several and _waits(one)), {})[split_job_key(one.key)[2]] = None
    for (owner, _), ids in owners.items():
        tenant = going[0].tenant
        subject, for_whom = spoken(partial(subjects.cancel_many, tenant), tenant, owner, call)
        await _append(subject, encode(CancelManyWish(jobs=tuple(ids), reason=reason, on_behalf_of=for_whom)), call)


def _waits(asked: Asked) -> bool:
    return not isinstance(asked.job, Rejected) and asked.job.state is JobState.PENDING


async def _append(subject: str, payload: bytes, call: CallContext) -> None:
    """Store it in SUBMIT; while the bus is away it is tried again within the caller's deadline."""
    loop = asyncio.get_running_loop()
    until = loop.time() + min(call.within, STORED_WITHIN) - TRY_AGAIN
    await append(call.office.submits, subject, payload, lambda: loop.time() < until)


async def requeue_job(request: Any, call: CallContext) -> pb.RequeueJobResponse:
    """Operation that it goes back into line; durable when this answers."""
    job, sequence = await _wished(request, call, subjects.requeue, RequeueWish(reason=request.reason[:REASON_MAX]))
    return pb.RequeueJobResponse(job=job, sequence=sequence)


async def _wished(
    request: Any, call: CallContext, subject_of: Callable[[str, str, str], str], wish: CancelWish | RequeueWish
) -> tuple[pb.Job, str]:
    """The job as it stands when the wish is durable, and the sequence that this reflects."""
    asked = find(request.name, call)
    authorize_owner(asked, call)
    _, _, job_id = split_job_key(asked.key)
    subject, for_whom = spoken(lambda user: subject_of(asked.tenant, user, job_id), asked.tenant, asked.user, call)
    if not request.validate_only:
        await _append(subject, encode(structs.replace(wish, on_behalf_of=for_whom)), call)
    sequence = call.office.state.sequence
    return job_message(view_of(asked.job, call.office), sequence), str(sequence)


def spoken(subject_of: Callable[[str], str], tenant: str, owner: str, call: CallContext) -> tuple[str, str]:
    """Where a wish about somebody's job is published, and for whom it has to say that it is; both names stand in it.

    A service account speaks in its own name for a member, as it would on the bus; an administrator in the owner's, by another subject.
    """
    caller = call.caller
    if caller.author == f"{tenant}.{owner}":
        return subject_of(owner), ""
    if caller.role is Role.SERVICE_ACCOUNT:
        return subject_of(caller.handle), owner
    return subjects.by(subject_of(owner), caller.tenant, caller.handle), ""


def authorize_owner(asked: Asked, call: CallContext) -> None:
    """Let go on who may touch this job: its owner, administrators, and a service account that the queue's group trusts with it."""
    caller = call.caller
    if caller.role is Role.SERVICE_ACCOUNT and caller.handle != asked.user:
        authorize(caller, call.method, asked.tenant, caller.handle)
        act_for(call.office.state, caller, group_of(call.office.state, asked.tenant, asked.policy), asked.user)
    else:
        authorize(caller, call.method, asked.tenant, asked.user)


def group_of(state: State, tenant: str, policy: str) -> str:
    """The group whose queues a policy's are; empty where there is no such policy, or it is nobody's."""
    found = state.policies.get((tenant, policy))
    return found.document.group if found is not None else ""


async def preempt_job(request: Any, call: CallContext) -> Any:
    """Take what it holds by force (R24)."""
    asked = find(request.name, call)
    operation = forcing(ForceRequest(job=asked.key, force=request.force, reason=request.reason), call.caller.author)
    answer = await call.decided(operation, validate_only=request.validate_only)
    return plan_message(answer, call.office.state.sequence)
