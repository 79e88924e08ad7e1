"""What each role may do: one table by method, which is also the test. Pure.

A method has its name in the API (`SubmitJobs`). For each role the table gives the reach of the method: nothing, its own objects, its own
tenant, or everything. The provider's own objects (tenants, pools, nodes, profiles without a tenant) belong to no
tenant: a role with reach of its own tenant reads what `visibility` projects of them, and changes nothing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from headrace.contracts.messages.tokens import TokenRole
from headrace.identity.caller import Caller, Denied, Role


class Reach(IntEnum):
    """The objects that a role may use with a method."""

    NOBODY = 0
    SELF = 1
    """Its own objects: jobs it submitted."""
    TENANT = 2
    ALL = 3


class RoleRow(NamedTuple):
    """One row of the table: a reach for each role, in the order of `Role`."""

    provider_admin: Reach
    provider_viewer: Reach
    tenant_admin: Reach
    tenant_member: Reach
    service_account: Reach
    node: Reach
    instance: Reach = Reach.NOBODY


_NOBODY, _SELF, _TENANT, _ALL = Reach

_READ = RoleRow(_ALL, _ALL, _TENANT, _TENANT, _TENANT, _NOBODY)
"""Every role reads the objects of its tenant."""
_RUN = RoleRow(_ALL, _NOBODY, _TENANT, _NOBODY, _NOBODY, _NOBODY)
"""A tenant's administrator writes the tenant's objects."""
_PROVIDE = RoleRow(_ALL, _NOBODY, _NOBODY, _NOBODY, _NOBODY, _NOBODY)
"""Only the provider writes."""
_INSPECT = RoleRow(_ALL, _ALL, _NOBODY, _NOBODY, _NOBODY, _NOBODY)
"""Only the provider reads: the answer concerns all tenants."""
_OVERSEE = RoleRow(_ALL, _ALL, _TENANT, _NOBODY, _NOBODY, _NOBODY)
"""A tenant's administrator reads what other members may not see."""
_WORK = RoleRow(_ALL, _NOBODY, _TENANT, _SELF, _SELF, _NOBODY)
"""Submitters change their own jobs, administrators all jobs of the tenant."""
_SUPPOSE = RoleRow(_ALL, _ALL, _TENANT, _SELF, _NOBODY, _NOBODY)
"""Members try jobs of their own, administrators any change of their tenant."""
_SUBMIT = RoleRow(_ALL, _NOBODY, _SELF, _SELF, _SELF, _NOBODY)
"""Every user submits in their own name; the provider in any name, as the owner of a laptop does."""


def _resource(one: str, many: str, write: RoleRow, read: RoleRow = _READ) -> dict[str, RoleRow]:
    return {
        f"List{many}": read,
        f"Get{one}": read,
        f"Create{one}": write,
        f"Update{one}": write,
        f"Delete{one}": write,
    }


TABLE: dict[str, RoleRow] = {
    **_resource("Tenant", "Tenants", _PROVIDE),
    "EraseTenant": _PROVIDE,
    **_resource("Pool", "Pools", _PROVIDE),
    **_resource("Profile", "Profiles", _RUN),
    **_resource("User", "Users", _RUN),
    "EraseUser": _PROVIDE,
    **_resource("Group", "Groups", _RUN),
    **_resource("ServiceAccount", "ServiceAccounts", _RUN),
    **_resource("Policy", "Policies", _RUN),
    "ListQueues": _READ,
    "GetQueue": _READ,
    "ApplyDocuments": _RUN,
    "GetDocuments": _READ,
    "DeleteDocument": _RUN,
    "ListNodes": _READ,
    "GetNode": _READ,
    "CordonNode": _PROVIDE,
    "UncordonNode": _PROVIDE,
    "DrainNode": _PROVIDE,
    "ConfirmNodeEmpty": _PROVIDE,
    "RemoveNode": _PROVIDE,
    "ApproveNode": _PROVIDE,
    "ListInstances": _INSPECT,
    "ListOffers": _INSPECT,
    "PlanGrowth": _INSPECT,
    "CheckOffers": _PROVIDE,
    "EndInstance": _PROVIDE,
    "SubmitJobs": _SUBMIT,
    "GetJob": _READ,
    "ListJobs": _READ,
    "ExplainJob": _READ,
    "WatchJobs": _READ,
    "ListJobFacts": _READ,
    "GetJobLogs": _WORK,
    "CancelJob": _WORK,
    "CancelJobs": _WORK,
    "RequeueJob": _WORK,
    "PreemptJob": _PROVIDE,
    "GetUsage": _READ,
    "GetUtilization": _READ,
    "GetStatement": _READ,
    "ListAuditLines": _READ,
    "ListRecords": _INSPECT,
    "GetState": _READ,
    "DiffStates": _READ,
    "GetVerification": _READ,
    "GetTimeline": _READ,
    "ListPreemptions": _READ,
    "GetPreemption": _READ,
    "WhatIf": _SUPPOSE,
    "GetWhatIfQueue": _OVERSEE,
    "CreateToken": _RUN,
    "ListTokens": _OVERSEE,
    "GetToken": _OVERSEE,
    "RevokeToken": _RUN,
    "RevokeBearer": _RUN,
    "GetOpenApi": _READ,
    "GetCaller": _READ,
    "GetStatus": _INSPECT,
    "GetOverview": _READ,
    "WatchOverview": _READ,
    "GetPage": _READ,
    "CreateLoginCode": _READ,
    "RedeemLoginCode": _READ,
}
"""Every method of the API. A method that is missing here is denied to all."""

GRANTED_BY_TENANTS = frozenset({TokenRole.USER, TokenRole.SERVICE_ACCOUNT})
"""The tokens that a tenant's administrator may issue, for their own tenant; the provider issues all others."""

_COLUMN: dict[Role, int] = {role: place for place, role in enumerate(Role)}
NOT_YOURS = "you may not do this here, or there is no such thing"


def reach(role: Role, method: str) -> Reach:
    """The reach of a role with a method; none if the table lacks the method."""
    row = TABLE.get(method)
    return Reach.NOBODY if row is None else row[_COLUMN[role]]


def authorize(caller: Caller, method: str, tenant: str = "", owner: str = "") -> None:
    """Raises Denied unless the caller may call the method.

    `tenant`: the tenant of the object; empty for the provider's, which only `Reach.ALL` writes, and whose reads are projected for
    the caller's tenant. `owner`: the handle of the job's owner, for jobs.
    """
    far = reach(caller.role, method)
    if far is Reach.ALL:
        return
    if far is Reach.NOBODY:
        raise Denied(f"{method}: a {caller.role} may not do this")
    if tenant != caller.tenant and not (tenant == "" and TABLE[method] == _READ):
        raise Denied(NOT_YOURS)
    if far is Reach.SELF and owner != caller.handle:
        raise Denied(NOT_YOURS)


def authorize_grant(caller: Caller, role: str, tenant: str) -> None:
    """Raises Denied unless the caller may issue a token of this role; no caller may issue one with more rights than its own."""
    authorize(caller, "CreateToken", tenant)
    if caller.role is not Role.PROVIDER_ADMIN and role not in GRANTED_BY_TENANTS:
        raise Denied(f"role: a {caller.role} may issue tokens for users and service accounts only")
