"""The plan of a change says which policies and shares hold more than the new limit."""

from __future__ import annotations

import pytest

from headrace.contracts.facts.levels import LEVEL

HOLDS = "nothing is stopped, and nothing more starts until it holds less"


@pytest.fixture
def busy(site):
    """rnd holds 3 GPUs in west, acme's web 1 in west and 1 in east."""
    site.write(
        """
        tenants: [{name: acme, shares: [{pool: west, limit: {gpu: 4}}]}]
        groups: [{tenant: acme, name: all, members: [ann]}]
        policies:
          - {name: rnd, group: all, profiles: [three, one], limit: {gpu: 9}}
          - {tenant: acme, name: web, group: all, profiles: [both]}
        """
    )
    site.job("rnd/three", 3, on="w1")
    site.job("web/both", tenant="acme", on="w1")
    site.job("web/both", tenant="acme", on="w1")
    return site


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (
            "policies: [{name: rnd, group: all, profiles: [three, one], limit: {gpu: 2}}]",
            [f"policies[0]: OVER_LIMIT: it holds gpu 3, and the limit becomes 2: {HOLDS}"],
        ),
        ("policies: [{name: rnd, group: all, profiles: [three, one], limit: {gpu: 3}}]", []),
        (
            "policies: [{name: rnd, group: all, profiles: [three, one], per_pool: {west: {limit: {gpu: 2}}}}]",
            [f"policies[0] in pool west: OVER_LIMIT: it holds gpu 3, and the limit becomes 2: {HOLDS}"],
        ),
        (
            "tenants: [{name: acme, shares: [{pool: west, limit: {gpu: 1}}]}]",
            [f"tenants[0] in pool west: OVER_LIMIT: it holds gpu 2, and the limit becomes 1: {HOLDS}"],
        ),
    ],
)
def test_a_plan_names_the_policy_or_share_that_holds_more_than_its_new_limit(busy, text, warnings):
    assert [line for line in busy.plan(text).warnings if "OVER_LIMIT" in line] == warnings


def test_a_plan_says_how_many_jobs_run_on_a_model_that_a_pool_governs_from_now_on(busy):  # R43
    busy.state.terms.level, node = LEVEL, busy.state.nodes["w1"]
    text = f'pools: [{{name: west, selector: {{site: west}}, capacity: {{"gpu:{node.model}": 4}}}}]'
    what = "3 jobs run on GPUs of this model; what is held now counts from its next start on (R43)"
    warning = f"pools[0].capacity.gpu:{node.model}: NOT_COUNTED_YET: {what}"
    assert messages_of(busy.plan(text)) == [warning]
    busy.write(text)
    assert messages_of(busy.plan(text.replace(": 4", ": 5"))) == []


def messages_of(plan) -> list[str]:
    return [*plan.errors, *plan.warnings]
