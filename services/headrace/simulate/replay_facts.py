"""States recorded facts again in a world that may differ by now. Pure.

Strategy: what people and nodes did is stated again unchanged; what follows from it is left to the deciders of the world. If the world
differs, a fact means what it would have meant there: a job that could never run there is refused, one that asked for the defaults of its
profile asks for those of the profile there, a request about an attempt is about the running one, and writes to an object that the changes
have written are skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from headrace.contracts import facts as f
from headrace.contracts.facts.writers import ADMISSION
from headrace.contracts.values.amounts import GPU, GPU_MEMORY
from headrace.contracts.values.reasons import RejectReason
from headrace.domain.model.job_states import HOLDING
from headrace.domain.model.requests import is_steady, make_request
from headrace.domain.queueing.admissible import Rejection, models_that_fit, never_fits, time_limit_of
from headrace.domain.state.gpu_shares import most_of, with_share
from headrace.governance.objects import ObjectName, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.contracts.documents.model import Profile
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.fact import Fact
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.jobs import PolicyState
    from headrace.simulate.virtual_system import VirtualSystem

WRITTEN: dict[type[Fact], str] = {
    f.TenantAppliedV1: "tenant",
    f.UserAppliedV1: "user",
    f.GroupAppliedV1: "group",
    f.PoolAppliedV1: "pool",
    f.ProfileAppliedV1: "profile",
    f.PolicyAppliedV1: "policy",
}
"""Facts that write an object, and the field that has it."""

REMOVED: dict[type[Fact], str] = {
    f.TenantDeletedV1: "tenant",
    f.UserDeletedV1: "user",
    f.GroupDeletedV1: "group",
    f.PoolDeletedV1: "pool",
    f.ProfileDeletedV1: "profile",
    f.PolicyDeletedV1: "policy",
}
"""Facts that remove an object, and its kind."""


def object_of(fact: AnyFact) -> ObjectName | None:
    """Return the object that a fact of governance writes, removes or closes; None for all other facts."""
    if type(fact) in WRITTEN:
        return name_of(getattr(fact, WRITTEN[type(fact)]))
    if type(fact) in REMOVED:
        named: str = getattr(fact, "name", "") or getattr(fact, "handle", "")
        owner: str = getattr(fact, "tenant", "")
        return ObjectName(REMOVED[type(fact)], owner, named)
    return ObjectName(fact.kind, fact.tenant, fact.name) if isinstance(fact, f.ObjectClosedV1) else None


def restate(world: VirtualSystem, stated: tuple[AnyFact, ...], by: str) -> None:
    """State facts of a past record again, in its writer's name (empty: admission's)."""
    facts = [again for fact in stated for again in _again(world, fact)]
    world.append(by or ADMISSION, facts)


def _again(world: VirtualSystem, fact: AnyFact) -> Iterator[AnyFact]:
    match fact:
        case f.JobAdmittedV1():
            yield _admitted(world, fact)
        case f.JobRequeueRequestedV1() | f.PreemptionForcedV1():
            job = world.state.jobs.get(fact.job)
            if fact.job in world.state.arrays:
                yield fact
            if job is not None and job.state in HOLDING:
                yield structs.replace(fact, attempt=job.attempt)
        case f.LeaseIdledV1() | f.LeaseUsedV1():
            job = world.state.jobs.get(fact.job)
            if job is not None and fact.rank in job.leases:  # wherever it runs here: what it does with its GPUs is the same
                yield structs.replace(fact, attempt=job.attempt, node=job.leases[fact.rank].node)
        case f.NodeLostV1() | f.NodeStoppedV1():
            world.machines.lose(fact.node)
            yield fact
        case f.NodeRegisteredV1():
            world.machines.bring_up(fact.node, world.now)
            yield structs.replace(fact, holding=())
        case _:
            if object_of(fact) not in world.otherwise:
                yield fact


def _admitted(world: VirtualSystem, fact: f.JobAdmittedV1) -> f.JobAdmittedV1 | f.JobRejectedV1:
    """Return admission's fact about the job there (R13); the right to submit is not checked again."""
    state, (tenant, user, _) = world.state, fact.job.split(".")
    policy, profile = state.policies.get((tenant, fact.policy)), state.profile(tenant, fact.profile)
    if policy is None or profile is None or all(link.name != fact.profile for link in policy.document.profiles):
        return _refused(fact, Rejection(RejectReason.UNKNOWN_QUEUE, f"queue {fact.policy}/{fact.profile} does not exist"))
    beyond, asked = user in policy.document.beyond_limit, _asked(fact)
    if world.former.get((profile.tenant, profile.name)) == asked:
        asked = {key: amount for key, amount in most_of(state, profile).items() if amount}
        fact = structs.replace(
            fact, request=asked, mig=profile.mig, replicas=profile.replicas, gpu_memory=0, shares=(), by_model=False
        )
    flags = {"preemptible": fact.preemptible, "beyond": beyond, "contained": fact.contained}
    matched = models_that_fit(state, policy, profile, asked, **flags)
    if isinstance(matched, Rejection):
        return _refused(fact, matched)
    if matched is not None:
        given = {"request": with_share(asked, matched.shares[0]), "mig": matched.shares[0].mig, **matched._asdict()}
        fact = structs.replace(fact, gpu_memory=asked.get(GPU_MEMORY, 0), **given)
    elif fact.by_model:  # no pool governs its models there
        fact = structs.replace(fact, shares=(), by_model=False)
    limit = time_limit_of(policy.document, profile, fact.time_limit)
    if isinstance(limit, Rejection):
        return _refused(fact, limit)
    if limit != fact.time_limit:
        fact = structs.replace(fact, time_limit=limit)
    never = _never(world, policy, profile, fact, beyond=beyond)
    count = 1 if fact.array is None else fact.array.count
    if never is None and policy.pending + count > policy.document.max_pending:
        never = Rejection(RejectReason.TOO_MANY_PENDING, f"{policy.pending} jobs are pending in policy {fact.policy}")
    most = policy.document.per_user.max_pending if policy.document.per_user is not None else None
    if never is None and most is not None and policy.user_pending.get(user, 0) + count > most:
        never = Rejection(RejectReason.TOO_MANY_PENDING, f"{most} jobs of user {user} are pending in policy {fact.policy}")
    return fact if never is None else _refused(fact, never)


def _asked(fact: f.JobAdmittedV1) -> Amounts:
    """What one replica of the job was admitted to ask for."""
    if not fact.gpu_memory:
        return fact.request
    return {**{key: amount for key, amount in fact.request.items() if key != GPU}, GPU_MEMORY: fact.gpu_memory}


def _never(
    world: VirtualSystem, policy: PolicyState, profile: Profile, fact: f.JobAdmittedV1, *, beyond: bool
) -> Rejection | None:
    """Return why it could never run; cached per kind of job until documents or hardware change."""
    known, state = world.never, world.state
    if known.of != state.documents_sequence:
        known.of = state.documents_sequence
        known.answers.clear()
    amounts = tuple(sorted(fact.request.items()))
    models = (fact.mig, fact.shares, fact.by_model)
    kind = (policy.key, fact.profile, amounts, fact.replicas, *models, fact.contained, fact.preemptible, beyond)
    if kind not in known.answers:
        asked = make_request(
            *(fact.request, fact.replicas, profile, fact.mig),
            contained=fact.contained,
            steady=is_steady(profile, state.terms.level, preemptible=fact.preemptible),
            memory=fact.gpu_memory,
            shares=fact.shares,
            by_model=fact.by_model,
        )
        known.answers[kind] = never_fits(state, policy, profile, asked, preemptible=fact.preemptible, beyond=beyond)
    return known.answers[kind]


def _refused(fact: f.JobAdmittedV1, why: Rejection) -> f.JobRejectedV1:
    return f.JobRejectedV1(
        job=fact.job, policy=fact.policy, profile=fact.profile, reason=why.reason, message=why.message[:512], name=fact.name
    )
