from __future__ import annotations

import pytest

GOVERNS = """
pools: [{name: west, selector: {site: west}, capacity: {cpu: 64}}, {name: east, selector: {site: east}}]
"""


def messages_of(plan):
    return plan.errors, plan.warnings


@pytest.mark.parametrize(
    ("policy", "where", "what"),
    [
        ("profiles: [one], limit: {cpu: 4}", "limit.cpu", "limit"),
        ("profiles: [one], limit: {cpu: 0}", "limit.cpu", "limit"),
        ("profiles: [one], reservation: {cpu: 4}", "reservation.cpu", "reservation"),
        ("profiles: [both], per_pool: {west: {limit: {cpu: 4}}}", "per_pool.west.limit.cpu", "limit"),
        ("profiles: [both], per_pool: {west: {reservation: {cpu: 1}}}", "per_pool.west.reservation.cpu", "reservation"),
        ("profiles: [one], budgets: [{key: cpu, hours: 5, per: day}]", "budgets[0].key", "budget"),
    ],
)
def test_an_amount_of_a_key_that_no_pool_in_reach_governs_is_refused_with_the_way_out(site, policy, where, what):
    plan = site.plan(f"policies: [{{name: p, group: all, {policy}}}]")
    assert messages_of(plan) == (
        (
            (
                f"policies[0].{where}: pool west does not govern cpu, so this {what} has no effect; "
                "name cpu in the capacity of the pool, or leave it out here (R5)"
            ),
        ),
        (),
    )
    assert plan.facts == ()


def test_of_several_pools_in_reach_all_are_named(site):
    plan = site.plan("policies: [{name: p, group: all, profiles: [both], limit: {license/x: 1}}]")
    assert plan.errors == (
        (
            "policies[0].limit.license/x: none of pools west, east governs license/x, so this limit has no effect; "
            "name license/x in the capacity of the pool, or leave it out here (R5)"
        ),
    )


def test_where_only_some_pools_govern_the_key_a_warning_says_where_it_holds(site):
    plan = site.plan(GOVERNS + "policies: [{name: p, group: all, profiles: [both], limit: {cpu: 4}}]")
    assert messages_of(plan) == (
        (),
        ("policies[0].limit.cpu: NOT_GOVERNED: cpu is governed in pool west, so this limit holds there and not in east (R5)",),
    )


def test_a_limit_on_the_number_of_jobs_always_holds_and_a_reservation_of_jobs_needs_a_pool_that_governs_them(site):
    assert messages_of(site.plan("policies: [{name: p, group: all, profiles: [one], limit: {job: 3}}]")) == ((), ())
    refused = site.plan("policies: [{name: p, group: all, profiles: [one], reservation: {job: 1}}]")
    assert [error.partition(":")[0] for error in refused.errors] == ["policies[0].reservation.job"]


def test_a_share_of_a_tenant_is_held_to_the_same(site):
    plan = site.plan("tenants: [{name: acme, shares: [{pool: east, limit: {cpu: 8}}]}]")
    assert plan.errors == (
        (
            "tenants[0].shares[0].limit.cpu: pool east does not govern cpu, so this limit has no effect; "
            "name cpu in the capacity of the pool, or leave it out here (R5)"
        ),
    )


def test_what_was_stored_without_effect_is_not_refused_again(site):
    stored = "policies: [{name: p, group: all, profiles: [one], limit: {cpu: 4}}]"
    site.write(stored)
    assert messages_of(site.plan(stored)) == ((), ())
    changed = site.plan(stored.replace("limit", "priority: 3, limit"))
    assert (changed.errors, [line.partition(": ")[2].partition(":")[0] for line in changed.warnings]) == ((), ["NOT_GOVERNED"])
    other_key = site.plan(stored.replace("cpu: 4", "cpu: 4, memory: 8GiB"))
    assert [error.partition(":")[0] for error in other_key.errors] == ["policies[0].limit.memory"]


def test_a_key_is_not_taken_from_a_pool_while_documents_speak_of_it(site):
    site.write(GOVERNS)
    site.write("policies: [{name: p, group: all, profiles: [one], limit: {cpu: 4}}]")
    site.write("tenants: [{name: acme, shares: [{pool: west, reservation: {cpu: 1}}]}]")
    without = "pools: [{name: west, selector: {site: west}}]\n"
    assert site.plan(without).errors == (
        (
            "pools[0].capacity: the limit of policy default/p speaks of cpu, which no pool in its reach would govern any more; "
            "keep cpu here, or take it out of that document first (R5)"
        ),
        (
            "pools[0].capacity: the reservation of tenant acme speaks of cpu, which no pool in its reach would govern any more; "
            "keep cpu here, or take it out of that document first (R5)"
        ),
    )
    together = without + "policies: [{name: p, group: all, profiles: [one]}]\ntenants: [{name: acme}]\n"
    assert messages_of(site.plan(together)) == ((), ())


def test_a_profile_is_not_led_elsewhere_while_a_limit_holds_only_where_it_leads_now(site):
    site.write(GOVERNS)
    site.write("policies: [{name: p, group: all, profiles: [one], limit: {cpu: 4}}]")
    assert site.plan("profiles: [{name: one, request: {gpu: 1}, pools: [east]}]").errors == (
        (
            "profiles[0].pools: the limit of policy default/p speaks of cpu, which no pool in its reach would govern any more; "
            "keep pool west in the profile, or take cpu out of that document first (R5)"
        ),
    )


def test_a_policy_that_reaches_no_pool_yet_is_only_warned(site):
    plan = site.plan("policies: [{name: p, group: all, profiles: [], limit: {cpu: 4}}]")
    assert messages_of(plan) == (
        (),
        ("policies[0].limit.cpu: NO_POOL_YET: no profile leads to a pool that exists, so this limit holds nowhere yet",),
    )
