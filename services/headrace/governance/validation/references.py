"""Checks of names in documents: their objects exist once the set is applied, and are open to their users (R12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.contracts.documents.model import Group, Owner, Policy, Pool, Profile, Tenant, User
from headrace.contracts.values.ids import DEFAULT_TENANT
from headrace.domain.queueing.access import may_enter
from headrace.domain.state.state import State
from headrace.governance.objects import ObjectName, PlacedDocument, name_of, names
from headrace.governance.validation.diagnostics import Diagnostics, listed, unknown
from headrace.governance.validation.supply import pools_reached


class ReferenceChecks:
    """Checks the names in changed documents, on the state as it would be. `groups`: a policy needs a group."""

    def __init__(self, after: State, findings: Diagnostics, *, groups: bool) -> None:
        self._after = after
        self._findings = findings
        self._groups = groups

    def check(self, changed: Iterable[PlacedDocument]) -> None:
        """Report an error for each required name that is unknown; a warning if a name only has no effect."""
        for name, document, _ in changed:
            match document:
                case Tenant():
                    for index, share in enumerate(document.shares):
                        self._pool(share.pool, name, "shares", index, "pool")
                case User() | Group():
                    self._tenant(document.tenant, name)
                case Pool():
                    self._check_pool(name, document)
                case Profile():
                    self._check_profile(name, document)
                case Policy():
                    self._check_policy(name, document)

    # ---- the kinds that name many others ----

    def _check_pool(self, name: ObjectName, pool: Pool) -> None:
        profiles = {profile.name for profile in names(self._after, "profile")}
        self._in_order("profile", pool.profile_order, profiles, name, "profile_order")
        for field, listed_here in (("allow", pool.access.allow), ("deny", pool.access.deny)):
            for index, party in enumerate(listed_here):
                self._party(party, name, "access", field, index)
        if pool.dedicated_to is not None:
            self._owner(pool.dedicated_to, name, "dedicated_to")
        for index, dedication in enumerate(pool.dedicated):
            self._owner(dedication.to, name, "dedicated", index, "to")
            nodes = self._after.pools[pool.name].nodes.values()
            if nodes and not any(dedication.selector.items() <= node.labels.items() for node in nodes):
                labels = ", ".join(f"{label}={value}" for label, value in dedication.selector.items())
                message = f"no node of pool {pool.name} has the labels {labels} yet, so nothing is dedicated by it"
                self._findings.warn(self._findings.where(name, "dedicated", index, "selector"), "NO_NODES_YET", message)

    def _check_profile(self, name: ObjectName, profile: Profile) -> None:
        if profile.tenant:
            self._tenant(profile.tenant, name)
        for index, pool in enumerate(profile.pools):
            self._pool(pool, name, "pools", index)
        policies = {text for policy in names(self._after, "policy") for text in (policy.name, policy.full)}
        self._in_order("policy", profile.policy_order, policies, name, "policy_order")

    def _check_policy(self, name: ObjectName, policy: Policy) -> None:
        self._tenant(policy.tenant, name)
        group = self._group_of(name, policy)
        for index, link in enumerate(policy.profiles):
            self._profile(policy, link.name, name, index)
            self._members(group, link.submitters, name, "profiles", index, "submitters")
        self._members(group, policy.beyond_limit, name, "beyond_limit")
        reached = pools_reached(self._after, policy)
        for pool in policy.per_pool:
            if self._pool(pool, name, "per_pool", pool) and pool not in reached:
                message = f"no profile of this policy leads to pool {pool}; link one that does, or leave it out"
                self._findings.warn(self._findings.where(name, "per_pool", pool), "NOT_REACHED", message)

    # ---- one name ----

    def _tenant(self, tenant: str, name: ObjectName, *part: str | int) -> bool:
        if self._after.has_tenant(tenant):
            return True
        known = {DEFAULT_TENANT, *self._after.tenants}
        self._missing("tenant", tenant, known, name, *(part or ("tenant",)))
        return False

    def _pool(self, pool: str, name: ObjectName, *part: str | int) -> bool:
        if pool in self._after.pools:
            return True
        self._missing("pool", pool, self._after.pools, name, *part)
        return False

    def _group_of(self, name: ObjectName, policy: Policy) -> Group | None:
        group = self._after.group(policy.tenant, policy.group)
        known = [known.name for known in names(self._after, "group") if known.tenant == policy.tenant]
        if policy.group and group is None:
            self._missing("group", policy.group, known, name, "group")
        elif self._groups and not policy.group:
            self._error(name, (), f"group is missing; write whose policy it is, such as group: {min(known, default='ai-dev')}")
        return group

    def _profile(self, policy: Policy, profile: str, name: ObjectName, index: int) -> None:
        found = self._after.profile(policy.tenant, profile)
        if found is None:
            known = {known.name for known in names(self._after, "profile") if known.tenant in ("", policy.tenant)}
            self._missing("profile", profile, known, name, "profiles", index)
            return
        there = [pool for pool in found.pools if pool in self._after.pools]
        if there and not any(may_enter(self._after.pools[pool], policy.tenant, policy.group) for pool in there):
            who = f"{policy.tenant}/{policy.group}" if policy.group else policy.tenant
            message = (
                f"no pool of profile {profile} ({listed(there)}) is open to {who}; change its access, or leave the profile out"
            )
            self._error(name, ("profiles", index), message)

    def _members(self, group: Group | None, people: Iterable[str], name: ObjectName, *part: str | int) -> None:
        """Warn of people named for a right that only the group's people can use."""
        if group is None:
            return
        for index, person in enumerate(people):
            if person not in group.members and person not in group.service_accounts:
                message = f"{person} is not in group {group.name}, so it has no effect; add them to the group"
                self._findings.warn(self._findings.where(name, *part, index), "NOT_A_MEMBER", message)

    def _party(self, party: str, name: ObjectName, *part: str | int) -> None:
        """Check `tenant` or `tenant/group`: a wrong name here would grant or deny access."""
        tenant, _, group = party.partition("/")
        if self._tenant(tenant, name, *part) and group and self._after.group(tenant, group) is None:
            known = [known.full for known in names(self._after, "group")]
            self._missing("group", party, known, name, *part)

    def _owner(self, owner: Owner, name: ObjectName, *part: str | int) -> None:
        if owner.tenant:
            self._tenant(owner.tenant, name, *part, "tenant")
        elif tuple(owner.policy.split("/")) not in self._after.policies:
            known = [known.full for known in names(self._after, "policy")]
            self._missing("policy", owner.policy, known, name, *part, "policy")

    def _in_order(self, kind: str, order: Iterable[str], known: set[str], name: ObjectName, field: str) -> None:
        """Warn of unknown names in an order; they have no effect until they exist."""
        for index, text in enumerate(order):
            if text not in known:
                whole = {one for one in known if "/" in one} or known
                self._findings.warn(self._findings.where(name, field, index), "UNKNOWN_NAME", unknown(kind, text, whole))

    def _missing(self, kind: str, text: str, known: Iterable[str], name: ObjectName, *part: str | int) -> None:
        self._error(name, part, unknown(kind, text, known, f"apply the {kind} in the same set, or before"))

    def _error(self, name: ObjectName, part: tuple[str | int, ...], message: str) -> None:
        self._findings.error(self._findings.where(name, *part), message)


def shut_out(before: State, after: State, changed: Iterable[PlacedDocument], findings: Diagnostics) -> None:
    """Warn if a changed pool closes access to an unchanged policy."""
    touched = {name for name, _, _ in changed}
    pools = {name.name for name in touched if name.kind == "pool" and name.name in before.pools}
    for policy, pool in _closed(before, after, pools):
        if name_of(policy) not in touched:
            message = f"it is no longer open to policy {policy.tenant}/{policy.name}, whose profiles lead here"
            findings.warn(findings.where(ObjectName("pool", "", pool), "access"), "SHUT_OUT", message)


def _closed(before: State, after: State, pools: set[str]) -> Iterator[tuple[Policy, str]]:
    for written in after.policies.values():
        policy = written.document
        for pool in pools.intersection(pools_reached(after, policy)) if pools else ():
            was_open = may_enter(before.pools[pool], policy.tenant, policy.group)
            if was_open and not may_enter(after.pools[pool], policy.tenant, policy.group):
                yield policy, pool
