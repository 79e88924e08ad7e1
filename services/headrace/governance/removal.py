"""Deleting an object (R11): refused while jobs are under it or documents refer to it, naming which and how many. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from headrace.contracts.documents import KINDS
from headrace.contracts.facts import AnyFact
from headrace.contracts.queries import Change, DeleteRequest
from headrace.domain.state import FINAL, JobRecord, JobState, State
from headrace.governance.findings import listed, unknown
from headrace.governance.objects import Name, current, deleted, full_name, names

MODES = ("freeze", "drain", "cancel")


class Removal(NamedTuple):
    """What a deletion comes to: the fact, or a stable code and one line that says why not."""

    changes: tuple[Change, ...] = ()
    facts: tuple[AnyFact, ...] = ()
    code: str = ""
    error: str = ""
    running: int = 0
    pending: int = 0


def remove(state: State, request: DeleteRequest, author: str) -> Removal:
    """The deletion of one object, as asked for by `author`."""
    wrong = _wrong_request(request)
    if wrong:
        return Removal(code="INVALID", error=wrong)
    name = full_name(request.kind, request.name, request.tenant)
    there = current(state, name)
    if there is None:
        return Removal(code="NOT_FOUND", error=unknown(name.kind, name.full, (known.full for known in names(state, name.kind))))
    revision = there[1]
    if request.revision not in (0, revision):
        message = f"{name} is at revision {revision}, the deletion is based on {request.revision}: get it again"
        return Removal(code="STALE", error=message)
    running, pending = _jobs_under(state, name)
    in_the_way = _in_the_way(name, running, pending, list(_referring(state, name)))
    if in_the_way:
        return Removal(code="REFUSED", error=in_the_way, running=running, pending=pending)
    change = Change(kind=name.kind, name=name.full, action="delete", revision=revision)
    return Removal((change,), (deleted(name, author, request.reason),))


def _wrong_request(request: DeleteRequest) -> str:
    if request.kind not in KINDS:
        return f"kind: {unknown('kind', request.kind, KINDS)}"
    if request.mode in MODES:
        return (
            f"mode: this version cannot {request.mode}; leave the mode out, and delete the {request.kind} once it is not in use"
        )
    if request.mode:
        return f"mode: {unknown('mode', request.mode, MODES)}"
    return ""


def _in_the_way(name: Name, running: int, pending: int, referring: list[str]) -> str:
    """Why the object cannot go; empty where nothing is in the way."""
    in_use = f"in use (pending={pending} running={running})" if running or pending else ""
    named = f"named by {listed(referring)}" if referring else ""
    if not in_use and not named:
        return ""
    ways_out = [("cancel its jobs or let them end" if in_use else ""), ("change or delete those first" if named else "")]
    return f"{name} is {' and '.join(filter(None, (in_use, named)))}: {', and '.join(filter(None, ways_out))} (R11)"


# ---- jobs ----


def _jobs_under(state: State, name: Name) -> tuple[int, int]:
    """(running, pending): jobs that hold leases, and that wait, under the object."""
    if name.kind == "group":  # whoever was admitted stays admitted
        return 0, 0
    if name.kind == "policy":
        policy = state.policies[name.tenant, name.name]
        return len(policy.jobs), policy.pending
    under = [job for job in state.jobs.values() if job.state not in FINAL and _is_under(state, job, name)]
    pending = sum(job.state is JobState.PENDING for job in under)
    return len(under) - pending, pending


def _is_under(state: State, job: JobRecord, name: Name) -> bool:
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
    """Whether it holds a lease there, waits for one, or is to have what others give up there."""
    if job.leases:
        return any(lease.pool == pool for lease in job.leases.values())
    profile = state.profile(job.tenant, job.profile)
    kept = job.nomination is not None and job.nomination.pool == pool
    search = state.pools[pool].search
    return kept or (search is not None and search.job is job) or (profile is not None and pool in profile.pools)


# ---- documents ----


def _referring(state: State, name: Name) -> Iterator[str]:
    """Who names the object, so that it would mean nothing, or something else, without it. Orders of names may name what is gone."""
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
    yield from _naming_party(state, name)


def _within_tenant(state: State, tenant: str) -> Iterator[str]:
    for kind in KINDS:
        yield from (str(name) for name in names(state, kind) if name.tenant == tenant)


def _naming_user(state: State, name: Name) -> Iterator[str]:
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


def _naming_party(state: State, name: Name) -> Iterator[str]:
    """Pools that let a tenant or group in or out, or are dedicated to a tenant or policy."""
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
