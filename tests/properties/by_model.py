"""Random histories of the other generators in which pools govern GPU models, and policies limit and reserve them (R43)."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU, GPU_UNITS, Amounts, key_of_model
from headrace.simulate.scenario import Moment, Scenario
from tests.properties.crowded import crowded
from tests.properties.histories import MOMENTS, QUARTER, Chance, scenarios
from tests.properties.memory import MODELS, of_memory, of_several_models


@st.composite
def by_model(draw: Callable[[st.SearchStrategy], object]) -> Scenario:
    """Nodes of several GPU models, pools that govern some of them from the start or later on, and policies that name them."""
    chance = Chance(draw)
    if chance.number(0, 2):
        base = draw(st.one_of(scenarios(), crowded()))
        nodes = tuple(one for row in base.nodes for one in of_several_models(chance, row))
    else:
        base = draw(of_memory())
        nodes = base.nodes
    documents = _governed(chance, base.documents)
    later = [
        Moment(at=chance.among(MOMENTS), apply=d.Documents(pools=tuple(_pool(chance, pool) for pool in base.documents.pools)))
        for _ in range(chance.number(0, 1))
    ]
    timeline = tuple(
        moment if moment.apply is None else replace(moment, apply=_governed(chance, moment.apply)) for moment in base.timeline
    )
    return replace(base, documents=documents, nodes=nodes, timeline=(*later, *timeline))


def _governed(chance: Chance, documents: d.Documents) -> d.Documents:
    return replace(
        documents,
        pools=tuple(_pool(chance, pool) for pool in documents.pools),
        profiles=tuple(_profile(chance, profile) for profile in documents.profiles),
        policies=tuple(_policy(chance, policy) for policy in documents.policies),
        tenants=tuple(_tenant(chance, tenant) for tenant in documents.tenants),
    )


def _pool(chance: Chance, pool: d.Pool) -> d.Pool:
    models = chance.order(MODELS)[: chance.among([0, 1, 1, 2])]
    return replace(pool, capacity=pool.capacity | {key_of_model(model): chance.number(0, 4) * GPU_UNITS for model in models})


def _profile(chance: Chance, profile: d.Profile) -> d.Profile:
    named = chance.among([profile.gpu_models, tuple(chance.order(MODELS)[: chance.number(1, 2)])])
    return replace(profile, gpu_models=named)


def _policy(chance: Chance, policy: d.Policy) -> d.Policy:
    per_pool = {name: _scope(chance, scope) for name, scope in policy.per_pool.items()}
    per_user = policy.per_user
    if per_user is not None and chance.coin():
        per_user = replace(per_user, limit=per_user.limit | {key_of_model(chance.among(MODELS)): chance.number(0, 8) * QUARTER})
    return replace(_scope(chance, policy), per_pool=per_pool, per_user=per_user)


def _tenant(chance: Chance, tenant: d.Tenant) -> d.Tenant:
    return replace(tenant, shares=tuple(_scope(chance, share) for share in tenant.shares))


def _scope(chance: Chance, scope):
    """A policy, a part of one or a tenant's share that reserves some of what it reserves of one model, and limits another or the same."""
    key, limited = key_of_model(chance.among(MODELS)), key_of_model(chance.among(MODELS))
    reservation, limit = scope.reservation, dict(scope.limit)
    kept: Amounts = {}
    if reservation is not None and chance.coin():
        kept = {key: chance.number(0, reservation.get(GPU, 0) // QUARTER) * QUARTER}
    if chance.coin():
        limit[limited] = kept.get(limited, 0) + chance.number(0, 8) * QUARTER
    return replace(scope, reservation=None if reservation is None else reservation | kept, limit=limit)
