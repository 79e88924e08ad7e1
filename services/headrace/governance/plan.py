"""The plan of an `apply` (R9): changes of a set of documents, errors in it, affected jobs, and the facts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from headrace.contracts.documents.model import Document, Documents, Policy, Profile, Tenant, User
from headrace.contracts.facts import AnyFact, UserAppliedV1
from headrace.contracts.facts.records import RECORD_BYTES_MAX, RECORD_FACTS_MAX
from headrace.contracts.messages.queries import Change
from headrace.contracts.transport.codec import encode
from headrace.domain.model.jobs import PolicyState
from headrace.domain.state.state import State
from headrace.governance.affected_jobs import AffectedJobs, affected_jobs
from headrace.governance.calendars import TimeZones, calendars_for
from headrace.governance.changes import changed_fields
from headrace.governance.objects import ObjectName, PlacedDocument, applied, current, name_of, placed
from headrace.governance.over_limits import warn_over_limits, warn_uncounted
from headrace.governance.preview import preview
from headrace.governance.validation.diagnostics import Diagnostics, shown
from headrace.governance.validation.governed_keys import check_governed
from headrace.governance.validation.limit_checks import check_policy, check_reservations, check_share_limits
from headrace.governance.validation.references import ReferenceChecks, shut_out
from headrace.governance.validation.reservation_feasibility import check_reservations_feasible, warn_not_pinned
from headrace.governance.validation.subjects import check_subjects
from headrace.governance.validation.supply import check_level, check_selectors, pools_reached
from headrace.governance.validation.topology import check_topology

FACTS_BYTES_MAX = RECORD_BYTES_MAX - 4 * 1024
"""Maximum bytes of the facts of one record; the rest is for their envelope."""

SEAL_BYTES_MAX = 1_024
"""Maximum bytes that sealing adds to a person: a third of two lines, and the envelope."""


class ApplyPlan(NamedTuple):
    """Outcome of applying documents. A plan with errors has no facts. `stale`: the errors are outdated revisions.

    `running` and `pending`: numbers of affected jobs.
    """

    changes: tuple[Change, ...]
    facts: tuple[AnyFact, ...] = ()
    warnings: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    stale: bool = False
    running: int = 0
    pending: int = 0


def make_plan(
    state: State,
    documents: Documents,
    author: str,
    *,
    reason: str = "",
    revisions: Mapping[str, int] | None = None,
    groups: bool = True,
    zones: TimeZones | None = None,
    now: int = 0,
    vouches: bool = False,
) -> ApplyPlan:
    """The plan of applying `documents` to `state`, all or nothing.

    `revisions`: those on which the author's documents are based, by `objects.Name.key`; an object that has another by now is
    refused. `groups` False: policies need no group (scenarios). `zones`: the time zone database; without one all clocks show UTC.
    `now`: the log time, where it is later than that of the state. `vouches`: the author is the provider, whose word it is that a user's
    subject is that person.
    """
    everything = list(placed(documents))
    changes, changed = _changes(state, everything, vouches=vouches)
    facts = tuple(_stated(state, document, author, reason, vouches=vouches) for _, document, _ in changed)
    findings = Diagnostics(everything)
    _check_revisions(changes, revisions or {}, findings)
    plan = ApplyPlan(tuple(changes))
    if findings.errors:
        return plan._replace(errors=tuple(findings.errors), stale=True)
    if zones is not None:
        facts = (*calendars_for(state, changed, zones, max(now, state.now), findings), *facts)
    _check_size(facts, findings)
    affected = AffectedJobs(0, 0)
    if changed and not findings.errors:
        after = preview(state, facts)
        _judge(state, after, changed, findings, groups=groups, vouches=vouches)
        if not findings.errors:
            names = [name for name, _, _ in changed]
            affected = affected_jobs(state, after, names, findings)
            warn_over_limits(state, after, names, findings)
            warn_uncounted(state, after, names, findings)
    return plan._replace(
        facts=() if findings.errors else facts,
        warnings=tuple(findings.warnings),
        errors=tuple(findings.errors),
        running=affected.running,
        pending=affected.pending,
    )


def _stated(state: State, document: Document, author: str, reason: str, *, vouches: bool) -> AnyFact:
    """The fact by which an object is as written. The provider's word for a subject stays while the subject does."""
    fact = applied(document, author, reason)
    if isinstance(fact, UserAppliedV1) and fact.user.subject and state.terms.amended:
        there = state.users.get((fact.user.tenant, fact.user.handle))
        same = there is not None and isinstance(there.document, User) and there.document.subject == fact.user.subject
        is_vouched = vouches or (same and (fact.user.tenant, fact.user.handle) in state.tokens.vouched)
        fact = replace(fact, vouched=is_vouched)
    return fact


def _to_vouch(state: State, document: Document, *, vouches: bool) -> bool:
    """Whether the provider's word for a subject is new."""
    if not (vouches and isinstance(document, User) and document.subject and state.terms.amended):
        return False
    return (document.tenant, document.handle) not in state.tokens.vouched


def _changes(state: State, documents: Iterable[PlacedDocument], *, vouches: bool) -> tuple[list[Change], list[PlacedDocument]]:
    """A line for each document, and the documents that differ from what is there."""
    changes: list[Change] = []
    changed: list[PlacedDocument] = []
    for one in documents:
        there = current(state, one.name)
        was, revision = (None, 0) if there is None else there
        closing = state.terms.closings.get((one.name.kind, one.name.tenant, one.name.name))
        fields = changed_fields(one.name.kind, was, one.document) if was is not None else ()
        action = "create" if was is None else "update" if fields or closing is not None else "keep"
        if closing is not None:  # what is applied again is open again (R11)
            fields = (f"closed: {closing.mode} -> no", *fields)
        if action == "keep" and _to_vouch(state, one.document, vouches=vouches):
            action, fields = "update", ("subject: the provider vouches for it now",)
        changes.append(Change(kind=one.name.kind, name=one.name.full, action=action, fields=fields, revision=revision))
        if action != "keep":
            changed.append(one)
    return changes, changed


def _check_revisions(changes: Iterable[Change], revisions: Mapping[str, int], findings: Diagnostics) -> None:
    """R9: what the author had read has to be what is there."""
    there = {f"{change.kind}/{change.name}": change.revision for change in changes}
    for key, based_on in sorted(revisions.items()):
        if key not in there:
            message = "no document of this set has that name; write one such as policy/default/rnd"
            findings.error(f"revisions.{shown(key)}", message)
        elif there[key] != based_on:
            now = f"is now at revision {there[key]}" if there[key] else "is not there (revision 0)"
            message = f"it is based on revision {based_on}, the object {now}: get it again and apply what you want of it"
            findings.error(f"revisions.{key}", message)


def _check_size(facts: tuple[AnyFact, ...], findings: Diagnostics) -> None:
    """A set is one record, never split."""
    size = sum(len(encode(fact)) + 1 + (SEAL_BYTES_MAX if isinstance(fact, UserAppliedV1) else 0) for fact in facts)
    if len(facts) > RECORD_FACTS_MAX:
        what = f"{len(facts)} objects would change; one set changes at most {RECORD_FACTS_MAX}"
    elif size > FACTS_BYTES_MAX:
        what = f"the changed documents take {size} bytes; one set has at most {FACTS_BYTES_MAX}"
    else:
        return
    findings.error("documents", f"{what}: apply them in parts, pools and profiles before policies")


def _judge(
    before: State, after: State, changed: list[PlacedDocument], findings: Diagnostics, *, groups: bool, vouches: bool
) -> None:
    """Everything that can be wrong with the installation as it would be."""
    ReferenceChecks(after, findings, groups=groups).check(changed)
    check_subjects(before, after, changed, findings, everywhere=vouches)
    check_selectors(before, after, changed, findings)
    check_level(before, changed, findings)
    check_topology(after, changed, findings)
    shut_out(before, after, changed, findings)
    for name, document, _ in changed:
        if isinstance(document, Policy | Tenant):
            check_reservations(name, document, findings)
        if isinstance(document, Tenant):
            check_share_limits(name, document, after, findings)
    if all(name.kind in ("user", "group") for name, _, _ in changed):
        return
    concerned = _policies_concerned(after, changed)
    for policy in concerned:
        check_policy(name_of(policy.document), policy, after, findings)
    check_governed(before, after, [name for name, _, _ in changed], findings)
    check_reservations_feasible(before, after, findings)
    warn_not_pinned(after, concerned, findings)


def _policies_concerned(after: State, changed: Iterable[PlacedDocument]) -> list[PolicyState]:
    """The policies that change, and those that a changed profile or pool says something new for."""
    names = {name for name, _, _ in changed}
    pools = {name.name for name in names if name.kind == "pool"}
    profiles = {(name.tenant, name.name) for name in names if name.kind == "profile"}
    return [policy for policy in after.policies.values() if _is_concerned(after, policy.document, names, pools, profiles)]


def _is_concerned(
    after: State, policy: Policy, names: set[ObjectName], pools: set[str], profiles: set[tuple[str, str]]
) -> bool:
    if name_of(policy) in names or not pools.isdisjoint(pools_reached(after, policy)):
        return True
    linked = (after.profile(policy.tenant, link.name) for link in policy.profiles)
    return any(isinstance(profile, Profile) and (profile.tenant, profile.name) in profiles for profile in linked)
