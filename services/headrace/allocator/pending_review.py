"""Review of pending jobs after documents, capacity or nodes have changed: those that can never run any more are dismissed (R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.allocator.array_lines import with_others
from headrace.allocator.matching import why_no_model
from headrace.contracts import facts as f
from headrace.contracts.values.reasons import RejectReason
from headrace.domain.indexes.pending import JobGroup
from headrace.domain.queueing.admissible import Rejection, never_fits

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State


def review_pending(state: State) -> list[f.JobDismissedV1]:
    """Dismissals of pending jobs that can never run after changes of documents or capacity (R10).

    One check for each group, and one for each job outside a group or for which nodes may still come. In the order of their keys, because
    the order of groups differs after starting from a snapshot.
    """
    found: dict[str, f.JobDismissedV1] = {}
    newest = max((pool.nodes_since for pool in state.pools.values()), default=0)
    asked: list[tuple[JobRecord, Rejection | None]] = []
    for group in state.pending.groups.values():
        rejection = why_never(state, group)
        if rejection is not None:
            asked += [(job, why_never(state, job) if job.order[0] < newest else rejection) for job in group.members.values()]
    asked += [(job, why_never(state, job)) for job in state.pending.ineligible.values()]
    for job, rejection in asked:
        if rejection is not None:
            one = with_others(job)
            found[one.key] = dismissed(one, rejection)
    return [found[key] for key in sorted(found)]


def dismissed(job: JobRecord, rejection: Rejection) -> f.JobDismissedV1:
    """The dismissal of a pending job for this reason."""
    return f.JobDismissedV1(job=job.key, reason=rejection.reason, message=rejection.message)


def why_never(state: State, group: JobGroup | JobRecord) -> Rejection | None:
    """Reason why the job, or all jobs of the group that were admitted just now, can never run; None if they may."""
    policy = group.policy
    profile = state.profile(policy.document.tenant, group.profile)
    if (
        profile is None
        or policy.key not in state.policies
        or all(link.name != group.profile for link in policy.document.profiles)
    ):
        return Rejection(RejectReason.QUEUE_DELETED, f"queue {policy.document.name}/{group.profile} is gone")
    admitted = None if isinstance(group, JobGroup) else group.order[0]
    flags = {"preemptible": group.preemptible, "beyond": group.beyond}
    return never_fits(state, policy, profile, group.request, **flags, admitted=admitted) or _why_no_model(state, group)


def _why_no_model(state: State, group: JobGroup | JobRecord) -> Rejection | None:
    """The same of the GPU models with which it would be matched; those by memory have stated ones that fit."""
    by_memory = group.request.choices is not None and not any(pool.models for pool in state.pools.values())
    return None if by_memory else why_no_model(state, group)
