from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Policy
from headrace.contracts.facts.records import Record
from headrace.domain.fold.apply import apply
from headrace.domain.state.state import State
from headrace.simulate.names import entitled_member, find_policy, numbered


@pytest.fixture
def state():
    """The policy `dev` in two tenants; only one of them has people."""
    state = State()
    groups = [
        Group(tenant="acme", name="dev", members=("zoe", "ann")),
        Group(tenant="acme", name="robots", service_accounts=("ci",)),
        Group(tenant="acme", name="empty"),
    ]
    policies = [Policy(tenant=tenant, name="dev", group="dev", profiles=()) for tenant in ("bcme", "acme")]
    policies += [Policy(tenant="acme", name=name, group=name, profiles=()) for name in ("robots", "empty")]
    facts = [f.GroupAppliedV1(author="a.b", group=group) for group in groups]
    facts += [f.PolicyAppliedV1(author="a.b", policy=policy) for policy in policies]
    apply(state, Record(by="governance", now=1, engine="test", as_of=0, facts=tuple(facts)), 1)
    return state


@pytest.mark.parametrize(
    ("name", "tenant", "found"),
    [
        ("dev", "bcme", ("bcme", "dev")),
        ("dev", "", ("acme", "dev")),
        ("robots", "", ("acme", "robots")),
        ("robots", "bcme", None),
        ("ops", "", None),
    ],
)
def test_a_policy_is_found_in_its_tenant_or_else_in_the_first_that_has_it(state, name, tenant, found):
    policy = find_policy(state, name, tenant)
    assert (policy and policy.key) == found


@pytest.mark.parametrize(
    ("policy", "member"),
    [(("acme", "dev"), "zoe"), (("acme", "robots"), "ci"), (("acme", "empty"), "sim"), (("bcme", "dev"), "sim")],
)
def test_who_submits_is_the_first_of_the_group_and_sim_for_an_empty_group(state, policy, member):
    assert entitled_member(state, state.policies[policy]) == member


def test_without_a_policy_sim_submits(state):
    assert entitled_member(state, None) == "sim"


@pytest.mark.parametrize(("count", "names"), [(1, ["hq"]), (3, ["hq-1", "hq-2", "hq-3"])])
def test_several_are_numbered_from_one_and_one_keeps_its_name(count, names):
    assert numbered("hq", count) == names
