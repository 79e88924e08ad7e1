"""Names of resources (`tenants/acme/policies/ai-dev`): parsing and formatting. Pure."""

from __future__ import annotations

from headrace.contracts.values.ids import is_job_id, is_token
from headrace.governance.api.errors import invalid, shown

TENANTS = "tenants"


def parts_of(name: str, pattern: str, field: str = "name") -> tuple[str, ...]:
    """The parts at the `*` of a pattern such as `tenants/*/jobs/*`. Raises ApiError if the name does not match."""
    found, expected = name.split("/"), pattern.split("/")
    if len(found) != len(expected) or any(part not in ("*", given) for part, given in zip(expected, found, strict=True)):
        raise invalid(field, f"{shown(name)!r} does not match this kind of name; it looks like {pattern}", "INVALID_NAME")
    parts = tuple(given for part, given in zip(expected, found, strict=True) if part == "*")
    for part in parts:
        if not is_token(part):
            raise invalid(field, f"{shown(part)!r} is not a name; use 1-63 of a-z, 0-9, '-'", "INVALID_NAME")
    return parts


def job_of(name: str, field: str = "name") -> tuple[str, str]:
    """(tenant, job) of `tenants/acme/jobs/01j…`; the job is an id, or `alice.01j…` if two users have the same."""
    tenant, _, job = name.removeprefix(f"{TENANTS}/").partition("/jobs/")
    user, _, job_id = job.rpartition(".")
    if not name.startswith(f"{TENANTS}/") or not is_token(tenant) or not is_job_id(job_id) or (user and not is_token(user)):
        raise invalid(
            field, f"{shown(name)!r} is not a job; it looks like tenants/*/jobs/<id>, an id of 26 characters", "INVALID_NAME"
        )
    return tenant, f"{tenant}.{job}" if user else job_id


def tenant_name(tenant: str) -> str:
    return f"{TENANTS}/{tenant}"


def job_name(key: str) -> str:
    """`tenants/acme/jobs/01j…` of a job's key; empty for an empty key."""
    tenant, _, rest = key.partition(".")
    return f"{TENANTS}/{tenant}/jobs/{rest.rpartition('.')[2]}" if key else ""


def user_of(key: str) -> str:
    """Owner in a job's key; empty for an empty key."""
    return key.split(".")[1] if key else ""


def tenant_in(name: str) -> str:
    """Tenant of a resource, by its name; empty if it has none."""
    first, _, rest = name.partition("/")
    return rest.partition("/")[0] if first == TENANTS else ""


def check_id(text: str, field: str) -> str:
    """Check the last part of a new resource's name. Raises ApiError."""
    if not is_token(text):
        raise invalid(field, f"{shown(text)!r} is not a name; use 1-63 of a-z, 0-9, '-'", "INVALID_NAME")
    return text
