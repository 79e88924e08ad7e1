from __future__ import annotations

import pytest

from headrace.contracts.documents.model import Policy, Scope, Share, Tenant
from headrace.governance.objects import name_of
from headrace.governance.validation.diagnostics import Diagnostics
from headrace.governance.validation.limit_checks import check_reservations


def policy(**fields):
    return Policy(name="p", group="all", profiles=(), **fields)


@pytest.mark.parametrize(
    ("document", "errors"),
    [
        (policy(reservation={"job": 4}, limit={"job": 4}), []),
        (policy(reservation={"job": 4}), []),
        (
            policy(reservation={"job": 5}, limit={"job": 4}),
            ["policy default/p: reservation.job: the reservation of 5 is not between 0 and the limit of 4 (R7)"],
        ),
        (
            policy(reservation={"job": -1}),
            ["policy default/p: reservation.job: the reservation of -1 is below 0 (R7)"],
        ),
        (
            policy(per_pool={"west": Scope(reservation={"job": 5}, limit={"job": 4})}, limit={"job": 9}),
            ["policy default/p: per_pool.west.reservation.job: the reservation of 5 is not between 0 and the limit of 4 (R7)"],
        ),
        (
            policy(per_pool={"west": Scope(reservation={"job": 5}, limit={"job": 9})}, limit={"job": 4}),
            ["policy default/p: per_pool.west.reservation.job: the reservation of 5 is not between 0 and the limit of 4 (R7)"],
        ),
        (
            Tenant(name="x", shares=(Share(pool="west", reservation={"job": 2}, limit={"job": 1}),)),
            ["tenant x: shares[0].reservation.job: the reservation of 2 is not between 0 and the limit of 1 (R7)"],
        ),
    ],
)
def test_a_reservation_lies_between_zero_and_every_limit_that_holds(document, errors):
    findings = Diagnostics()
    check_reservations(name_of(document), document, findings)
    assert findings.errors == errors


def test_what_the_reader_lets_through_is_looked_at_across_scopes(site):
    plan = site.plan(
        "policies: [{name: p, group: all, profiles: [one], limit: {gpu: 2}, per_pool: {west: {reservation: {gpu: 3}}}}]"
    )
    assert plan.errors == (
        "policies[0].per_pool.west.reservation.gpu: the reservation of 3 is not between 0 and the limit of 2 (R7)",
    )


@pytest.mark.parametrize(
    ("policy", "warnings"),
    [
        ("profiles: [one], limit: {gpu: 10}", ()),
        (
            "profiles: [one], limit: {gpu: 11}",
            ("policies[0].limit.gpu: LIMIT_ABOVE_CAPACITY: pool west has 10, so the limit of 11 counts as that",),
        ),
        ("profiles: [both], limit: {gpu: 14}", ()),
        (
            "profiles: [both], limit: {gpu: 15}",
            ("policies[0].limit.gpu: LIMIT_ABOVE_CAPACITY: pools west, east have 14, so the limit of 15 counts as that",),
        ),
        (
            "profiles: [both], per_pool: {east: {limit: {gpu: 5}}}",
            ("policies[0].per_pool.east.limit.gpu: LIMIT_ABOVE_CAPACITY: pool east has 4, so the limit of 5 counts as that",),
        ),
        ("profiles: [one], limit: {job: 3}", ()),
        ("profiles: [three, one], reservation: {gpu: 1}", ()),
        ("profiles: [three], reservation: {gpu: 3}", ()),
        ("profiles: [three], reservation: {gpu: 0}", ()),
        (
            "profiles: [three], reservation: {gpu: 2}",
            (
                (
                    "policies[0].reservation.gpu: GRANULARITY: the reservation of 2 is smaller than the smallest job it could serve, "
                    "one of profile three with 3"
                ),
            ),
        ),
        (
            "profiles: [gang], reservation: {gpu: 5}",
            (
                (
                    "policies[0].reservation.gpu: GRANULARITY: the reservation of 5 is smaller than the smallest job it could serve, "
                    "one of profile gang with 6"
                ),
            ),
        ),
        (
            "profiles: [three, both], per_pool: {east: {reservation: {gpu: 0.5}}}",
            (
                (
                    "policies[0].per_pool.east.reservation.gpu: GRANULARITY: the reservation of 0.5 is smaller than the smallest job "
                    "it could serve, one of profile both with 1"
                ),
            ),
        ),
        (
            "profiles: [three], limit: {gpu: 2}",
            (
                (
                    "policies[0].profiles[0]: NEVER_RUNS: no whole job of queue p/three could run: EXCEEDS_POLICY_LIMIT: "
                    "it asks for 3 gpu, the limit of policy default/p is 2"
                ),
            ),
        ),
        (
            "profiles: [huge]",
            (
                (
                    "policies[0].profiles[0]: NEVER_RUNS: no whole job of queue p/huge could run: EXCEEDS_POOL_CAPACITY: "
                    "it asks for 11 gpu, pool west has 10"
                ),
            ),
        ),
        ("profiles: []", ()),
    ],
)
def test_what_a_policy_says_without_effect(site, policy, warnings):
    site.write(
        """
        profiles:
          - {name: gang, request: {gpu: 3}, replicas: 2, pools: [west]}
          - {name: huge, request: {gpu: 11}, pools: [west]}
        """
    )
    plan = site.plan("policies: [{name: p, group: all, " + policy + "}]")
    assert (plan.errors, plan.warnings) == ((), warnings)


def test_a_policy_that_stays_is_warned_of_what_a_profile_makes_of_it(site):
    site.write("policies: [{name: p, group: all, profiles: [three], limit: {gpu: 3}}]")
    plan = site.plan("profiles: [{name: three, request: {gpu: 4}, pools: [west]}]")
    assert plan.warnings == (
        (
            "policy default/p: profiles[0]: NEVER_RUNS: no whole job of queue p/three could run: EXCEEDS_POLICY_LIMIT: "
            "it asks for 4 gpu, the limit of policy default/p is 3"
        ),
    )


def test_a_policy_that_nothing_happened_to_is_left_alone(site):
    site.write("policies: [{name: p, group: all, profiles: [three], limit: {gpu: 99}}]")
    assert site.plan("policies: [{name: q, group: all, profiles: [one]}]").warnings == ()


def test_a_share_limit_above_the_pool_is_a_warning(site):
    plan = site.plan("tenants: [{name: x, shares: [{pool: east, limit: {gpu: 5}}, {pool: west, limit: {gpu: 5}}]}]")
    assert plan.warnings == (
        "tenants[0].shares[0].limit.gpu: LIMIT_ABOVE_CAPACITY: pool east has 4, so the limit of 5 counts as that",
    )
