from __future__ import annotations

import msgspec
import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, PolicyProfile
from headrace.contracts.facts.records import RECORD_BYTES_MAX, Record
from headrace.contracts.messages.queries import Change
from headrace.governance.plan import ApplyPlan

TWO = """
policies:
  - {name: rnd, group: all, profiles: [three], reservation: {gpu: 5}, limit: {gpu: 9}}
  - {name: devops, group: all, profiles: [three], reservation: {gpu: 5}, limit: {gpu: 9}}
"""


def change(kind, name, action, *fields, revision=0):
    return Change(kind=kind, name=name, action=action, fields=fields, revision=revision)


def test_a_new_policy_is_one_line_and_one_fact(site):
    plan = site.plan("policies: [{name: rnd, group: all, profiles: [one]}]", reason="a new team")
    policy = Policy(name="rnd", group="all", profiles=(PolicyProfile(name="one"),))
    assert plan == ApplyPlan(
        (change("policy", "default/rnd", "create"),),
        (f.PolicyAppliedV1(author="default.admin", reason="a new team", policy=policy),),
    )


def test_facts_come_in_the_order_of_dependence_whatever_the_order_in_the_file(installation):
    plan = installation.plan(
        """
        policies: [{tenant: acme, name: p, group: g, profiles: [x]}]
        profiles: [{name: x, request: {gpu: 1}, pools: [west]}]
        pools: [{name: west, selector: {site: west}}]
        groups: [{tenant: acme, name: g}]
        users: [{tenant: acme, handle: ann}]
        tenants: [{name: acme}]
        """
    )
    assert [type(fact) for fact in plan.facts] == [
        f.TenantAppliedV1,
        f.UserAppliedV1,
        f.GroupAppliedV1,
        f.PoolAppliedV1,
        f.ProfileAppliedV1,
        f.PolicyAppliedV1,
    ]
    assert [(line.kind, line.name) for line in plan.changes] == [
        ("tenant", "acme"),
        ("user", "acme/ann"),
        ("group", "acme/g"),
        ("pool", "west"),
        ("profile", "x"),
        ("policy", "acme/p"),
    ]


def test_what_stands_as_written_is_kept_and_makes_no_fact(site):
    site.write(TWO)
    plan = site.plan(TWO.replace("limit: {gpu: 9}}", "limit: {gpu: 8}}", 1))
    assert plan.changes == (
        change("policy", "default/rnd", "update", "limit.gpu: 9 -> 8", revision=4),
        change("policy", "default/devops", "keep", revision=4),
    )
    assert [fact.policy.name for fact in plan.facts] == ["rnd"]


def test_an_empty_set_changes_nothing(site):
    assert site.plan("policies: []") == ApplyPlan(())


@pytest.mark.parametrize(
    ("revisions", "errors"),
    [
        ({"policy/default/rnd": 4}, ()),
        ({"policy/default/rnd": 4, "policy/default/devops": 4}, ()),
        (
            {"policy/default/rnd": 3},
            (
                (
                    "revisions.policy/default/rnd: it is based on revision 3, the object is now at revision 4: "
                    "get it again and apply what you want of it"
                ),
            ),
        ),
        (
            {"policy/default/rnd": 0},
            (
                (
                    "revisions.policy/default/rnd: it is based on revision 0, the object is now at revision 4: "
                    "get it again and apply what you want of it"
                ),
            ),
        ),
        (
            {"policy/rnd": 4},
            ("revisions.policy/rnd: no document of this set has that name; write one such as policy/default/rnd",),
        ),
    ],
)
def test_a_write_is_refused_when_its_revision_has_been_overtaken(site, revisions, errors):
    site.write(TWO)
    plan = site.plan(TWO.replace("limit: {gpu: 9}", "limit: {gpu: 7}"), revisions=revisions)
    assert (plan.errors, plan.stale, bool(plan.facts)) == (errors, bool(errors), not errors)
    assert [line.action for line in plan.changes] == ["update", "update"]


def test_an_object_that_is_gone_is_at_revision_zero(site):
    plan = site.plan("policies: [{name: rnd, group: all, profiles: [one]}]", revisions={"policy/default/rnd": 12})
    assert plan.errors == (
        (
            "revisions.policy/default/rnd: it is based on revision 12, the object is not there (revision 0): "
            "get it again and apply what you want of it"
        ),
    )


def test_errors_leave_no_facts_but_show_the_changes_and_all_that_is_wrong(site):
    plan = site.plan(
        """
        groups: [{name: new}]
        policies:
          - {name: a, group: nwe, profiles: [one]}
          - {name: b, group: new, profiles: [two]}
        """
    )
    assert plan.facts == ()
    assert [line.action for line in plan.changes] == ["create"] * 3
    assert plan.errors == (
        "policies[0].group: there is no group nwe; did you mean new?",
        "policies[1].profiles[0]: there is no profile two; there are both, one, three",
    )


def test_more_objects_than_a_record_holds_are_refused(site):
    plan = site.plan("users: [" + ", ".join(f"{{handle: u{number}}}" for number in range(1_001)) + "]")
    assert plan.errors == (
        "documents: 1001 objects would change; one set changes at most 1000: apply them in parts, pools and profiles before policies",
    )


def test_more_bytes_than_a_record_holds_are_refused(site):
    people = ", ".join(f"someone-with-a-rather-long-handle-{number}" for number in range(8_000))
    plan = site.plan("groups: [" + ", ".join(f"{{name: g{number}, members: [{people}]}}" for number in range(2)) + "]")
    assert len(plan.errors) == 1
    assert plan.errors[0].startswith("documents: the changed documents take ")


def test_the_largest_set_that_is_let_through_fits_a_record(site):
    members = ", ".join(f"m{number:04}" for number in range(58))
    groups = ", ".join(f"{{name: g{number:03}, members: [{members}]}}" for number in range(938))
    plan = site.plan(f"groups: [{groups}]")
    assert plan.errors == ()
    record = Record(by="governance", now=2**53 - 1, engine="x" * 64, as_of=2**53 - 1, prev="f" * 32, facts=plan.facts)
    assert RECORD_BYTES_MAX - 30_000 < len(msgspec.json.encode(record)) <= RECORD_BYTES_MAX


def test_scenarios_need_no_group(site):
    text = "policies: [{name: rnd, profiles: [one]}]"
    assert site.plan(text).errors == ("policies[0]: group is missing; write whose policy it is, such as group: all",)
    assert site.plan(text, groups=False).errors == ()


def test_a_plan_changes_nothing(site):
    site.write(TWO)
    site.job("rnd/three", 3, on="w1")
    before = _picture(site.state)
    site.plan(
        """
        tenants: [{name: acme, shares: [{pool: west, reservation: {gpu: 1}}]}]
        pools: [{name: west, selector: {site: west}, capacity: {gpu: 4}}]
        policies: [{name: rnd, group: all, profiles: [both]}]
        """
    )
    assert _picture(site.state) == before


def _picture(state):
    return (
        state.sequence,
        {
            name: (pool.document, pool.revision, pool.epoch, sorted(pool.nodes), pool.known)
            for name, pool in state.pools.items()
        },
        {key: (policy.document, policy.wide.limit, dict(policy.wide.use)) for key, policy in state.policies.items()},
        dict(state.shares),
        dict(state.tenants),
        {name: node.pool for name, node in state.nodes.items()},
    )


def test_a_dry_run_counts_the_jobs_it_would_touch(site):
    site.write(TWO)
    site.job("rnd/three", 3, on="w1")
    site.job("rnd/three", 3)
    site.job("devops/three", 3)
    plan = site.plan(TWO.replace("limit: {gpu: 9}}", "limit: {gpu: 8}}", 1))
    assert (plan.running, plan.pending) == (1, 1)


def test_users_and_groups_alone_ask_no_question_about_hardware(site):
    site.write("policies: [{name: rnd, group: all, profiles: [one], reservation: {gpu: 99}}]")
    plan = site.plan("groups: [{name: all, members: [ann, bob]}]")
    assert (plan.errors, plan.warnings) == ((), ())
    assert plan.changes[0].fields == ("members: [ann] -> [ann, bob]",)


def test_the_example_files_apply_without_a_complaint(installation, request):
    installation.append_facts(f.InstallationLevelV1(level=3, release="0.3.0"))
    installation.node("hq-1", 10, site="hq")
    examples = request.config.rootpath / "deploy" / "examples"
    further = {"overflow.yaml": "two-teams.yaml"}  # files that are applied to an installation that has another one
    for file in sorted(examples.glob("*.yaml"), key=lambda file: (file.name in further, file.name)):
        if file.name in further:
            installation.write((examples / further[file.name]).read_text())
        plan = installation.plan(file.read_text())
        assert (file.name, plan.errors, plan.warnings) == (file.name, (), ())
