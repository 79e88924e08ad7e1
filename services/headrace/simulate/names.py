"""Finds what a scenario names briefly: a policy without its tenant, a member who may submit, the members of a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.arrays import ArrayError, parse_array

if TYPE_CHECKING:
    from headrace.domain.model.jobs import PolicyState
    from headrace.domain.state.state import State


def find_policy(state: State, name: str, tenant: str = "") -> PolicyState | None:
    """Return the policy of a tenant; without a tenant, the first policy of that name in any tenant."""
    if tenant:
        return state.policies.get((tenant, name))
    return next((policy for key, policy in sorted(state.policies.items()) if key[1] == name), None)


def entitled_member(state: State, policy: PolicyState | None) -> str:
    """Return the first member of the policy's group; `sim` if it names no group."""
    group = state.group(policy.document.tenant, policy.document.group) if policy is not None else None
    return next(iter((*group.members, *group.service_accounts)), "sim") if group is not None else "sim"


def elements_named(name: str, array: str) -> list[str]:
    """Return the names of an array's elements, by their indices: `sweep-0`, `sweep-1`. No names if it is written badly."""
    try:
        elements = parse_array(array)
    except ArrayError:
        return []
    return [f"{name}-{elements.index(number)}" for number in range(elements.count)]


def numbered(name: str, count: int) -> list[str]:
    """Return the names of nodes or jobs that are written as one: `hq-1`, `hq-2` ..., or just `hq` for a single one (interfaces page)."""
    return [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]
