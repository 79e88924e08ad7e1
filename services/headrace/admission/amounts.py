"""What one replica of a job gets: the amounts of its profile, lowered to what is asked for (R3, R4, R13), or the share of a GPU (R42)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.facts.levels import GPU_SHARES
from headrace.contracts.values.amounts import GPU, GPU_MEMORY, GPU_UNITS, format_amount
from headrace.contracts.values.reasons import RejectReason
from headrace.domain.model.requests import is_steady, make_request
from headrace.domain.queueing.admissible import Rejection, models_that_fit, never_fits
from headrace.domain.state.gpu_shares import most_of, with_share

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Profile
    from headrace.contracts.values.amounts import Amounts
    from headrace.contracts.values.gpu_memory import ModelShare
    from headrace.domain.model.jobs import PolicyState
    from headrace.domain.state.state import State


class RequestedJob(NamedTuple):
    """Properties of a job that the tests of amounts need. `request`: amounts asked for; empty for all of the profile."""

    request: Amounts
    preemptible: bool
    contained: bool


class GivenAmounts(NamedTuple):
    """What one replica gets: `request`, with the charge of the slice `mig`.

    With `shares`, `request` and `mig` are those of the first of them: of a job that asks for `gpu_memory` MiB (R42), or that is charged
    `by_model` (R43).
    """

    request: Amounts
    mig: str
    gpu_memory: int = 0
    shares: tuple[ModelShare, ...] = ()
    by_model: bool = False


def given_to(
    state: State, queue: tuple[PolicyState, Profile], asked: RequestedJob, *, beyond: bool
) -> GivenAmounts | Rejection:
    """What one replica gets; a rejection if the profile does not allow it or no node could ever run it.

    `beyond`: the asker may exceed the policy's limits (R12).
    """
    policy, profile = queue
    amounts = _within_profile(state, profile, asked.request)
    if isinstance(amounts, Rejection):
        return amounts
    if GPU_MEMORY in amounts and state.terms.level < GPU_SHARES:
        what = f"request.gpu_memory: it is taken from level {GPU_SHARES} of the installation on, and that is at level "
        return Rejection(RejectReason.MALFORMED, what + str(state.terms.level))
    flags = {"preemptible": asked.preemptible, "beyond": beyond}
    matched = models_that_fit(state, policy, profile, amounts, **flags, contained=asked.contained)
    if isinstance(matched, Rejection):
        return matched
    if matched is not None:
        first = matched.shares[0]
        return GivenAmounts(with_share(amounts, first), first.mig, amounts.get(GPU_MEMORY, 0), *matched)
    steady = is_steady(profile, state.terms.level, preemptible=asked.preemptible)
    request = make_request(amounts, profile.replicas, profile, profile.mig, contained=asked.contained, steady=steady)
    never = never_fits(state, policy, profile, request, **flags)
    return GivenAmounts(amounts, profile.mig) if never is None else never


def _within_profile(state: State, profile: Profile, asked: Amounts) -> Amounts | Rejection:
    """The profile's amounts, lowered to those asked for (R3, R13); a MIG slice cannot be lowered (R4)."""
    amounts = dict(most_of(state, profile))
    for key, amount in asked.items():
        ceiling = amounts.get(key, 0)
        if key in (GPU, GPU_MEMORY) and (key == GPU) == (GPU_MEMORY in amounts) and not profile.mig:
            gives = GPU_MEMORY if key == GPU else GPU
            what = f"request.{key}: profile {profile.name} gives {gives}; ask for {gives}, and leave {key} out (R42)"
            return Rejection(RejectReason.BEYOND_PROFILE, what)
        if key == GPU and profile.mig:
            return Rejection(
                RejectReason.MALFORMED,
                f"request.gpu: profile {profile.name} gives the MIG slice {profile.mig} (R4); leave gpu out",
            )
        if amount > ceiling:
            most = f"profile {profile.name} gives {format_amount(key, ceiling)}"
            return Rejection(RejectReason.BEYOND_PROFILE, f"request.{key}: {format_amount(key, amount)} is asked for, {most}")
        if key == GPU and amount > GPU_UNITS and amount % GPU_UNITS:
            return Rejection(
                RejectReason.MALFORMED,
                f"request.gpu: {format_amount(key, amount)} is no whole number of GPUs; from one up it has to be (R3)",
            )
        amounts[key] = amount
    return {key: amount for key, amount in amounts.items() if amount}
