"""Dependents of an object: the jobs under it, and the documents that name it (R11). Pure."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.contracts.documents.model import KINDS
from headrace.domain.model.job_states import FINAL, JobState
from headrace.domain.model.jobs import JobRecord
from headrace.domain.state.state import State
from headrace.governance.objects import ObjectName, names

# ---- jobs ----


def jobs_under(state: State, name: ObjectName) -> tuple[int, int]:
    """(running, pending): jobs under the object that hold leases, and jobs that wait."""
    if name.kind == "group":  # admitted jobs stay admitted
        return 0, 0
    if name.kind == "policy":
        policy = state.policies[name.tenant, name.name]
        return len(policy.jobs), policy.pending
    under = [job for job in state.jobs_and_arrays() if job.state not in FINAL and _is_under(state, job, name)]
    waiting = [job.stands_for for job in under if job.state is JobState.PENDING]
    return len(under) - len(waiting), sum(waiting)


def _is_under(state: State, job: JobRecord, name: ObjectName) -> bool:
    match name.kind:
        case "tenant":
            return job.tenant == name.name
        case "user":
            return job.tenant == name.tenant and job.user == name.name
        case "pool":
            return _is_in_pool(state, job, name.name)
        case _:
            profile = state.profile(job.tenant, job.profile)
            return profile is not None and (profile.tenant, profile.name) == (name.tenant, name.name)


def _is_in_pool(state: State, job: JobRecord, pool: str) -> bool:
    """True if the job holds a lease in the pool, waits for one there, or is to get units that others give up there."""
    kept = job.nomination is not None and job.nomination.pool == pool
    if job.leases:
        return kept or any(lease.pool == pool for lease in job.leases.values())
    profile = state.profile(job.tenant, job.profile)
    search = state.pools[pool].search
    return kept or (search is not None and search.job is job) or (profile is not None and pool in profile.pools)


# ---- documents ----


def referring(state: State, name: ObjectName) -> Iterator[str]:
    """Names of the objects that refer to this one and would be invalid or different without it.

    Orders of names may contain deleted names.
    """
    match name.kind:
        case "tenant":
            yield from _within_tenant(state, name.name)
        case "user":
            yield from _naming_user(state, name)
        case "group":
            for key, policy in state.policies.items():
                if (policy.document.tenant, policy.document.group) == (name.tenant, name.name):
                    yield "policy " + "/".join(key)
        case "pool":
            yield from _naming_pool(state, name.name)
        case "profile":
            for key, policy in state.policies.items():
                found = (state.profile(key[0], link.name) for link in policy.document.profiles)
                if any(one is not None and (one.tenant, one.name) == (name.tenant, name.name) for one in found):
                    yield "policy " + "/".join(key)
    yield from naming_party(state, name)


def _within_tenant(state: State, tenant: str) -> Iterator[str]:
    for kind in KINDS:
        yield from (str(name) for name in names(state, kind) if name.tenant == tenant)


def _naming_user(state: State, name: ObjectName) -> Iterator[str]:
    for group in names(state, "group"):
        document = state.group(group.tenant, group.name)
        if group.tenant == name.tenant and document is not None and name.name in document.members:
            yield str(group)


def _naming_pool(state: State, pool: str) -> Iterator[str]:
    for profile in names(state, "profile"):
        document = state.profile(profile.tenant, profile.name)
        if document is not None and pool in document.pools:
            yield str(profile)
    for key, policy in state.policies.items():
        if pool in policy.document.per_pool:
            yield "policy " + "/".join(key)
    for tenant, where in state.shares:
        if where == pool:
            yield f"tenant {tenant}"


def naming_party(state: State, name: ObjectName) -> Iterator[str]:
    """Pools whose access names a tenant or group, or that are dedicated to a tenant or policy."""
    if name.kind not in ("tenant", "group", "policy"):
        return
    for pool, written in state.pools.items():
        document = written.document
        owners = {document.dedicated_to, *(part.to for part in document.dedicated)} - {None}
        if name.kind == "policy":
            named = any(owner is not None and owner.policy == name.full for owner in owners)
        else:
            named = name.full in (*document.access.allow, *document.access.deny)
            named |= any(owner is not None and owner.tenant == name.full for owner in owners)
        if named:
            yield f"pool {pool}"
