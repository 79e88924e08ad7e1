"""Which GPU models waiting jobs may be given, once documents or nodes have changed since they were admitted (R42, R43).

Strategy: admission states the models that it finds; a model that registers later, or whose key a pool governs from then on, is found here,
by the same search, when pending jobs are reviewed. What was stated is only added to: models that are gone stay, behind the others, and a
share only grows, where a GPU with less memory has come.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from headrace.allocator.array_lines import with_others
from headrace.contracts.facts import JobMatchedV1
from headrace.contracts.facts.levels import GPU_SHARES
from headrace.domain.model.jobs import JobRecord
from headrace.domain.model.requests import asked_of
from headrace.domain.queueing.admissible import MatchedModels, Rejection, models_that_fit, open_pools

if TYPE_CHECKING:
    from headrace.domain.indexes.pending import JobGroup
    from headrace.domain.state.state import State


def match_pending(state: State) -> list[JobMatchedV1]:
    """The jobs in line that may be given other GPU models than they were stated to be, or are charged otherwise; by key."""
    if state.terms.level < GPU_SHARES or not (state.pending.choosing or any(pool.models for pool in state.pools.values())):
        return []
    found: dict[str, JobMatchedV1] = {}
    for group in state.pending.groups.values():
        matched = models_now(state, group)
        if matched is not None:
            found |= {key: _fact(key, matched) for key in (with_others(job).key for job in group.members.values())}
    for job in state.pending.ineligible.values():
        fact = match_again(state, job) if job.nomination is None else None
        if fact is not None:
            found[fact.job] = fact
    return [found[key] for key in sorted(found)]


def match_again(state: State, job: JobRecord) -> JobMatchedV1 | None:
    """The fact about a job that waits, or waits again; None if nothing has changed for it."""
    matched = models_now(state, job)
    return None if matched is None else _fact(with_others(job).key, matched)


def is_charged_otherwise(state: State, job: JobRecord) -> bool:
    """Whether the key of its GPU model would be charged for the job now, and was not when it was admitted or last matched (R43)."""
    choices, matched = job.request.choices, models_now(state, job)
    return matched is not None and matched.by_model and not (choices is not None and choices.by_model)


def models_now(state: State, job: JobGroup | JobRecord) -> MatchedModels | None:
    """What the job may be given from now on, what was stated before among it; None if that is all."""
    found, choices = _search(state, job), job.request.choices
    if not isinstance(found, MatchedModels):
        return None
    if choices is None:
        return found
    stated, by_model = {(share.model, share.mig): share for share in choices.shares}, found.by_model or choices.by_model
    there = [max(share, stated.pop((share.model, share.mig), share), key=lambda one: one.gpu) for share in found.shares]
    if by_model is choices.by_model and all(share in choices.shares for share in there):
        return None
    return MatchedModels((*there, *stated.values()), by_model)


def why_no_model(state: State, job: JobGroup | JobRecord) -> Rejection | None:
    """Why a job that is to be charged by model from now on can be given no model (R43); None if it can, or is not to be charged so."""
    choices = job.request.choices
    if choices is not None and choices.by_model:
        return None
    found = _search(state, job)
    return found if isinstance(found, Rejection) else None


def _search(state: State, job: JobGroup | JobRecord) -> MatchedModels | Rejection | None:
    """What admission would find for the job, as it was admitted; None if it is neither by memory nor by model."""
    policy, choices = job.policy, job.request.choices
    profile = state.profile(policy.document.tenant, job.profile)
    if state.terms.level < GPU_SHARES or profile is None or not job.request.shape.needs_device:
        return None
    if choices is None and not any(pool.models for pool in open_pools(state, policy, profile)):
        return None
    first, asked = job.request.first, asked_of(job.request)
    named = profile.gpu_models if choices is not None else first.shape.models
    mig = "" if choices is not None and choices.memory else first.shape.mig
    as_admitted = structs.replace(profile, gpu_models=named, mig=mig, replicas=first.replicas, topology=first.topology)
    flags = {"preemptible": job.preemptible, "beyond": job.beyond, "contained": first.shape.contained}
    admitted = job.order[0] if isinstance(job, JobRecord) else None
    return models_that_fit(state, policy, as_admitted, asked, **flags, admitted=admitted)


def _fact(key: str, matched: MatchedModels) -> JobMatchedV1:
    return JobMatchedV1(job=key, shares=matched.shares, by_model=matched.by_model)
