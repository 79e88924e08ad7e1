"""Names of resources (`tenants/acme/policies/ai-dev`), taken apart and put together. Pure."""

from __future__ import annotations

from headrace.contracts.values.ids import is_job_id, is_token
from headrace.governance.api.errors import invalid, shown

TENANTS = "tenants"


def parts_of(name: str, pattern: str, field: str = "name") -> tuple[str, ...]:
    """What stands for the `*` in a pattern such as `tenants/*/jobs/*`; `Fault` where the name is none of these."""
    found, expected = name.split("/"), pattern.split("/")
    if len(found) != len(expected) or any(part not in ("*", given) for part, given in zip(expected, found, strict=True)):
        raise invalid(field, f"{shown(name)!r} is no name of this kind; it looks like {pattern}", "INVALID_NAME")
    parts = tuple(given for part, given in zip(expected, found, strict=True) if part == "*")
    for part in parts:
        if not is_token(part):
            raise invalid(field, f"{shown(part)!r} is no name; it is 1 to 63 of a-z, 0-9 and '-'", "INVALID_NAME")
    return parts


def job_of(name: str, field: str = "name") -> tuple[str, str]:
    """(tenant, job) of `tenants/acme/jobs/01j…`; the job is an id, or `alice.01j…` where two people have the same."""
    tenant, _, job = name.removeprefix(f"{TENANTS}/").partition("/jobs/")
    user, _, job_id = job.rpartition(".")
    if not name.startswith(f"{TENANTS}/") or not is_token(tenant) or not is_job_id(job_id) or (user and not is_token(user)):
        raise invalid(
            field, f"{shown(name)!r} is no job; it looks like tenants/*/jobs/<id>, an id of 26 characters", "INVALID_NAME"
        )
    return tenant, f"{tenant}.{job}" if user else job_id


def tenant_name(tenant: str) -> str:
    """`tenants/acme`."""
    return f"{TENANTS}/{tenant}"


def job_name(key: str) -> str:
    """`tenants/acme/jobs/01j…` of a job's key; empty for none."""
    tenant, _, rest = key.partition(".")
    return f"{TENANTS}/{tenant}/jobs/{rest.rpartition('.')[2]}" if key else ""


def tenant_in(name: str) -> str:
    """Whose a resource is, by its name; empty where no tenant's."""
    first, _, rest = name.partition("/")
    return rest.partition("/")[0] if first == TENANTS else ""


def check_id(text: str, field: str) -> str:
    """The last part of a name that is to be made."""
    if not is_token(text):
        raise invalid(field, f"{shown(text)!r} is no name; write 1 to 63 of a-z, 0-9 and '-'", "INVALID_NAME")
    return text
