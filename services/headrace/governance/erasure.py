"""Erasure of jobs' texts and of persons: the fact is stated first, then the key is deleted (R13's texts). Pure."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import ApplyAnswer, Change, EraseRequest
from headrace.contracts.values.ids import DEFAULT_TENANT, is_token
from headrace.domain.model.job_states import FINAL
from headrace.domain.state.state import State
from headrace.governance.decide import Decision, Operation
from headrace.governance.objects import REASON_MAX, objects_of


def owner_of(request: EraseRequest) -> str:
    """Owner of the keys to delete: a tenant with all its people, or one person."""
    return f"{request.tenant}.{request.user}" if request.user else request.tenant


def pseudonym(chance: str) -> str:
    """Pseudonym shown in place of a handle."""
    return f"erased-{chance}"


def erasing(request: EraseRequest, author: str, called: str = "", *, has_key: bool = True) -> Operation:
    """Operation that erases a tenant's texts, or a person; refused while jobs of theirs are pending or run, because these need their texts.

    The tenant or person may have been deleted; their texts still exist. `called`: the pseudonym. `has_key`: whether a key of theirs exists;
    an owner without a key that the ledger does not mention is taken for misspelt.
    """

    def operation(state: State, _now: int) -> Decision:
        if not is_token(request.tenant):
            return _refused("INVALID", f"tenant: {request.tenant[:80]!r} is not a name")
        if request.user:
            return _person(state, request, author, called, has_key=has_key)
        if not has_key and not _is_tenant(state, request.tenant):
            return Decision(
                ApplyAnswer(changes=()), code="NOT_FOUND", error=f"tenant: there is no {request.tenant}, and no text of it"
            )
        alive = sum(job.tenant == request.tenant and job.state not in FINAL for job in state.jobs_and_arrays())
        if alive:
            error = f"tenant: {alive} jobs of {request.tenant} have not ended and need what they run; cancel them first"
            return _refused("REFUSED", error)
        change = Change(kind="tenant", name=request.tenant, action="update", fields=("texts: erased",))
        fact = f.TenantErasedV1(author=author, reason=request.reason[:REASON_MAX], tenant=request.tenant)
        return Decision(ApplyAnswer(changes=(change,), applied=True), (fact,))

    return operation


def _person(state: State, request: EraseRequest, author: str, called: str, *, has_key: bool) -> Decision:
    tenant, user = request.tenant, request.user
    if not is_token(user):
        return _refused("INVALID", f"user: {user[:80]!r} is not a name")
    alive = sum(job.tenant == tenant and job.user == user and job.state not in FINAL for job in state.jobs_and_arrays())
    if alive:
        return _refused("REFUSED", f"user: {alive} jobs of {user} have not ended and need what they run; cancel them first")
    named = _named_by(state, tenant, user)
    if named:
        return _refused("REFUSED", f"user: {', '.join(named)} still names {user}; apply it without, then erase")
    if not has_key and not _is_known(state, tenant, user):
        error = (
            f"user: nothing is known of {user} in tenant {tenant}; look at the name. Of whom only a handle is left in old records: "
            f"apply a user of that name, delete it, then erase"
        )
        return Decision(ApplyAnswer(changes=()), code="NOT_FOUND", error=error)
    shown = state.tokens.erased.get((tenant, user), called)
    change = Change(kind="user", name=f"{tenant}/{user}", action="delete", fields=(f"erased: shown as {shown}",))
    fact = f.UserErasedV1(author=author, reason=request.reason[:REASON_MAX], tenant=tenant, handle=user, pseudonym=shown)
    return Decision(ApplyAnswer(changes=(change,), applied=True), (fact,))


def _is_tenant(state: State, tenant: str) -> bool:
    owners = {owner for table in (state.users, state.groups, state.policies) for owner, _ in table}
    return tenant in {DEFAULT_TENANT, *state.tenants, *owners}


def _is_known(state: State, tenant: str, user: str) -> bool:
    """True if documents, tokens or current jobs mention the person, or the person was erased."""
    tokens, theirs = state.tokens, f"{tenant}.{user}."
    return (
        any((tenant, user) in table for table in (state.users, tokens.claims, tokens.outdated, tokens.erased))
        or any((token.tenant, token.handle) == (tenant, user) for token in tokens.known.values())
        or any(key.startswith(theirs) for table in (state.jobs, state.arrays, state.answered) for key in table)
    )


def _named_by(state: State, tenant: str, user: str) -> list[str]:
    """Documents that grant this person rights."""
    found = [f"group {name}" for (owner, name), each in state.groups.items() if owner == tenant and _has(each.document, user)]
    known = objects_of(state, "tenant").get(tenant)
    if known is not None and user in getattr(known.document, "admins", ()):
        found.append(f"tenant {tenant} (admins)")
    policies = (policy.document for (owner, _), policy in state.policies.items() if owner == tenant)
    found += [f"policy {document.name} (beyond_limit)" for document in policies if user in document.beyond_limit]
    return sorted(found)


def _has(group: object, user: str) -> bool:
    return user in getattr(group, "members", ()) or user in getattr(group, "service_accounts", ())


def _refused(code: str, error: str) -> Decision:
    return Decision(ApplyAnswer(changes=()), code=code, error=error)
