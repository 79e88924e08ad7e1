"""The whole governed state for people: policies, leases, waiting jobs and reasons, as one tenant may know it. Pure.

It shows any state, current or past. Jobs come a page at a time, by their keys; everything else is on the first page.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from headrace.contracts.documents.model import KINDS
from headrace.contracts.documents.writer import write_document
from headrace.contracts.messages.history import LeaseView, PastJob, PastView
from headrace.contracts.messages.queries import DocumentView
from headrace.contracts.values.amounts import JOB
from headrace.contracts.values.arrays import size
from headrace.domain.model.job_states import FINAL, JobState
from headrace.views.job_index import queue_counts
from headrace.views.pseudonyms import seen, shown, with_names
from headrace.views.shown_states import state_of
from headrace.views.tenant_views import WaitReasons, node_views, pool_views, queue_views
from headrace.views.visibility import ALL_TENANTS, document_seen_by, hide_others

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.model.jobs import JobRecord, LeaseState
    from headrace.domain.state.state import State

LIMIT_MAX = 5_000


def past_view(state: State, tenant: str, tip: int, at: int, after: str = "", limit: int = LIMIT_MAX) -> PastView:
    """A page of the state as `tenant` may know it. `at`: the time asked for, at which reasons are computed; 0: log time."""
    now = max(state.now, at)
    limit = min(max(1, limit), LIMIT_MAX)
    keys = sorted(job.key for job in _own(state, tenant) if job.state not in FINAL and job.key > after)
    waits = WaitReasons(state, now, computed_max=limit)
    jobs = tuple(past_job(state, state.jobs[key], waits) for key in islice(keys, limit))
    page = PastView(
        sequence=state.sequence, now=state.now, tip=tip, jobs=jobs, next=keys[limit - 1] if len(keys) > limit else ""
    )
    if after:
        return replace(seen(state, page, tenant), next=page.next)
    lines = queue_counts(state)
    tenants = sorted({owner for owner, _ in state.policies}) if tenant == ALL_TENANTS else [tenant]
    whole = PastView(
        sequence=page.sequence,
        now=page.now,
        tip=tip,
        documents=tuple(documents(state, tenant)),
        pools=tuple(pool_views(state, lines, tenant)),
        nodes=tuple(node_views(state, {}, tenant)),
        queues=tuple(view for owner in tenants for view in queue_views(state, lines, owner, now)),
        counts=dict(sorted(_counts(state, tenant).items())),
        jobs=jobs,
    )
    return replace(seen(state, whole, tenant), next=page.next)


def documents(state: State, tenant: str) -> Iterator[DocumentView]:
    """Every document in force that the tenant sees, by kind and name."""
    tables = (state.tenants, state.users, state.groups, state.pools, state.profiles, state.policies)
    for kind, table in zip(KINDS, tables, strict=True):
        found = []
        for written in table.values():  # type: ignore[attr-defined]  # each has a document, and a revision
            document = document_seen_by(state, tenant, written.document)
            if document is not None:
                owner, name = getattr(document, "tenant", ""), getattr(document, "name", "") or getattr(document, "handle", "")
                closing = state.terms.closings.get((kind, owner, name))
                found.append(
                    DocumentView(
                        kind=kind,
                        name=with_names(state, f"{owner}/{name}") if owner else name,
                        revision=written.revision,
                        document=_in_order(shown(state, write_document(document), owner)),
                        closed=closing.mode if closing is not None else "",
                    )
                )
        yield from sorted(found, key=lambda view: view.name)


def _in_order(value: Any) -> Any:
    """The value with keys sorted, so that a document looks the same in whichever order it was written or stored."""
    return {key: _in_order(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


def past_job(state: State, job: JobRecord, waits: WaitReasons) -> PastJob:
    """View of a job that has not ended."""
    reason, message = waits.of(job) if job.state is JobState.PENDING else (job.reason, job.message)
    hold = state.holds.get(job.key)
    since = job.pending_since or job.admitted_at
    if job.leases:
        since = min(lease.granted_at for lease in job.leases.values())
    return PastJob(
        job=job.key,
        name=job.name,
        queue=job.queue,
        state=state_of(job),
        since=since,
        attempt=job.attempt,
        request=job.request.amounts,
        replicas=job.request.replicas,
        leases=tuple(_lease(job.leases[rank]) for rank in sorted(job.leases)),
        reason=reason,
        message=hide_others(message, job.tenant),
        kept_in=job.nomination.pool if job.nomination is not None else hold.pool if hold is not None else "",
        yields_to=job.yields_to,
    )


def _lease(lease: LeaseState) -> LeaseView:
    return LeaseView(
        rank=lease.rank,
        node=lease.node,
        pool=lease.pool,
        devices=tuple(share.label for share in lease.devices),
        amounts={key: amount for key, amount in lease.amounts.items() if key != JOB},
        granted_at=lease.granted_at,
        started_at=lease.started_at,
        overdue=lease.overdue,
        suspended=bool(lease.suspended_at),
    )


def _own(state: State, tenant: str) -> Iterator[JobRecord]:
    return (job for job in state.jobs.values() if tenant in (ALL_TENANTS, job.tenant))


def _counts(state: State, tenant: str) -> Counter[str]:
    """How many jobs are in which state; elements of arrays count as jobs, those without a record as well."""
    counts: Counter[str] = Counter()
    for job in _own(state, tenant):
        counts[state_of(job)] += job.stands_for if job.state is JobState.PENDING else 1
    for array in state.arrays.values():
        if tenant in (ALL_TENANTS, array.job.tenant):
            for gone in array.unstarted:
                counts[gone.state.value] += size(gone.numbers)
            if array.front is array.job and array.waiting:
                counts[JobState.PENDING.value] += size(array.waiting)
    return counts
