"""What is closed, and who is under it (R11): nothing is granted there, whatever becomes of it in the end.

A queue is closed with its policy, its profile, the policy's group or its tenant; a pool by itself, for all. Applying the object again
opens it.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from headrace.contracts.values.durations import format_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.model.jobs import JobRecord, PolicyState
    from headrace.domain.model.time_rules import Closing
    from headrace.domain.state.state import State

GOING = ("drain", "cancel")
"""The modes after which the object is deleted: nothing new is admitted there."""
_submission = attrgetter("order")


def queue_closing(state: State, policy: PolicyState, profile: str) -> Closing | None:
    """What closes a queue, the widest first; None: it is open."""
    if not state.terms.closings:
        return None
    tenant, name = policy.key
    found = state.profile(tenant, profile)
    keys = (
        ("tenant", "", tenant),
        ("group", tenant, policy.document.group),
        ("policy", tenant, name),
        ("profile", found.tenant if found is not None else tenant, profile),
    )
    return next((state.terms.closings[key] for key in keys if key in state.terms.closings), None)


def pool_closing(state: State, pool: str) -> Closing | None:
    """What closes a pool; None: it is open."""
    return state.terms.closings.get(("pool", "", pool)) if state.terms.closings else None


def is_closed(state: State, job: JobRecord | JobGroup, pool: str) -> bool:
    """Whether nothing may be granted to the job, or to the jobs of the group, in the pool."""
    if not state.terms.closings:
        return False
    return queue_closing(state, job.policy, job.profile) is not None or pool_closing(state, pool) is not None


def sentence(closing: Closing) -> str:
    """`policy acme/web is frozen by acme.root since ...; applying it again opens it`."""
    name = f"{closing.tenant}/{closing.name}" if closing.tenant else closing.name
    what = {"freeze": "frozen", "drain": "being drained, then deleted,", "cancel": "being deleted"}[closing.mode]
    return f"{closing.kind} {name} is {what} by {closing.author} since {format_time(closing.at)}; applying it again opens it"


def policies_under(state: State, closing: Closing) -> Iterator[PolicyState]:
    """The policies whose queues it closes, all or one of them; those on their way out among them. None for a pool."""
    for policies in (state.policies, state.deleted_policies):
        for (tenant, name), policy in policies.items():
            match closing.kind:
                case "tenant":
                    under = tenant == closing.name
                case "group":
                    under = (tenant, policy.document.group) == (closing.tenant, closing.name)
                case "policy":
                    under = (tenant, name) == (closing.tenant, closing.name)
                case "profile":
                    under = closing.tenant in ("", tenant)
                case _:
                    under = False
            if under:
                yield policy


def holding_under(state: State, closing: Closing) -> list[JobRecord]:
    """The jobs under it that hold leases, in the order of their grants within each policy, or of the nodes of a pool."""
    if closing.kind == "pool":
        pool = state.pools.get(closing.name)
        leases = [lease for node in pool.nodes.values() for lease in node.leases.values()] if pool is not None else []
        return list({lease.job.key: lease.job for lease in leases if lease.pool == closing.name}.values())
    return [
        job
        for policy in policies_under(state, closing)
        for job in policy.jobs.values()
        if job.leases and _is_of(state, closing, policy, job.profile)
    ]


def waiting_under(state: State, closing: Closing) -> list[JobRecord]:
    """Pending jobs under the closing, ineligible ones included, in the order of submission. Those that could go to a pool wait for another.

    Neither groups nor their members are in an order that outlives a snapshot.
    """
    groups = [
        group
        for policy in policies_under(state, closing)
        for group in state.pending.by_policy.get(policy.key, ())
        if _is_of(state, closing, policy, group.profile)
    ]
    policies = set(map(id, policies_under(state, closing)))
    ineligible = (job for job in state.pending.ineligible.values() if id(job.policy) in policies)
    waiting = [
        *(job for group in groups for job in group.members.values()),
        *(job for job in ineligible if _is_of(state, closing, job.policy, job.profile)),
    ]
    return sorted(waiting, key=_submission)


def _is_of(state: State, closing: Closing, policy: PolicyState, profile: str) -> bool:
    """Whether a queue of the policy is under a closing that its policy is under."""
    if closing.kind != "profile":
        return True
    found = state.profile(policy.document.tenant, profile)
    return found is not None and (found.tenant, found.name) == (closing.tenant, closing.name)
