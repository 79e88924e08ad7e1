"""The fold of what administrators wrote (R7, R12)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.contracts.values.ids import DEFAULT_TENANT
from headrace.domain.fold.node_orders import follow_window, forget_windows, plan_windows
from headrace.domain.fold.tokens import outdate
from headrace.domain.model.jobs import PolicyState, Scope
from headrace.domain.model.policy_gate import PolicyGate
from headrace.domain.model.time_rules import Calendar, Closing, Growth
from headrace.domain.state.account_numbers import retire
from headrace.domain.state.capacity import recount_users
from headrace.domain.state.job_deadlines import watch
from headrace.domain.state.meters import set_meters
from headrace.domain.state.pools import PoolState
from headrace.domain.state.quota import counts_users, open_scope, open_scopes
from headrace.domain.state.state import GovernanceObject
from headrace.domain.state.supply import recount

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Policy, Tenant
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.state import State


def _tenant_applied(state: State, fact: f.TenantAppliedV1, sequence: int, _place: int) -> None:
    tenant = fact.tenant
    _open(state, "tenant", "", tenant.name)
    state.tenants[tenant.name] = GovernanceObject(tenant, sequence)
    _set_shares(state, tenant)
    _changed(state, sequence)


def _set_shares(state: State, tenant: Tenant) -> None:
    wanted = {(tenant.name, share.pool): share for share in tenant.shares}
    for key in [key for key in state.shares if key[0] == tenant.name and key not in wanted]:
        del state.shares[key]
    for key, share in wanted.items():
        scope = state.shares.get(key)
        if scope is None:
            scope = state.shares[key] = Scope("tenant", f"tenant {tenant.name} in pool {share.pool}")
            _refill_share(state, scope, *key)
        scope.reservation, scope.limit = share.reservation, dict(share.limit)


def _refill_share(state: State, share: Scope, tenant: str, pool: str) -> None:
    """A new share starts with what the tenant's policies hold already, deleted ones with it whose jobs still run."""
    for policy in (*state.policies.values(), *state.deleted_policies.values()):
        held = policy.scopes.get(pool)
        if policy.document.tenant != tenant or held is None:
            continue
        for total, part in ((share.use, held.use), (share.firm, held.firm), (share.leased_minus_use, held.leased_minus_use)):
            for key, value in part.items():
                total[key] = total.get(key, 0) + value


def _tenant_deleted(state: State, fact: f.TenantDeletedV1, sequence: int, _place: int) -> None:
    outdate(state, fact.name, "", sequence)
    retire(state, fact.name)
    state.tenants.pop(fact.name, None)
    _open(state, "tenant", "", fact.name)
    for key in [key for key in state.shares if key[0] == fact.name]:
        del state.shares[key]
    _changed(state, sequence)


def _user_applied(state: State, fact: f.UserAppliedV1, sequence: int, _place: int) -> None:
    """Release 0.1.0 wrote only the author: administrators of a tenant are named with that tenant, those of the provider in `default`."""
    user = fact.user.tenant, fact.user.handle
    state.users[user] = GovernanceObject(fact.user, sequence)
    is_vouched = fact.vouched if state.terms.amended else fact.author.startswith(f"{DEFAULT_TENANT}.")
    (state.tokens.vouched.add if is_vouched else state.tokens.vouched.discard)(user)


def _user_deleted(state: State, fact: f.UserDeletedV1, sequence: int, _place: int) -> None:
    """The tenant `default` may delete a user with the handle of an administrator; below level 2 that ended the latter's access."""
    outdate(state, fact.tenant, fact.handle, sequence, but_providers=state.terms.amended)
    state.tokens.vouched.discard((fact.tenant, fact.handle))
    state.users.pop((fact.tenant, fact.handle), None)


def _group_applied(state: State, fact: f.GroupAppliedV1, sequence: int, _place: int) -> None:
    if _open(state, "group", fact.group.tenant, fact.group.name):
        _changed(state, sequence)
    state.groups[fact.group.tenant, fact.group.name] = GovernanceObject(fact.group, sequence)


def _group_deleted(state: State, fact: f.GroupDeletedV1, _sequence: int, _place: int) -> None:
    state.groups.pop((fact.tenant, fact.name), None)
    _open(state, "group", fact.tenant, fact.name)


def _pool_applied(state: State, fact: f.PoolAppliedV1, sequence: int, _place: int) -> None:
    _open(state, "pool", "", fact.pool.name)
    pool = state.pools.get(fact.pool.name)
    if pool is None:
        pool = state.pools[fact.pool.name] = PoolState(fact.pool, sequence)
        pool.index.weigh((), amended=state.terms.amended)
    pool.set_document(fact.pool, sequence)
    plan_windows(state, fact.pool.name, planned=bool(fact.pool.maintenance))
    for node in state.nodes.values():
        join_pool(state, node)
    for node in pool.nodes.values():
        pool.index.put(node)  # it may have another owner now (R21)
    recount(pool)
    _changed(state, sequence)


def _pool_deleted(state: State, fact: f.PoolDeletedV1, sequence: int, _place: int) -> None:
    pool = state.pools.get(fact.name)
    if pool is None or pool.leased or pool.nominated:  # a grant came first: the pool stays until it is asked for again
        return
    del state.pools[fact.name]
    state.terms.growths.pop(fact.name, None)
    forget_windows(state, fact.name)
    _open(state, "pool", "", fact.name)
    for node in list(pool.nodes.values()):
        pool.index.remove(node)
        node.pool = ""
        follow_window(state, node)
        join_pool(state, node)
    _changed(state, sequence)


def join_pool(state: State, node: NodeState) -> None:
    """Put a node into the pool whose selector matches its labels; the first by name where several do. A node that holds leases stays."""
    before = state.pool_of(node)
    if before is not None and node.leases:
        return
    approval = state.approvals.get(node.name)
    wanted = next(
        (
            state.pools[name]
            for name in sorted(state.pools)
            if (approval is None or approval.joins or approval.pins)
            and state.pools[name].document.selector.items() <= node.labels.items()
        ),
        None,
    )
    if wanted is before:
        return
    if before is not None:
        before.index.remove(node)
        del before.nodes[node.name]
        recount(before, node)
    node.pool = wanted.document.name if wanted is not None else ""
    follow_window(state, node)
    if wanted is not None:
        if not wanted.nodes:
            wanted.nodes_since = state.sequence
        wanted.nodes[node.name] = node
        wanted.index.put(node)
        recount(wanted, node)


def _profile_applied(state: State, fact: f.ProfileAppliedV1, sequence: int, _place: int) -> None:
    _open(state, "profile", fact.profile.tenant, fact.profile.name)
    state.profiles[fact.profile.tenant, fact.profile.name] = GovernanceObject(fact.profile, sequence)
    _reopen_scopes(state, fact.profile.name)
    _changed(state, sequence)


def _reopen_scopes(state: State, profile: str) -> None:
    """Jobs of a profile may go to other pools now."""
    for policy in (*state.policies.values(), *state.deleted_policies.values()):
        if profile in policy.profiles:
            open_scopes(state, policy, profile)


def _profile_deleted(state: State, fact: f.ProfileDeletedV1, sequence: int, _place: int) -> None:
    state.profiles.pop((fact.tenant, fact.name), None)
    _open(state, "profile", fact.tenant, fact.name)
    _reopen_scopes(state, fact.name)
    _changed(state, sequence)


def _policy_applied(state: State, fact: f.PolicyAppliedV1, sequence: int, _place: int) -> None:
    document = fact.policy
    key = (document.tenant, document.name)
    _open(state, "policy", *key)
    policy = state.policies.get(key) or state.deleted_policies.pop(key, None)
    if policy is None:
        wide = Scope("policy", f"policy {document.tenant}/{document.name}")
        policy = PolicyState(document, sequence, wide)
    state.policies[key] = policy
    policy.gate = None
    others = policy.document.beyond_limit != document.beyond_limit
    accounts = (policy.document.fair_among, policy.document.per_user) != (document.fair_among, document.per_user)
    policy.document, policy.revision = document, sequence
    policy.wide.reservation, policy.wide.limit = _wide_reservation(document), dict(document.limit)
    for pool in {*policy.scopes, *document.per_pool}:
        scope, block = open_scope(policy, pool), document.per_pool.get(pool)
        scope.reservation, scope.limit = (block.reservation, dict(block.limit)) if block else (None, {})
    for link in document.profiles:
        open_scopes(state, policy, link.name)
    _set_terms(state, policy)
    if others:
        _name_members_beyond(state, policy)
    if accounts or policy.users is None:
        _keep_accounts_of_users(state, policy)
    for job in policy.jobs.values():
        if job.suspended_at:  # for how long is up to the policy
            watch(state, job)
    if state.maintenance:  # its graces decide what its jobs outlast
        state.pending.sort_again(state.now)
    _changed(state, sequence)


def _set_terms(state: State, policy: PolicyState) -> None:
    """Windows and budgets are looked at anew (R33); what was counted stays counted."""
    if policy.document.windows or policy.document.budgets:
        state.terms.timed[policy.key] = policy
    else:
        state.terms.timed.pop(policy.key, None)
    set_meters(state, policy)


def _name_members_beyond(state: State, policy: PolicyState) -> None:
    """Who may exceed the limits is looked up anew for jobs that are there already (R12); those in line change their place."""
    for job in state.jobs_and_arrays():
        beyond = job.user in policy.document.beyond_limit
        if job.policy is not policy or job.beyond is beyond or job.ended_at:
            continue
        waits = state.pending.remove(job)
        job.beyond = beyond
        if waits:
            state.pending.add(job, state.now)


def _keep_accounts_of_users(state: State, policy: PolicyState) -> None:
    """Whether each user has an account, and its limit, is another now (R7, R15); those in line stand by user, or do so no more."""
    if policy.users is None and not counts_users(policy.document):
        return
    waiting = [job for job in state.jobs_and_arrays() if job.policy is policy and state.pending.remove(job)]
    recount_users(state, policy)
    for job in waiting:
        state.pending.add(job, state.now)


def _wide_reservation(document: Policy) -> dict[str, int] | None:
    """A policy with no reservation block at all has reservation 0 policy-wide (R7)."""
    if document.reservation is None and all(block.reservation is None for block in document.per_pool.values()):
        return {}
    return document.reservation


def _policy_deleted(state: State, fact: f.PolicyDeletedV1, sequence: int, _place: int) -> None:
    _open(state, "policy", fact.tenant, fact.name)
    state.terms.timed.pop((fact.tenant, fact.name), None)
    policy = state.policies.pop((fact.tenant, fact.name), None)
    if policy is not None:
        state.deleted_policies[fact.tenant, fact.name] = policy
    _changed(state, sequence)


def _object_closed(state: State, fact: f.ObjectClosedV1, sequence: int, _place: int) -> None:
    key = (fact.kind, fact.tenant, fact.name)
    state.terms.closings.pop(key, None)
    state.terms.closings[key] = Closing(*key, fact.mode, fact.author, state.now)
    _changed(state, sequence)


def _open(state: State, kind: str, tenant: str, name: str) -> bool:
    """What is applied again is open again, what is gone is not closed any more (R11); whether it was closed."""
    return state.terms.closings.pop((kind, tenant, name), None) is not None


def _calendar_stated(state: State, fact: f.CalendarStatedV1, sequence: int, _place: int) -> None:
    state.terms.calendars[fact.zone] = Calendar(fact.zone, fact.offsets, fact.until)
    for policy in state.terms.timed.values():
        set_meters(state, policy)
    state.documents_sequence = sequence


def _policy_gated(state: State, fact: f.PolicyGatedV1, sequence: int, _place: int) -> None:
    policy = state.policies.get((fact.tenant, fact.policy))
    if policy is not None:
        policy.gate = PolicyGate(fact.shut, fact.stops, fact.spent) if fact.shut or fact.spent else None
        state.documents_sequence = sequence


def _growth_requested(state: State, fact: f.GrowthRequestedV1, sequence: int, _place: int) -> None:
    if fact.pool in state.pools:
        before = state.terms.growths.get(fact.pool)
        failures = before.failures if before is not None else 0
        firm = any(name in state.jobs and state.jobs[name].request.shape.steady for name in fact.jobs)
        state.terms.growths[fact.pool] = Growth(fact.nodes, state.now, failures=failures, sequence=sequence, firm=firm)


def _growth_ended(state: State, fact: f.GrowthEndedV1, _sequence: int, _place: int) -> None:
    growth = state.terms.growths.get(fact.pool)
    if growth is not None and growth.open:
        growth.open, growth.closed_until = False, fact.closed_until
        growth.failures = growth.failures + 1 if fact.closed_until else 0


def _changed(state: State, sequence: int) -> None:
    """What may ever run, and what may be reclaimed, has to be looked at again."""
    state.documents_sequence = sequence
    state.stir()
    for policy in (*state.policies.values(), *state.deleted_policies.values()):
        policy.forget()


HANDLERS: dict[type, Any] = {
    f.TenantAppliedV1: _tenant_applied,
    f.TenantDeletedV1: _tenant_deleted,
    f.UserAppliedV1: _user_applied,
    f.UserDeletedV1: _user_deleted,
    f.GroupAppliedV1: _group_applied,
    f.GroupDeletedV1: _group_deleted,
    f.PoolAppliedV1: _pool_applied,
    f.PoolDeletedV1: _pool_deleted,
    f.ProfileAppliedV1: _profile_applied,
    f.ProfileDeletedV1: _profile_deleted,
    f.PolicyAppliedV1: _policy_applied,
    f.PolicyDeletedV1: _policy_deleted,
    f.ObjectClosedV1: _object_closed,
    f.CalendarStatedV1: _calendar_stated,
    f.PolicyGatedV1: _policy_gated,
    f.GrowthRequestedV1: _growth_requested,
    f.GrowthEndedV1: _growth_ended,
}
