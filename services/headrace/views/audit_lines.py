"""Facts as lines of the audit log: who stated it, on which record it was decided, what happened, by which rule; and who may read it. Pure.

A fact about a job has the text of the job's own history (`job_lines`); a few others have their own texts, and the rest is described by its
fields, so that a new fact is never left out. Tenants read what is about their jobs and objects, and what happened to nodes and pools that
they see, without the fields of those facts; they read no name of other tenants (R12, R22).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import msgspec

from headrace.contracts import facts as f
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.messages.audit import AuditLine
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import asker_of
from headrace.contracts.values.durations import format_duration, format_time
from headrace.contracts.values.money import format_money
from headrace.views.job_lines import sentence_of
from headrace.views.pseudonyms import shown, with_handles, with_names
from headrace.views.visibility import ALL_TENANTS, hide_others, sees_node, sees_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.records import Record
    from headrace.domain.state.state import State

TYPES = frozenset(f.fact_type(kind) for kind in get_args(f.AnyFact))
"""Every type of fact."""

_DOCUMENTS = ("tenant", "user", "group", "pool", "profile", "policy")
_SEALED = ("text", "digest")
"""Fields that are not shown: a job's sealed command, and the digest of its content."""
_LONG = 120
"""Maximum length in characters of a field that is shown as it is."""


def _all(_fact: AnyFact) -> bool:
    return True


def lines_of(
    record: Record, sequence: int, tenant: str, state: State, wants: Callable[[AnyFact], bool] = _all
) -> Iterator[AuditLine]:
    """Every fact of a record that `tenant` may read, and the facts that it implies; `state` says which nodes and pools it sees.

    `wants`: which of these facts are asked for.
    """
    for place, fact in with_implied_facts(record.facts):
        if wants(fact) and may_read(fact, tenant, state):
            text, rule = describe(fact, tenant)
            yield AuditLine(
                sequence=sequence,
                place=place,
                at=record.now,
                by=record.by,
                type=f.fact_type(type(fact)),
                about=with_names(state, hide_others(about(fact), tenant)),
                text=with_handles(state, hide_others(text, tenant), fact),
                rule=rule,
                as_of=record.as_of,
                engine=record.engine,
                cause=with_names(state, hide_others(record.cause, tenant)),
                fact=shown(state, body(fact, tenant)),
            )


def about(fact: AnyFact) -> str:
    """The job, else the node, else the object that the fact is about; of a submission without a job, its user."""
    if (asker := _asker(fact)) is not None:
        return ".".join(asker)
    for name in ("job", "node"):
        if getattr(fact, name, ""):
            return str(getattr(fact, name))
    named = _named(fact)
    return "/".join(part for part in named if part)


def _asker(fact: AnyFact) -> tuple[str, str] | None:
    """(tenant, user) whose submissions were refused; None if the fact is not about submissions."""
    if isinstance(fact, f.WishRefusedV1):
        tenant, user = asker_of(fact.subject)
        return (tenant, user) if tenant else None
    return (fact.tenant, fact.user) if isinstance(fact, f.RefusalsCountedV1) else None


def _named(fact: AnyFact) -> tuple[str, str]:
    """(tenant, name) of the object that a fact is about; empty if it is not about an object."""
    for kind in _DOCUMENTS:
        document = getattr(fact, kind, None)
        if isinstance(document, msgspec.Struct):
            name = getattr(document, "name", "") or getattr(document, "handle", "")
            return str(getattr(document, "tenant", "")), str(name)
    name = getattr(fact, "name", "") or getattr(fact, "handle", "") or getattr(fact, "policy", "") or getattr(fact, "pool", "")
    return str(getattr(fact, "tenant", "")), str(name)


def jobs_in(fact: AnyFact) -> tuple[str, ...]:
    """The jobs whose history a fact belongs to: its own, and of an order or a plan its victims."""
    own = [str(getattr(fact, "job", ""))]
    victims: list[str] = []
    if isinstance(fact, (f.PreemptionOrderedV1, f.PreemptionProposedV1)):
        victims = [victim.job for victim in fact.victims]
    return tuple(job for job in (*own, *victims) if job)


def may_read(fact: AnyFact, tenant: str, state: State) -> bool:
    """True if a tenant (`ALL_TENANTS`: the provider) may read the fact."""
    if tenant == ALL_TENANTS:
        return True
    jobs = jobs_in(fact)
    if isinstance(fact, f.PreemptionProposedV1):  # a plan that takes from others may be dropped
        return all(job.startswith(f"{tenant}.") for job in jobs)
    if jobs:
        return any(job.startswith(f"{tenant}.") for job in jobs)
    if isinstance(fact, f.TenantAppliedV1 | f.TenantDeletedV1):
        return _named(fact)[1] == tenant
    if isinstance(fact, f.PoolAppliedV1):
        return sees_pool(tenant, fact.pool)
    node = state.nodes.get(getattr(fact, "node", ""))
    if node is not None:
        return sees_node(state, tenant, node)
    return _owner(fact) == tenant


def _owner(fact: AnyFact) -> str:
    """The tenant whose submission or object a fact is about; "" without an owner."""
    return (_asker(fact) or _named(fact))[0]


def tenants_of(fact: AnyFact) -> frozenset[str]:
    """The tenants whose jobs or objects a fact is about; empty for what belongs to no tenant, such as nodes."""
    jobs = jobs_in(fact)
    if jobs:
        return frozenset(job.partition(".")[0] for job in jobs)
    owner = _named(fact)[1] if isinstance(fact, f.TenantAppliedV1 | f.TenantDeletedV1) else _owner(fact)
    return frozenset(filter(None, (owner,)))


def body(fact: AnyFact, tenant: str) -> dict[str, Any]:
    """The fact's fields without sealed ones; for tenants empty if it is about a node or a pool."""
    whole: dict[str, Any] = {name: value for name, value in msgspec.to_builtins(fact).items() if name not in _SEALED}
    if isinstance(fact, f.UserAppliedV1):
        whole["user"].pop("sealed", None)
    if tenant == ALL_TENANTS:
        return whole
    if isinstance(fact, f.PreemptionOrderedV1):
        whole.pop("ladders", None)
        whole["victims"] = [victim for victim in whole["victims"] if victim["job"].startswith(f"{tenant}.")]
        if not fact.job.startswith(f"{tenant}."):
            whole.pop("places", None)
    elif not jobs_in(fact) and _owner(fact) != tenant and not isinstance(fact, f.TenantAppliedV1):
        return {}
    return dict(msgspec.json.decode(hide_others(encode(whole).decode(), tenant), type=dict[str, Any]))


def describe(fact: AnyFact, tenant: str) -> tuple[str, str]:
    """What happened, and the rule."""
    words = _WORDS.get(type(fact))
    if words is not None:
        return words(fact)
    jobs = jobs_in(fact)
    own = next((job for job in jobs if tenant == ALL_TENANTS or job.startswith(f"{tenant}.")), "")
    line = sentence_of(fact, own) if own else None
    if line is not None:
        return line
    return _plainly(fact), str(getattr(fact, "rule", ""))


def _plainly(fact: AnyFact) -> str:
    """The verb and every short field with a value: `devices drained: node n1, devices (gpu0)`."""
    noun, verb = f.fact_type(type(fact)).split(".")[:2]
    fields = {name: getattr(fact, name) for name in fact.__struct_fields__ if name not in _SEALED}
    parts = [f"{name} {_value(value)}" for name, value in fields.items() if value not in ("", None, (), {}) and _value(value)]
    return f"{noun} {verb.replace('_', ' ')}" + (f": {', '.join(parts)}" if parts else "")


def _value(value: object) -> str:
    text = msgspec.json.encode(value).decode().strip('"')
    return text if len(text) <= _LONG else ""


def _authored(fact: Any, what: str) -> tuple[str, str]:
    reason = f": {fact.reason}" if fact.reason else ""
    return f"{fact.author} {what}{reason}", "R9"


def _document(fact: Any) -> tuple[str, str]:
    kind, verb = f.fact_type(fact.__class__).split(".")[:2]
    tenant, name = _named(fact)
    where = f"{tenant}/{name}" if tenant else name
    return _authored(fact, f"{'writes' if verb == 'applied' else 'removes'} {kind} {where}")


def _closed(fact: f.ObjectClosedV1) -> tuple[str, str]:
    where = f"{fact.tenant}/{fact.name}" if fact.tenant else fact.name
    return _authored(fact, f"closes {fact.kind} {where} by {fact.mode}")[0], "R11"


def _registered(fact: f.NodeRegisteredV1) -> tuple[str, str]:
    devices = len(fact.devices)
    return f"{fact.node} is here with {devices} {'device' if devices == 1 else 'devices'}, isolation {fact.isolation}", "R6"


def _approved(fact: f.NodeApprovedV1) -> tuple[str, str]:
    if not fact.joins:
        return _authored(fact, f"lets {fact.node} register; nothing that it says of itself is approved yet")[0], "R6"
    labels = ",".join(f"{key}={value}" for key, value in sorted(fact.labels.items())) or "no labels"
    return _authored(fact, f"approves of {fact.node}: {labels}, {fact.gpus} GPUs, isolation up to {fact.isolation}")[0], "R6"


def _gated(fact: f.PolicyGatedV1) -> tuple[str, str]:
    parts = [*(["no window is open"] if fact.shut else []), *(f"budget {name} is used up" for name in fact.spent)]
    return f"policy {fact.tenant}/{fact.policy}: {', '.join(parts) or 'everything may start'}", "R33"


def _maintenance(fact: f.MaintenanceStatedV1) -> tuple[str, str]:
    why = f" ({fact.reason})" if fact.reason else ""
    if fact.begun:
        return f"pool {fact.pool} is in maintenance until {format_time(fact.ends)}{why}", "R41"
    if not fact.begins:
        return f"pool {fact.pool}: no maintenance is announced", "R41"
    return f"maintenance of pool {fact.pool} is from {format_time(fact.begins)} to {format_time(fact.ends)}{why}", "R41"


def _proposed(fact: f.PreemptionProposedV1) -> tuple[str, str]:
    victims = ", ".join(f"{victim.job} (loses {victim.lost} GPU-seconds)" for victim in fact.victims)
    nodes = ", ".join(sorted({place.node for place in fact.places}))
    return f"plan for {fact.job} in pool {fact.pool} ({fact.cause}): take from {victims}; place on {nodes}", fact.rule


_WORDS: dict[type, Callable[[Any], tuple[str, str]]] = {
    **dict.fromkeys(
        (
            *(f.TenantAppliedV1, f.TenantDeletedV1, f.UserAppliedV1, f.UserDeletedV1, f.GroupAppliedV1, f.GroupDeletedV1),
            *(f.PoolAppliedV1, f.PoolDeletedV1, f.ProfileAppliedV1, f.ProfileDeletedV1, f.PolicyAppliedV1, f.PolicyDeletedV1),
        ),
        _document,
    ),
    f.ObjectClosedV1: _closed,
    f.NodeRegisteredV1: _registered,
    f.NodeStoppedV1: lambda fact: (f"{fact.node} goes down in order", "R32"),
    f.NodeLostV1: lambda fact: (f"{fact.node} is lost: silent for {format_duration(fact.silent_for)}", "R32"),
    f.UserErasedV1: lambda fact: _authored(fact, f"erases who {fact.pseudonym} was"),
    f.TextsLockedV1: lambda fact: (f"the key of {fact.tenant}.{fact.handle} is missing: their jobs wait", "R22"),
    f.TextsUnlockedV1: lambda fact: (f"the jobs of {fact.tenant}.{fact.handle} wait for no key any more", "R22"),
    f.NodeCordonedV1: lambda fact: (_authored(fact, f"cordons {fact.node}")[0], "R28"),
    f.NodeUncordonedV1: lambda fact: (_authored(fact, f"lets {fact.node} take work again")[0], "R28"),
    f.NodeDrainOrderedV1: lambda fact: (_authored(fact, f"drains {fact.node}")[0], "R28"),
    f.NodeDrainScheduledV1: lambda fact: (_authored(fact, f"will drain {fact.node} at {format_time(fact.begins)}")[0], "R41"),
    f.NodeDrainBeganV1: lambda fact: (f"{fact.node} is drained, as scheduled", "R41"),
    f.MaintenanceStatedV1: _maintenance,
    f.NodeConfirmedEmptyV1: lambda fact: (_authored(fact, f"confirms that nothing is left on {fact.node}")[0], "R32"),
    f.NodeApprovedV1: _approved,
    f.NodeExcludedV1: lambda fact: (f"{fact.node} is excluded: {fact.reason}", "R36"),
    f.NodeSetAsideV1: lambda fact: (f"{fact.node} is set aside: {fact.reason}", "R36"),
    f.NodeCheckOrderedV1: lambda fact: (f"{fact.node} is to check itself", "R36"),
    f.NodeCheckedV1: lambda fact: (
        f"{fact.node} has checked itself: {'it is given one job on probation' if fact.passed else fact.message}",
        "R36",
    ),
    f.PolicyGatedV1: _gated,
    f.PreemptionProposedV1: _proposed,
    f.GrowthRequestedV1: lambda fact: (f"pool {fact.pool} is to grow by {fact.nodes} nodes", "R38"),
    f.GrowthEndedV1: lambda fact: (f"growth of pool {fact.pool} is over: {fact.outcome}, {fact.nodes} nodes have come", "R38"),
    f.InstanceOrderedV1: lambda fact: (f"{fact.instance} is ordered for pool {fact.pool} by offer {fact.offer.name}", "R38"),
    f.InstanceCreatedV1: lambda fact: (f"{fact.instance} is made: {fact.provider_id}", "R38"),
    f.InstanceRefusedV1: lambda fact: (f"{fact.instance} is refused: {fact.code}: {fact.message}", "R38"),
    f.InstanceInterruptedV1: lambda fact: (f"{fact.node} is taken back by {format_time(fact.deadline)}: {fact.kind}", "R38"),
    f.InstanceReleasedV1: lambda fact: (
        f"{fact.instance} is to end: {fact.cause}{f', by {fact.by}' if fact.by else ''}",
        "R38",
    ),
    f.InstanceEndedV1: lambda fact: (f"{fact.instance} has ended: {fact.cause}", "R38"),
    f.InstanceOrphanEndedV1: lambda fact: (f"{fact.instance}, which is not known here, is ended", "R38"),
    f.PriceObservedV1: lambda fact: (
        f"an hour of offer {fact.offer} of pool {fact.pool} costs {format_money(fact.price)}, says {fact.source}",
        "R38",
    ),
    f.NodeRemovedV1: lambda fact: (f"node {fact.node} no longer belongs to the installation", ""),
    f.RefusalsCountedV1: lambda fact: (
        f"{fact.count} submissions of {fact.tenant}.{fact.user} are refused: {fact.reason}",
        "R14",
    ),
    f.WishRefusedV1: lambda fact: (
        f"submission {fact.wish} on {fact.subject} is refused: {fact.reason}: {fact.message}",
        "R13",
    ),
    f.AccountNumberedV1: lambda fact: (f"jobs of {fact.tenant}.{fact.user} run under the number {fact.number} on nodes", ""),
    f.WishesJudgedV1: lambda fact: (f"every submission through {fact.through} is judged", "R13"),
    f.CalendarStatedV1: lambda fact: (f"clocks in {fact.zone} are known until {format_time(fact.until)}", "R33"),
    f.InstallationLevelV1: lambda fact: (f"the installation is at level {fact.level}: release {fact.release} reads it", ""),
    f.StorageStatedV1: lambda fact: (
        f"streams take {fact.used} of {fact.limit} bytes: {'no job is admitted' if fact.scarce else 'jobs are admitted again'}",
        "R13",
    ),
    f.LedgerSealedV1: lambda fact: (f"seal {fact.number}: records {fact.first} to {fact.last} are as they are", ""),
    f.SnapshotTakenV1: lambda fact: (f"the state behind record {fact.sequence} is kept as {fact.name}, {fact.bytes} bytes", ""),
    f.MixLearnedV1: lambda fact: (f"what pool {fact.pool} is usually asked for: {len(fact.requests)} requests", "R20"),
}
"""Texts of facts that are not about a job, and of plans."""
