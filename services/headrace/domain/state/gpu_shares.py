"""What one replica of a profile takes of GPUs: as it is written, the charge of its slice (R4), or the share that has its memory (R42).

And what it takes of each GPU model, for jobs that are charged by model (R43).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.amounts import GPU, GPU_MEMORY, GPU_UNITS, format_amount
from headrace.contracts.values.gpu_memory import ModelShare, least_by_name, share_with
from headrace.contracts.values.mig import FAMILIES, charge, family_of
from headrace.domain.model.dedication import owner_of_new, reach_in
from headrace.domain.state.supply import census_of, new_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.contracts.documents.model import Profile
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.census import PolicyKey
    from headrace.domain.state.pools import PoolState
    from headrace.domain.state.state import State

_SLICE_TENTHS = 9
"""Tenths of its part of the GPU's memory that a MIG slice is taken to offer: NVIDIA states up to 9 % less than the part."""


class _Kind(NamedTuple):
    """GPUs of one model in one pool, in MIG mode if they have a `family`. `memory`: MiB of the smallest; 0: unknown."""

    model: str
    family: str
    memory: int


def shares_of(
    pools: Iterable[PoolState], profile: Profile, policy: PolicyKey | None, memory: int
) -> tuple[ModelShare, ...] | str:
    """What `memory` MiB are of each GPU model that a job of the profile may be given, the one tried first at the front (R42).

    First stand the models as the profile names them; where it names none, those of earlier pools, then smaller shares. A text if no GPU
    is that large, or none is known yet. `policy`: whose dedicated nodes count (R21); None: all nodes.
    """
    places: dict[tuple[str, str], int] = {}
    smallest: dict[tuple[str, str], int] = {}
    for place, pool in enumerate(pools):
        for model, family, has in _kinds(pool, policy):
            if has and (not profile.gpu_models or model in profile.gpu_models):
                places.setdefault((model, family), place)
                smallest[model, family] = min(has, smallest.get((model, family), has))
    found = []
    for (model, family), has in smallest.items():
        share = _slice(model, family, has, memory) if family else _part(model, has, memory)
        if share is not None:
            named = profile.gpu_models.index(model) if profile.gpu_models else 0
            found.append(((named, places[model, family], share.gpu, model, share.mig), share))
    if found:
        return tuple(share for _, share in sorted(found, key=lambda pair: pair[0]))
    return _none(profile, memory, smallest)


def models_of(pools: Iterable[PoolState], profile: Profile, policy: PolicyKey | None, units: int) -> tuple[ModelShare, ...]:
    """What `units` of GPUs, or the profile's slice, are of each GPU model that a job may be given, the one tried first at the front (R43).

    First stand the models as the profile names them; where it names none, those of earlier pools, then smaller charges, then those whose
    own key no pool governs, then by name. Empty if none is known yet.
    """
    there = list(pools)
    governed = {model for pool in there for model in pool.models}
    found: dict[tuple[str, str], tuple[tuple[object, ...], ModelShare]] = {}
    for place, pool in enumerate(there):
        for model, family, _ in _kinds(pool, policy):
            if (profile.gpu_models and model not in profile.gpu_models) or bool(family) != bool(profile.mig):
                continue
            if profile.mig and profile.mig not in FAMILIES[family].slices:
                continue
            share = ModelShare(model=model, gpu=charge(profile.mig, (family,)) if profile.mig else units, mig=profile.mig)
            named = profile.gpu_models.index(model) if profile.gpu_models else 0
            found.setdefault((model, profile.mig), ((named, place, share.gpu, model in governed, model), share))
    return tuple(share for _, share in sorted(found.values(), key=lambda pair: pair[0]))


def asked_by(state: State, profile: Profile) -> Amounts:
    """What one replica of the profile takes; of a slice `gpu` is what it is charged (R4), of GPU memory the smallest share (R42).

    Where a slice means less of one model than of another, the dearest counts of those that the profile allows and its pools have.
    """
    pools = [state.pools[name] for name in profile.pools if name in state.pools]
    if GPU_MEMORY in profile.request:
        shares = shares_of(pools, profile, None, profile.request[GPU_MEMORY])
        least = GPU_UNITS if isinstance(shares, str) else min(share.gpu for share in shares)
        return {**{key: amount for key, amount in profile.request.items() if key != GPU_MEMORY}, GPU: least}
    if not profile.mig:
        return profile.request
    here = {family for pool in pools for family in pool.families}
    named = {family_of(model) for model in profile.gpu_models}
    return {**profile.request, GPU: charge(profile.mig, here & named or named or here) or GPU_UNITS}


def most_of(state: State, profile: Profile) -> Amounts:
    """The most that one replica may ask for: what the profile gives, GPU memory as such."""
    return profile.request if GPU_MEMORY in profile.request else asked_by(state, profile)


def with_share(amounts: Amounts, share: ModelShare) -> Amounts:
    """What one replica takes that asks for GPU memory among other amounts, where it gets this share."""
    return {**{key: amount for key, amount in amounts.items() if key != GPU_MEMORY}, GPU: share.gpu}


def _part(model: str, has: int, memory: int) -> ModelShare | None:
    """The smallest share of a GPU with `has` MiB that gives `memory`."""
    units = share_with(has, memory)
    return None if units is None else ModelShare(model=model, gpu=units)


def _slice(model: str, family: str, has: int, memory: int) -> ModelShare | None:
    """The slice with the smallest charge, then with the least memory, that has as much on a GPU with `has` MiB."""
    of = FAMILIES[family]
    fitting = [
        (charge(name, (family,)), kind.memory, name)
        for name, kind in of.slices.items()
        if "+" not in name and has * kind.memory * _SLICE_TENTHS // (of.memory * 10) >= memory
    ]
    if not fitting:
        return None
    units, _, name = min(fitting)
    return ModelShare(model=model, gpu=units, mig=name)


def _kinds(pool: PoolState, policy: PolicyKey | None) -> Iterator[_Kind]:
    """The GPUs of the pool's nodes that the policy may use, and those that the pool may create."""
    census = census_of(pool)
    for kind in census.kinds if policy is None else dict(census.of(policy)):
        if kind.whole:
            yield _Kind(kind.model, "", kind.gpu_memory)
        for family in sorted({*kind.families} - {""}):
            yield _Kind(kind.model, family, kind.gpu_memory)
    burst = pool.document.burst
    if burst is None or not new_nodes(pool):
        return
    if policy is not None and owner_of_new(pool.document) not in reach_in(pool.document, policy):
        return
    if burst.node.gpu_model and burst.node.gpus:
        family = family_of(burst.node.gpu_model) if burst.node.mig else ""
        yield _Kind(burst.node.gpu_model, family, least_by_name(burst.node.gpu_model))


def _none(profile: Profile, memory: int, known: dict[tuple[str, str], int]) -> str:
    asked = f"it asks for {format_amount(GPU_MEMORY, memory)} of GPU memory"
    if not known:
        which = f"no GPU {' or '.join(profile.gpu_models)}" if profile.gpu_models else "no GPU"
        return f"{asked}, and {which} is known in {', '.join(profile.pools)} yet"
    has = ", ".join(
        f"{model}{' in MIG mode' if family else ''} {format_amount(GPU_MEMORY, most)}"
        for (model, family), most in sorted(known.items())
    )
    return f"{asked}, and no one GPU of its pools gives that: {has}"
