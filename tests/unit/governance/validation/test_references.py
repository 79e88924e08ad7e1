from __future__ import annotations

import pytest

NONE_YET = "apply the {} in the same set, or before"


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("users: [{tenant: acmee, handle: ann}]", ("users[0].tenant: there is no tenant acmee; did you mean acme?",)),
        ("groups: [{tenant: nobody, name: g}]", ("groups[0].tenant: there is no tenant nobody; there are acme, default",)),
        (
            "tenants: [{name: acme, shares: [{pool: west}, {pool: wets}]}]",
            ("tenants[0].shares[1].pool: there is no pool wets; did you mean west?",),
        ),
        (
            "profiles: [{name: x, tenant: zzz, request: {gpu: 1}, pools: [east, south]}]",
            (
                "profiles[0].tenant: there is no tenant zzz; there are acme, default",
                "profiles[0].pools[1]: there is no pool south; there are east, west",
            ),
        ),
        (
            "policies: [{name: p, group: al, profiles: [one, tree]}]",
            (
                "policies[0].group: there is no group al; did you mean all?",
                "policies[0].profiles[1]: there is no profile tree; did you mean three?",
            ),
        ),
        (
            "policies: [{tenant: acme, name: p, group: all, profiles: [one]}]",
            ("policies[0].group: there is no group all; " + NONE_YET.format("group"),),
        ),
        (
            "policies: [{tenant: beta, name: p, group: all, profiles: [one]}]",
            (
                "policies[0].tenant: there is no tenant beta; there are acme, default",
                "policies[0].group: there is no group all; " + NONE_YET.format("group"),
            ),
        ),
        (
            "policies: [{name: p, profiles: [one]}]",
            ("policies[0]: group is missing; write whose policy it is, such as group: all",),
        ),
        (
            "policies: [{name: p, group: all, profiles: [one], per_pool: {wst: {limit: {gpu: 1}}}}]",
            ("policies[0].per_pool.wst: there is no pool wst; did you mean west?",),
        ),
        (
            "pools: [{name: west, selector: {site: west}, access: {allow: [acme, zzz], deny: [default/al]}}]",
            (
                "pools[0].access.allow[1]: there is no tenant zzz; there are acme, default",
                "pools[0].access.deny[0]: there is no group default/al; did you mean default/all?",
            ),
        ),
        (
            "pools: [{name: west, selector: {site: west}, dedicated_to: {policy: acme/inference}}]",
            ("pools[0].dedicated_to.policy: there is no policy acme/inference; " + NONE_YET.format("policy"),),
        ),
        (
            "pools: [{name: west, selector: {site: west}, dedicated: [{selector: {rack: r1}, to: {tenant: zzz}}]}]",
            ("pools[0].dedicated[0].to.tenant: there is no tenant zzz; there are acme, default",),
        ),
    ],
)
def test_names_that_have_to_exist(site, text, errors):
    site.write("tenants: [{name: acme}]")
    assert site.plan(text).errors == errors


def test_names_may_come_into_being_with_the_set(installation):
    plan = installation.plan(
        """
        tenants: [{name: acme, shares: [{pool: west}]}]
        groups: [{tenant: acme, name: g, members: [ann]}]
        pools:
          - name: west
            selector: {site: west}
            profile_order: [x]
            access: {allow: [acme/g]}
            dedicated_to: {policy: acme/p}
        profiles: [{tenant: acme, name: x, request: {gpu: 1}, pools: [west], policy_order: [p, acme/p]}]
        policies: [{tenant: acme, name: p, group: g, profiles: [x], beyond_limit: [ann]}]
        """
    )
    assert (plan.errors, plan.warnings) == ((), ())


@pytest.mark.parametrize(("rack", "warned"), [("r7", False), ("r8", True)])
def test_a_dedication_that_picks_no_node_is_told(site, rack, warned):  # R21
    site.node("w7", 4, site="west", rack="r7")
    text = f"pools: [{{name: west, selector: {{site: west}}, dedicated: [{{selector: {{rack: {rack}}}, to: {{tenant: default}}}}]}}]"
    warning = (
        "pools[0].dedicated[0].selector: NO_NODES_YET: "
        "no node of pool west has the labels rack=r8 yet, so nothing is dedicated by it"
    )
    assert (warning in site.plan(text).warnings) is warned


def test_a_tenants_own_profile_is_not_another_tenants(site):
    site.write(
        """
        tenants: [{name: acme}]
        profiles: [{tenant: acme, name: secret, request: {gpu: 1}, pools: [west]}]
        """
    )
    errors = site.plan("policies: [{name: p, group: all, profiles: [secret]}]").errors
    assert errors == ("policies[0].profiles[0]: there is no profile secret; there are both, one, three",)


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        (
            "pools: [{name: west, selector: {site: west}, profile_order: [one, tow]}]",
            ("pools[0].profile_order[1]: UNKNOWN_NAME: there is no profile tow; there are both, one, three",),
        ),
        (
            "profiles: [{name: x, request: {gpu: 1}, pools: [west], policy_order: [rnd, default/rnd, acme/rnd]}]",
            ("profiles[0].policy_order[2]: UNKNOWN_NAME: there is no policy acme/rnd; did you mean default/rnd?",),
        ),
        (
            "policies: [{name: p, group: all, profiles: [{name: one, submitters: [ann, bob]}], beyond_limit: [cid]}]",
            (
                "policies[0].profiles[0].submitters[1]: NOT_A_MEMBER: bob is not in group all, so it has no effect; add them to the group",
                "policies[0].beyond_limit[0]: NOT_A_MEMBER: cid is not in group all, so it has no effect; add them to the group",
            ),
        ),
        (
            "policies: [{name: p, group: all, profiles: [one], per_pool: {east: {limit: {gpu: 1}}}}]",
            (
                (
                    "policies[0].per_pool.east: NOT_REACHED: no profile of this policy leads to pool east; "
                    "link one that does, or leave it out"
                ),
            ),
        ),
    ],
)
def test_names_without_effect_are_warnings(site, text, warnings):
    site.write("policies: [{name: rnd, group: all, profiles: [one]}]")
    plan = site.plan(text)
    assert (plan.errors, plan.warnings) == ((), warnings)


class TestAccess:
    @pytest.mark.parametrize(
        ("access", "open_to_it"),
        [
            ("{}", True),
            ("{allow: [default]}", True),
            ("{allow: [default/all]}", True),
            ("{allow: [acme]}", False),
            ("{deny: [default]}", False),
            ("{deny: [default/all]}", False),
            ("{deny: [acme]}", True),
            ("{allow: [default], deny: [default/all]}", False),
        ],
    )
    def test_a_policy_needs_a_pool_that_is_open_to_its_group(self, site, access, open_to_it):
        site.write("tenants: [{name: acme}]\npools: [{name: west, selector: {site: west}, access: " + access + "}]")
        plan = site.plan("policies: [{name: p, group: all, profiles: [one]}]")
        shut = (
            (
                "policies[0].profiles[0]: no pool of profile one (west) is open to default/all; "
                "change its access, or leave the profile out"
            ),
        )
        assert plan.errors == (() if open_to_it else shut)

    def test_one_open_pool_is_enough(self, site):
        site.write("pools: [{name: west, selector: {site: west}, access: {deny: [default]}}]")
        assert site.plan("policies: [{name: p, group: all, profiles: [both]}]").errors == ()

    def test_shutting_a_policy_out_is_let_through_with_a_warning(self, site):
        site.write("policies: [{name: p, group: all, profiles: [one, three]}, {name: q, group: all, profiles: [one]}]")
        shut = "pools: [{name: west, selector: {site: west}, access: {deny: [default/all]}}]"
        plan = site.plan(shut)
        assert plan.errors == ()
        shut_out = [warning for warning in plan.warnings if "SHUT_OUT" in warning]
        assert shut_out == [
            "pools[0].access: SHUT_OUT: it is no longer open to policy default/p, whose profiles lead here",
            "pools[0].access: SHUT_OUT: it is no longer open to policy default/q, whose profiles lead here",
        ]
        assert all("SHUT_OUT" in warning or "NEVER_RUNS" in warning for warning in plan.warnings)
        site.write(shut)
        again = site.plan(shut.replace("selector", "backfill_for: 5m, selector"))
        assert [warning for warning in again.warnings if "SHUT_OUT" in warning] == []
