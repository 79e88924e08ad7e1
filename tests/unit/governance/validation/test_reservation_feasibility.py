from __future__ import annotations

import pytest

WAY_OUT = "lower a reservation, add capacity, or set allow_overcommit on the pool (R8)"


def policy(name, profile, *, wide=None, west=None, east=None, tenant="default"):
    per_pool = {pool: amount for pool, amount in (("west", west), ("east", east)) if amount is not None}
    blocks = [f"tenant: {tenant}, name: {name}, group: all, profiles: [{profile}]"]
    if wide is not None:
        blocks.append(f"reservation: {{gpu: {wide}}}")
    if per_pool:
        inner = ", ".join(f"{pool}: {{reservation: {{gpu: {amount}}}}}" for pool, amount in per_pool.items())
        blocks.append(f"per_pool: {{{inner}}}")
    return "  - {" + ", ".join(blocks) + "}\n"


def policies(*lines):
    return "policies:\n" + "".join(lines)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(policies(policy("a", "one", wide=5), policy("b", "one", wide=5)), "", id="all of the pool is reserved"),
        pytest.param(
            policies(policy("a", "one", wide=5), policy("b", "one", wide=6)),
            "policies[0].reservation.gpu: policy default/a (5), policy default/b (6) cannot be honoured together: "
            f"11 gpu reserved, pool west has 10; {WAY_OUT}",
            id="one unit more than the pool has",
        ),
        pytest.param(policies(policy("a", "both", wide=4), policy("b", "one", wide=10)), "", id="who can go east does"),
        pytest.param(
            policies(policy("a", "both", wide=5), policy("b", "one", wide=10)),
            "policies[0].reservation.gpu: policy default/a (5), policy default/b (10) cannot be honoured together: "
            f"15 gpu reserved, pool east, pool west have 14; {WAY_OUT}",
            id="the union is too small",
        ),
        pytest.param(
            policies(policy("a", "both", wide=4, west=4), policy("b", "one", wide=7)),
            "policies[0].reservation.gpu: policy default/a (4), policy default/b (7) cannot be honoured together: "
            f"11 gpu reserved, pool west has 10; {WAY_OUT}",
            id="what is reserved per pool cannot go elsewhere",
        ),
        pytest.param(
            policies(policy("a", "both", wide=8, west=4), policy("b", "one", wide=6)), "", id="the rest may lie elsewhere"
        ),
        pytest.param(
            policies(policy("a", "both", west=4, east=5)),
            f"policies[0].reservation.gpu: policy default/a (5) cannot be honoured together: 5 gpu reserved, pool east has 4; {WAY_OUT}",
            id="each pool keeps its own promise",
        ),
        pytest.param(policies(policy("a", "both", wide=3, east=9)), "", id="per pool no more than policy-wide"),
        pytest.param(
            policies(policy("a", "one", wide="10.5")), "10.5 gpu reserved, pool west has 10", id="fractions are exact"
        ),
    ],
)
def test_reservations_of_policies_against_pools(site, text, error):
    errors = site.plan(text).errors
    assert len(errors) == bool(error)
    assert error in "".join(errors)


def test_only_keys_that_are_reserved_are_looked_at_each_by_itself(site):
    plan = site.plan(
        """
        pools: [{name: west, selector: {site: west}, capacity: {license/abaqus: 4, gpu: 10}}]
        policies:
          - {name: a, group: all, profiles: [one], reservation: {gpu: 5, license/abaqus: 3}}
          - {name: b, group: all, profiles: [one], reservation: {gpu: 5, license/abaqus: 2}}
        """
    )
    assert plan.errors == (
        (
            "policies[0].reservation.license/abaqus: policy default/a (3), policy default/b (2) cannot be honoured together: "
            f"5 license/abaqus reserved, pool west has 4; {WAY_OUT}"
        ),
    )


TENANTS = """
tenants:
  - {name: x, shares: [{pool: west, reservation: {gpu: 4}, limit: {gpu: 8}}]}
  - {name: y, shares: [{pool: west, reservation: {gpu: %s}}]}
groups: [{tenant: x, name: all}, {tenant: y, name: all}]
"""


def test_tenants_against_pools(site):
    assert site.plan(TENANTS % 6).errors == ()
    assert site.plan(TENANTS % 7).errors == (
        f"tenants[0].shares: tenant x (4), tenant y (7) cannot be honoured together: 11 gpu reserved, pool west has 10; {WAY_OUT}",
    )


def test_policies_within_a_tenant_against_its_shares(site):
    site.write(TENANTS % 4)
    plan = site.plan(policies(policy("a", "one", wide=3, tenant="x"), policy("b", "one", wide=2, tenant="x")))
    assert plan.errors == (
        (
            "policies[0].reservation.gpu: policy x/a (3), policy x/b (2) cannot be honoured together: 5 gpu reserved, "
            f"tenant x's share of pool west has 4; {WAY_OUT}"
        ),
    )


def test_policies_of_tenants_without_a_share_have_what_the_shares_leave(site):
    site.write(TENANTS % 4)
    assert site.plan(policies(policy("a", "one", wide=2))).errors == ()
    assert site.plan(policies(policy("a", "one", wide=3))).errors == (
        f"policies[0].reservation.gpu: policy default/a (3) cannot be honoured together: 3 gpu reserved, pool west has 2; {WAY_OUT}",
    )


def test_a_share_spills_into_pools_where_its_tenant_has_none(site):
    site.write(TENANTS % 4)
    assert site.plan(policies(policy("a", "both", wide=8, tenant="x"))).errors == ()
    assert "have 8" in site.plan(policies(policy("a", "both", wide=9, tenant="x"))).errors[0]


def test_a_share_with_a_limit_and_no_reservation_bounds_its_policies(site):
    site.write("tenants: [{name: x, shares: [{pool: west, limit: {gpu: 6}}]}]\ngroups: [{tenant: x, name: all}]")
    assert site.plan(policies(policy("a", "one", wide=6, tenant="x"))).errors == ()
    assert site.plan(policies(policy("a", "one", wide=7, tenant="x"))).errors == (
        f"policies[0].reservation.gpu: policy x/a (7) cannot be honoured together: 7 gpu reserved, pool west has 6; {WAY_OUT}",
    )


def test_shrinking_a_pool_below_what_is_reserved_is_refused_at_the_pool(site):
    site.write(policies(policy("a", "one", wide=5), policy("b", "one", wide=5)))
    plan = site.plan("pools: [{name: west, selector: {site: west}, capacity: {gpu: 9}}]")
    assert plan.errors == (
        (
            "pools[0].capacity.gpu: policy default/a (5), policy default/b (5) cannot be honoured together: "
            f"10 gpu reserved, pool west has 9; {WAY_OUT}"
        ),
    )


def test_unlinking_the_profile_that_leads_elsewhere_is_refused(site):
    site.write(policies(policy("a", "both", wide=4), policy("b", "one", wide=10)))
    plan = site.plan("profiles: [{name: both, request: {gpu: 1}, pools: [west]}]")
    assert plan.errors == (
        (
            "profiles[0].pools: policy default/a (4), policy default/b (10) cannot be honoured together: "
            f"14 gpu reserved, pool west has 10; {WAY_OUT}"
        ),
    )


def test_overcommit_turns_the_refusal_into_a_warning(site):
    overcommitted = "pools: [{name: west, selector: {site: west}, allow_overcommit: true}]\n"
    plan = site.plan(overcommitted + policies(policy("a", "one", wide=5), policy("b", "one", wide=6)))
    assert plan.errors == ()
    assert plan.warnings == (
        (
            "policies[0].reservation.gpu: OVERCOMMITTED: policy default/a (5), policy default/b (6) cannot be honoured together: "
            f"11 gpu reserved, pool west has 10; {WAY_OUT}"
        ),
    )


def test_what_was_overcommitted_is_refused_once_that_is_allowed_no_more(site):
    site.write("pools: [{name: west, selector: {site: west}, allow_overcommit: true}]")
    site.write(policies(policy("a", "one", wide=11)))
    assert site.plan("pools: [{name: west, selector: {site: west}}]").errors == (
        f"pools[0]: policy default/a (11) cannot be honoured together: 11 gpu reserved, pool west has 10; {WAY_OUT}",
    )


def test_overcommit_of_one_pool_excuses_nothing_in_another(site):
    site.write("profiles: [{name: far, request: {gpu: 1}, pools: [east]}]")
    overcommitted = "pools: [{name: west, selector: {site: west}, allow_overcommit: true}]\n"
    plan = site.plan(overcommitted + policies(policy("a", "both", wide=20), policy("b", "far", wide=5)))
    assert plan.errors == (
        f"policies[1].reservation.gpu: policy default/b (5) cannot be honoured together: 5 gpu reserved, pool east has 4; {WAY_OUT}",
    )


class TestWhatIsBrokenAlready:
    """R6: no edit is blocked by what others did; only what makes it worse is refused."""

    @pytest.fixture
    def broken(self, site):
        site.write(policies(policy("a", "one", wide=6), policy("b", "one", wide=6)))
        return site

    def test_an_edit_that_changes_nothing_about_it_is_warned(self, broken):
        plan = broken.plan(policies(policy("a", "one", wide=6).replace("group", "priority: 3, group")))
        assert plan.errors == ()
        assert [warning.split(": ")[1] for warning in plan.warnings] == ["OVERCOMMITTED"]

    def test_an_edit_that_makes_it_better_is_let_through(self, broken):
        assert broken.plan(policies(policy("a", "one", wide=5))).errors == ()

    def test_an_edit_that_makes_it_worse_is_refused(self, broken):
        assert len(broken.plan(policies(policy("a", "one", wide=7))).errors) == 1

    def test_an_edit_that_breaks_something_else_is_refused(self, broken):
        broken.write("profiles: [{name: far, request: {gpu: 1}, pools: [east]}]")
        errors = broken.plan(policies(policy("c", "far", wide=5))).errors
        assert [error.partition(":")[0] for error in errors] == ["policies[0].reservation.gpu"]


class TestBeforeTheFirstNode:
    def test_reservations_are_taken_on_trust(self, installation):
        plan = installation.plan(
            """
            groups: [{name: all}]
            pools: [{name: west, selector: {site: west, rack: r1}}]
            profiles: [{name: one, request: {gpu: 1}, pools: [west]}]
            """
            + policies(policy("a", "one", wide=500)).replace("\n", "\n            ")
        )
        assert plan.errors == ()
        assert plan.warnings == (
            (
                "pools[0]: NO_NODES_YET: no node with the labels site=west, rack=r1 has registered yet, so whether the reservations here "
                "can be honoured is not known"
            ),
        )

    def test_a_declared_capacity_is_known_all_the_same(self, installation):
        installation.write(
            """
            groups: [{name: all}]
            pools: [{name: west, selector: {site: west}, capacity: {gpu: 8}}]
            profiles: [{name: one, request: {gpu: 1}, pools: [west]}]
            """
        )
        assert installation.plan(policies(policy("a", "one", wide=8))).warnings == ()
        assert "pool west has 8" in installation.plan(policies(policy("a", "one", wide=9))).errors[0]

    def test_what_is_dedicated_of_a_declared_capacity_is_not_known(self, installation):  # R6, R21
        installation.write(
            """
            groups: [{name: all}]
            pools: [{name: west, selector: {site: west}, capacity: {gpu: 8}}]
            profiles: [{name: one, request: {gpu: 1}, pools: [west]}]
            """
        )
        own = OWN.replace("site: west}", "site: west}, capacity: {gpu: 8}")
        assert installation.plan(own + policies(policy("a", "one", wide=4), policy("b", "one", wide=4))).errors == ()
        beyond = installation.plan(own + policies(policy("a", "one", wide=4), policy("b", "one", wide=5))).errors
        assert ["9 gpu reserved, " in line and " have 8; " in line for line in beyond] == [True]

    def test_what_a_pool_may_create_is_known(self, installation):
        installation.write(
            """
            groups: [{name: all}]
            pools:
              - name: cloud
                selector: {site: cloud}
                burst: {provider: local, max_nodes: 2, node: {gpus: 8, gpu_model: H100-80GB}}
            profiles: [{name: one, request: {gpu: 1}, pools: [cloud]}]
            """
        )
        assert installation.plan(policies(policy("a", "one", wide=16))).warnings == ()
        assert "pool cloud has 16" in installation.plan(policies(policy("a", "one", wide=17))).errors[0]


class TestNotPinned:
    def test_a_policy_may_sit_where_another_must_go(self, site):
        plan = site.plan(policies(policy("a", "both", wide=4), policy("b", "one", wide=4)))
        assert plan.warnings == (
            (
                "policies[0].reservation: NOT_PINNED: it may sit, inside its reservation, where policy default/b must go; "
                "reserve per pool to prevent it"
            ),
        )

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param(policies(policy("a", "both", wide=4), policy("b", "both", wide=4)), id="both can go everywhere"),
            pytest.param(policies(policy("a", "both", wide=4, west=2), policy("b", "one", wide=4)), id="one says where"),
            pytest.param(policies(policy("a", "both", wide=0), policy("b", "one", wide=4)), id="nothing is reserved"),
            pytest.param(policies(policy("a", "both", wide=4)), id="there is nobody else"),
        ],
    )
    def test_otherwise_nothing_is_said(self, site, text):
        assert site.plan(text).warnings == ()

    def test_a_policy_of_a_tenant_with_a_share_sits_in_the_share(self, site):
        site.write(TENANTS % 4)
        plan = site.plan(policies(policy("a", "both", wide=4, tenant="x"), policy("b", "one", wide=2)))
        assert plan.warnings == ()


OWN = "pools: [{name: west, selector: {site: west}, dedicated: [{selector: {rack: r7}, to: {policy: default/a}}]}]\n"
WHOLE = "pools: [{name: west, selector: {site: west}, dedicated_to: {tenant: acme}}]\n"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        pytest.param(
            OWN + policies(policy("a", "one", wide=12), policy("b", "one", wide=2)), "", id="the owner draws on its own too"
        ),
        pytest.param(
            OWN + policies(policy("a", "one", wide=4), policy("b", "one", wide=10)), "", id="and leaves the rest to others"
        ),
        pytest.param(
            OWN + policies(policy("a", "one", wide=2), policy("b", "one", wide=11)),
            "policies[1].reservation.gpu: policy default/b (11) cannot be honoured together: 11 gpu reserved, pool west has 10; ",
            id="what is another's counts not",
        ),
        pytest.param(
            OWN + policies(policy("a", "one", wide=6), policy("b", "one", wide=9)),
            "policy default/a (6), policy default/b (9) cannot be honoured together: 15 gpu reserved, "
            "pool west, what is dedicated to default/a in pool west have 14; ",
            id="all together",
        ),
        pytest.param(
            WHOLE + policies(policy("a", "one", wide=1)),
            "policy default/a (1) cannot be honoured together: 1 gpu reserved",
            id="a pool that is another's has nothing",
        ),
        pytest.param(
            WHOLE + "tenants: [{name: acme}]\n" + policies(policy("a", "both", wide=4)), "", id="but elsewhere there may be"
        ),
    ],
)
def test_what_is_dedicated_is_promised_to_its_owner_only(site, text, error):  # R8, R21
    site.node("w7", 4, site="west", rack="r7")
    plan = site.plan("tenants: [{name: acme}]\n" + text if "acme" in text and "tenants" not in text else text)
    assert [line for line in plan.errors if "honoured" in line] == [line for line in plan.errors if error and error in line]
    assert bool(plan.errors) is bool(error)


def test_a_share_that_rests_on_what_one_policy_owns_honours_no_other_reservation(site):  # R8, R21
    site.node("w7", 4, site="west", rack="r7")
    own = "pools: [{name: west, selector: {site: west}, dedicated: [{selector: {rack: r7}, to: {policy: acme/a}}]}]\n"
    group = "groups: [{tenant: acme, name: all, members: [ann]}]\n"
    tenant = "tenants: [{name: acme, shares: [{pool: west, reservation: {gpu: 14}}]}]\n"
    fits = site.plan(
        tenant + group + own + policies(policy("a", "one", wide=4, tenant="acme"), policy("b", "one", wide=10, tenant="acme"))
    )
    beyond = site.plan(
        tenant + group + own + policies(policy("a", "one", wide=3, tenant="acme"), policy("b", "one", wide=11, tenant="acme"))
    )
    assert fits.errors == ()
    assert ["11 gpu reserved, pool west has 10" in line for line in beyond.errors] == [True]
