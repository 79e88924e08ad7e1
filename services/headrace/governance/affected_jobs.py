"""Jobs affected by a change (R9, R10): those that run or wait under changed objects, and those that could never run afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from headrace.contracts.values.reasons import RejectReason
from headrace.domain.model.job_states import FINAL, JobState
from headrace.domain.model.jobs import JobRecord
from headrace.domain.queueing.admissible import never_fits, was_empty_at
from headrace.domain.state.state import State
from headrace.governance.objects import ObjectName
from headrace.governance.validation.diagnostics import Diagnostics


class AffectedJobs(NamedTuple):
    """Numbers of affected jobs: those that hold leases, and those that wait."""

    running: int
    pending: int


def affected_jobs(before: State, after: State, changed: Iterable[ObjectName], findings: Diagnostics) -> AffectedJobs:
    """Count the jobs under changed objects; warn of those that will be rejected. Users and groups affect no admitted job."""
    reach = _Scope(before, after, frozenset(changed))
    if not reach.names:
        return AffectedJobs(0, 0)
    running, pending = 0, 0
    rejected: Counter[tuple[str, str]] = Counter()
    for job in before.jobs.values():
        if job.state in FINAL or not reach.touches(job):
            continue
        if job.state is not JobState.PENDING:
            running += 1
            continue
        pending += 1
        why = reach.why_never(job)
        if why:
            rejected[f"{job.tenant}/{job.queue}", why] += 1
    for (queue, why), count in sorted(rejected.items()):
        jobs = "1 pending job" if count == 1 else f"{count} pending jobs"
        findings.warn(f"queue {queue}", "PENDING_REJECTED", f"{jobs} can then never run: {why}")
    return AffectedJobs(running, pending)


class _Scope:
    """Jobs that the changed objects govern, queue by queue."""

    def __init__(self, before: State, after: State, changed: frozenset[ObjectName]) -> None:
        self._before = before
        self._after = after
        existing = {name for name in changed if name.kind in ("pool", "profile", "policy") and _is_there(before, name)}
        self._shares = {place for place in {*before.shares, *after.shares} if _share(before, place) != _share(after, place)}
        self._pools = {name.name for name in existing if name.kind == "pool"}
        self.names = existing | {ObjectName("tenant", "", tenant) for tenant, _ in self._shares}
        self._queues: dict[tuple[str, str, str], bool] = {}
        self._never: dict[tuple[object, ...], str] = {}

    def touches(self, job: JobRecord) -> bool:
        """True if a changed object governs the job or the units that it holds."""
        queue = (*job.policy.key, job.profile)
        known = self._queues.get(queue)
        if known is None:
            known = self._queues[queue] = self._touches_queue(*queue)
        return known or any(lease.pool in self._pools for lease in job.leases.values())

    def _touches_queue(self, tenant: str, policy: str, profile: str) -> bool:
        if ObjectName("policy", tenant, policy) in self.names:
            return True
        found = [state.profile(tenant, profile) for state in (self._before, self._after)]
        if any(one is not None and ObjectName("profile", one.tenant, one.name) in self.names for one in found):
            return True
        pools = {pool for one in found if one is not None for pool in one.pools}
        return not pools.isdisjoint(self._pools) or any((tenant, pool) in self._shares for pool in pools)

    def why_never(self, job: JobRecord) -> str:
        """Reason why the pending job could never run after the change; empty if it could."""
        came_later = tuple(pool.document.name for pool in self._after.pools.values() if was_empty_at(pool, job.order[0]))
        like = (*job.policy.key, job.profile, job.request.order, job.preemptible, job.beyond, came_later)
        why = self._never.get(like)
        if why is None:
            why = self._never[like] = self._ask(job)
        return why

    def _ask(self, job: JobRecord) -> str:
        policy = self._after.policies.get(job.policy.key)
        profile = self._after.profile(job.tenant, job.profile)
        if policy is None or profile is None or all(link.name != job.profile for link in policy.document.profiles):
            return f"{RejectReason.QUEUE_DELETED}: the queue is gone"
        flags = {"preemptible": job.preemptible, "beyond": job.beyond}
        rejection = never_fits(self._after, policy, profile, job.request, **flags, admitted=job.order[0])
        return "" if rejection is None else f"{rejection.reason}: {rejection.message}"


def _is_there(state: State, name: ObjectName) -> bool:
    if name.kind == "pool":
        return name.name in state.pools
    return (name.tenant, name.name) in (state.policies if name.kind == "policy" else state.profiles)


def _share(state: State, place: tuple[str, str]) -> object:
    share = state.shares.get(place)
    return None if share is None else (share.reservation, share.limit)
