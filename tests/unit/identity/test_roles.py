"""Every method x every role x own and other tenant x own and others' things: the table, cell by cell."""

from __future__ import annotations

import pytest

from headrace.identity.caller import Caller, Denied, Role
from headrace.identity.roles import NOT_YOURS, TABLE, authorize, authorize_grant, reach

WORDS = {
    "read": "all all tenant tenant tenant nobody nobody",
    "run": "all nobody tenant nobody nobody nobody nobody",
    "provide": "all nobody nobody nobody nobody nobody nobody",
    "inspect": "all all nobody nobody nobody nobody nobody",
    "oversee": "all all tenant nobody nobody nobody nobody",
    "suppose": "all all tenant self nobody nobody nobody",
    "work": "all nobody tenant self self nobody nobody",
    "submit": "all nobody self self self nobody nobody",
}
"""How far each role reaches, in the order of `Role`, by the sort of method."""

KINDS = ("Tenant", "Pool", "Profile", "User", "Group", "ServiceAccount", "Policy")
PLURALS = {"Policy": "Policies"}

SORTS: dict[str, set[str]] = {
    "read": {
        *(f"Get{kind}" for kind in KINDS),
        *(f"List{PLURALS.get(kind, kind + 's')}" for kind in KINDS),
        *("ListQueues", "GetQueue", "ListNodes", "GetNode", "GetJob", "ListJobs", "ExplainJob", "WatchJobs", "ListJobFacts"),
        *("GetUsage", "GetStatement", "ListAuditLines", "GetDocuments", "GetState", "DiffStates", "GetOpenApi", "GetCaller"),
        *("GetUtilization", "GetVerification", "GetTimeline", "ListPreemptions", "GetPreemption"),
        *("GetOverview", "WatchOverview", "GetPage", "CreateLoginCode", "RedeemLoginCode"),
    },
    "run": {
        *(f"{verb}{kind}" for verb in ("Create", "Update", "Delete") for kind in KINDS if kind not in ("Tenant", "Pool")),
        *("ApplyDocuments", "DeleteDocument", "CreateToken", "RevokeToken", "RevokeBearer"),
    },
    "provide": {
        *(f"{verb}{kind}" for verb in ("Create", "Update", "Delete") for kind in ("Tenant", "Pool")),
        *(
            "EraseTenant",
            "EraseUser",
            "CordonNode",
            "UncordonNode",
            "DrainNode",
            "ConfirmNodeEmpty",
            "RemoveNode",
            "ApproveNode",
            "CheckOffers",
            "EndInstance",
            "PreemptJob",
        ),
    },
    "inspect": {"ListRecords", "GetStatus", "ListInstances", "ListOffers", "PlanGrowth"},
    "oversee": {"ListTokens", "GetToken", "GetWhatIfQueue"},
    "suppose": {"WhatIf"},
    "work": {"GetJobLogs", "CancelJob", "CancelJobs", "RequeueJob"},
    "submit": {"SubmitJobs"},
}
CELLS = [
    (method, role, far)
    for sort, methods in SORTS.items()
    for method in sorted(methods)
    for role, far in zip(Role, WORDS[sort].split(), strict=True)
]


def may(caller, method, tenant, owner=""):
    try:
        authorize(caller, method, tenant, owner)
    except Denied:
        return False
    return True


def test_every_method_is_of_one_sort():
    assert sorted(method for methods in SORTS.values() for method in methods) == sorted(TABLE)


def test_each_cell_of_the_table():
    things = [("acme", "ann"), ("acme", "bob"), ("other", "ann"), ("other", "bob"), ("", "")]
    found = {
        (method, role): [may(Caller(role, "acme", "ann"), method, *thing) for thing in things] for method, role, _ in CELLS
    }
    assert found == {
        (method, role): {
            "all": [True] * 5,
            "tenant": [True, True, False, False, method in SORTS["read"]],
            "self": [True, False, False, False, False],
            "nobody": [False] * 5,
        }[far]
        for method, role, far in CELLS
    }


@pytest.mark.parametrize("role", Role)
def test_a_method_that_is_missing_from_the_table_is_refused(role):
    assert reach(role, "FormatDisk") == 0
    assert not may(Caller(role, "acme", "ann"), "FormatDisk", "acme", "ann")


def test_a_refusal_says_the_same_whether_or_not_the_other_tenant_exists():
    caller = Caller(Role.TENANT_MEMBER, "acme", "ann")
    for tenant in ("other", "no-such-tenant"):
        with pytest.raises(Denied) as denied:
            authorize(caller, "GetJob", tenant)
        assert str(denied.value) == NOT_YOURS


@pytest.mark.parametrize(
    ("role", "token", "tenant", "allowed"),
    [
        (Role.PROVIDER_ADMIN, "admin", "default", True),
        (Role.PROVIDER_ADMIN, "node", "", True),
        (Role.PROVIDER_ADMIN, "user", "other", True),
        (Role.PROVIDER_VIEWER, "user", "acme", False),
        (Role.TENANT_ADMIN, "user", "acme", True),
        (Role.TENANT_ADMIN, "service-account", "acme", True),
        (Role.TENANT_ADMIN, "user", "other", False),
        (Role.TENANT_ADMIN, "admin", "acme", False),
        (Role.TENANT_ADMIN, "viewer", "acme", False),
        (Role.TENANT_ADMIN, "node", "acme", False),
        (Role.TENANT_MEMBER, "user", "acme", False),
        (Role.SERVICE_ACCOUNT, "user", "acme", False),
        (Role.NODE, "node", "", False),
    ],
)
def test_no_user_makes_a_token_with_more_rights_than_their_own(role, token, tenant, allowed):
    caller = Caller(role, "acme", "ann")
    if allowed:
        authorize_grant(caller, token, tenant)
    else:
        with pytest.raises(Denied):
            authorize_grant(caller, token, tenant)
