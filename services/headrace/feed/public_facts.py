"""Facts as messages on FEED: one for each tenant that may know, without texts and without other tenants' names. Pure.

A message on `hr.feed.<tenant>.<noun>.<verb>.<id>` is a JSON object: `type` (of the fact in the ledger; of messages that only FEED has it
ends in `.feed`), `at` (the record's time), `sequence` and `number` (the record, and the message's number in it), and the fact's public
fields, defaults included. A node's own clock is `at_node`. `id` is the job's ULID for facts of a job, else the object's name.

Strategy: most facts are about one job, and a table lists the fields that its tenant sees. A test fails for a fact that is in no table.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.transport.subjects import asker_of, feed, split_by
from headrace.contracts.values.amounts import GPU
from headrace.domain.model.node_claims import as_believed
from headrace.feed.outgoing_message import FeedMessage, FeedPosition
from headrace.views.pseudonyms import name as called
from headrace.views.pseudonyms import written
from headrace.views.visibility import hide_others, pool_for, profile_for, sees_node, sees_pool, tenants_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from headrace.contracts.documents.model import Pool
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.records import Record
    from headrace.domain.state.state import State
    from headrace.feed.outgoing_message import JobStarted
    from headrace.feed.queue_heads import QueueHead
    from headrace.views.job_index import Queue


class PublicFact(NamedTuple):
    """Public part of one fact for one tenant."""

    tenant: str
    noun: str
    verb: str
    name: str
    public: dict[str, Any]


class _Shown:
    """Public fields of one type of fact for the tenant of its job, prepared once because nearly all messages are of these types."""

    def __init__(self, noun: str, verb: str, fields: tuple[str, ...]) -> None:
        self.noun, self.verb, self.fields = noun, verb, fields
        self._names, self._values = tuple("at_node" if name == "at" else name for name in fields), attrgetter(*fields)

    def piece(self, fact: Any) -> PublicFact:
        """Public part of a fact of this type."""
        public = dict(zip(self._names, self._values(fact), strict=True))
        if "why" in public:
            public["why"] = hide_others(public["why"], fact.job.partition(".")[0])
        return _piece(fact.job, self.noun, self.verb, public)


_LEASE = ("job", "attempt", "rank")
_PREEMPTION = ("preemption", "job", "pool")
_REQUEUED = ("job", "attempt", "cause", "min_runtime", "not_before", "avoid", "avoid_until", "may_overlap", "last")
_SUBMITTED = ("job", "policy", "profile", "request", "mig", "replicas", "preemptible", "priority")

OF_A_JOB: dict[type, _Shown] = {
    f.JobAdmittedV1: _Shown(
        "job",
        "admitted",
        (*_SUBMITTED, "max_retries", "time_limit", "after", "name", "labels", "array", "gpu_memory", "shares", "by_model"),
    ),
    f.JobRejectedV1: _Shown("job", "rejected", ("job", "policy", "profile", "reason", "message", "name", "retry_after")),
    f.JobCancelRequestedV1: _Shown("job", "cancel-requested", ("job", "by", "reason", "elements")),
    f.JobRequeueRequestedV1: _Shown("job", "requeue-requested", ("job", "attempt", "by", "reason", "elements")),
    f.JobRequeuedV1: _Shown("job", "requeued", _REQUEUED),
    f.JobEndedV1: _Shown("job", "ended", ("job", "attempt", "state", "cause", "exit_code", "elements")),
    f.JobDismissedV1: _Shown("job", "dismissed", ("job", "reason", "message")),
    f.JobMatchedV1: _Shown("job", "matched", ("job", "shares", "by_model")),
    f.CheckpointRegisteredV1: _Shown("job", "checkpointed", ("job", "attempt", "uri", "step", "at")),
    f.LeaseGrantedV1: _Shown(
        "lease", "granted", (*_LEASE, "node", "pool", "devices", "amounts", "inside", "resume_from", "rule", "over_budget")
    ),
    f.LeaseRevokedV1: _Shown("lease", "revoked", (*_LEASE, "cause")),
    f.LeaseIdledV1: _Shown("lease", "idled", (*_LEASE, "node", "idle_for", "average")),
    f.LeaseUsedV1: _Shown("lease", "used", (*_LEASE, "node", "cause")),
    f.LeaseOverdueV1: _Shown("lease", "overdue", (*_LEASE, "node")),
    f.LeaseStartedV1: _Shown("lease", "started", (*_LEASE, "isolation", "at")),
    f.LeaseOverranV1: _Shown("lease", "overran", (*_LEASE, "device", "limit", "used", "at")),
    f.LeaseSuspendedV1: _Shown("lease", "suspended", (*_LEASE, "how", "at")),
    f.ResumeOrderedV1: _Shown("job", "resuming", ("job", "attempt", "min_runtime")),
    f.MoveOrderedV1: _Shown("job", "moving", ("job", "attempt", "pool", "places", "rule")),
    f.LeaseResumedV1: _Shown("lease", "resumed", (*_LEASE, "at")),
    f.LeaseRungV1: _Shown("lease", "rung", (*_LEASE, "rung", "took", "result", "at")),
    f.LeaseEndedV1: _Shown(
        "lease", "ended", (*_LEASE, "outcome", "exit_code", "finished", "stopping", "message", "exited_at", "at")
    ),
    f.ReclaimOpenedV1: _Shown("reclaim", "opened", ("job", "pool", "cause")),
    f.PreemptionNoneV1: _Shown("preemption", "none", (*_PREEMPTION, "why", "retry_at")),
    f.PreemptionDismissedV1: _Shown("preemption", "dismissed", (*_PREEMPTION, "why")),
    f.HoldPlacedV1: _Shown("hold", "placed", ("job", "pool", "places", "rule")),
    f.HoldLiftedV1: _Shown("hold", "lifted", ("job", "pool", "why")),
    f.NominationEndedV1: _Shown("nomination", "ended", ("preemption", "job", "why")),
}
"""Public fields of facts that only the tenant of their job sees."""

_PEOPLE = frozenset({"user", "wish", "refusals"})  # their subjects end in a person's handle
HIDDEN = frozenset(
    {
        *(f.CalendarStatedV1, f.InstallationLevelV1, f.AccountNumberedV1, f.WishesJudgedV1),
        f.PreemptionProposedV1,
        f.MixLearnedV1,
        f.TenantErasedV1,
        f.MembershipClaimedV1,
        f.UserErasedV1,
        f.TextsLockedV1,
        f.TextsUnlockedV1,
        f.TokenCreatedV1,
        f.TokenRevokedV1,
        *(f.LedgerSealedV1, f.StorageStatedV1, f.SnapshotTakenV1),
        *(f.InstanceOrderedV1, f.InstanceCreatedV1, f.InstanceRefusedV1, f.InstanceReleasedV1, f.InstanceEndedV1),
        *(f.InstanceOrphanEndedV1, f.PriceObservedV1, f.NodeRemovedV1),
    }
)
"""Facts that are not published: positions, plans that may be dropped, what is about all tenants together, and the
provider's dealings with clouds."""


class Projector:
    """Turns facts into messages, over one state. It stores what the state no longer has when a later fact needs it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._pools: dict[str, Pool] = {name: pool.document for name, pool in state.pools.items()}
        self._across: set[str] = {
            found.id
            for found in state.preemptions.values()
            if not all(_same_tenant(found.job.key, victim.job) for victim in found.victims)
        }
        """Preemptions with victims of other tenants than the preemptor's."""
        self._place = FeedPosition(0, 0)

    def resume(self, place: FeedPosition) -> None:
        """Continue numbering after `place`, which is on FEED."""
        if (self._place.sequence, self._place.number) < (place.sequence, place.number):
            self._place = place

    def skip(self, record: Record) -> None:
        """Read a record without publishing it."""
        for fact in record.facts:
            self._remember(fact)
            self._forget(fact)

    def messages(self, record: Record, sequence: int, started: Iterable[JobStarted] = ()) -> list[FeedMessage]:
        """FEED messages of a record; `started` are the jobs whose last replica started with it."""
        messages = []
        for _, fact in with_implied_facts(record.facts):
            kind = type(fact)
            shown, tag = OF_A_JOB.get(kind), f.fact_type(kind)
            if shown is not None:
                messages.append(self._message(sequence, tag, record.now, shown.piece(fact)))
                continue
            self._remember(fact)
            messages += [self._message(sequence, tag, record.now, piece) for piece in _of_others(self, fact)]
            self._forget(fact)
        for job in started:
            messages.append(
                self._message(sequence, "job.started.feed", record.now, _piece(job.job, "job", "started", job._asdict()))
            )
        return messages

    def _remember(self, fact: AnyFact) -> None:
        if isinstance(fact, f.PoolAppliedV1):
            self._pools[fact.pool.name] = fact.pool
        elif isinstance(fact, f.PreemptionOrderedV1) and not all(_same_tenant(fact.job, victim.job) for victim in fact.victims):
            self._across.add(fact.preemption)

    def _forget(self, fact: AnyFact) -> None:
        if isinstance(fact, f.PoolDeletedV1):
            self._pools.pop(fact.name, None)
        elif isinstance(fact, f.PreemptionSettledV1):
            self._across.discard(fact.preemption)

    def head(self, queue: Queue, head: QueueHead, now: int) -> FeedMessage:
        """Message that the first job of a queue, or its reason, has changed (R22)."""
        tenant, policy, profile = queue
        public = {"queue": f"{policy}/{profile}", "job": head.job, "reason": head.reason, "message": head.message}
        piece = PublicFact(tenant, "queue", "head", policy, public)
        return self._message(self._state.sequence, "queue.head.feed", now, piece)

    def _message(self, sequence: int, kind: object, at: int, piece: PublicFact) -> FeedMessage:
        number = self._place.number + 1 if self._place.sequence == sequence else 1
        self._place = FeedPosition(sequence, number)
        tenant, noun, verb, name, public = piece
        body = {"type": kind, "at": at, "sequence": sequence, "number": number, **public}
        name = called(self._state, tenant, name) if noun in _PEOPLE else name
        return FeedMessage(sequence, number, feed(tenant, noun, verb, name), written(self._state, body, tenant))

    def preemption_facts(self, fact: f.PreemptionOrderedV1) -> Iterator[PublicFact]:
        """The whole plan for the preemptor's tenant, with other tenants as a total; for each victim's tenant its own part."""
        mine = fact.job.partition(".")[0]
        victims: dict[str, list[Any]] = {mine: []}
        for victim in fact.victims:
            victims.setdefault(victim.job.partition(".")[0], []).append(victim)
        others = [victim.job for victim in fact.victims if not _same_tenant(fact.job, victim.job)]
        shared = {"pool": fact.pool, "cause": fact.cause, "rule": fact.rule}
        own = {"preemption": fact.preemption, "job": fact.job, "places": fact.places, "victims": victims[mine]}
        yield _piece(fact.job, "preemption", "ordered", shared | own | {"others": {GPU: self._gpus(others)} if others else {}})
        for tenant, own_victims in victims.items():
            if tenant != mine:
                yield _piece(own_victims[0].job, "preemption", "ordered", shared | {"victims": own_victims})

    def _gpus(self, jobs: list[str]) -> int:
        found = (self._state.jobs.get(key) for key in jobs)
        return sum(job.request.total.get(GPU, 0) for job in found if job is not None)

    def settlement_facts(self, fact: f.PreemptionSettledV1) -> Iterator[PublicFact]:
        """Durations of a preemption; the number of victims and the loss only if all of them are the tenant's own."""
        names = ["preemption", "job", "to_signal", "grace", "to_release"]
        if fact.preemption not in self._across:
            names += ["victims", "lost"]
        yield _piece(fact.job, "preemption", "settled", {name: getattr(fact, name) for name in names})

    def pool_facts(self, fact: f.PoolAppliedV1) -> Iterator[PublicFact]:
        """A pool, for tenants that see it, without other tenants' names."""
        for tenant in tenants_of(self._state):
            if sees_pool(tenant, fact.pool):
                public = {"pool": pool_for(self._state, tenant, fact.pool)} | _authored(fact, tenant)
                yield PublicFact(tenant, "pool", "applied", fact.pool.name, public)

    def pool_deleted_facts(self, fact: f.PoolDeletedV1) -> Iterator[PublicFact]:
        """A deletion, for tenants that saw the pool as it was last written."""
        pool = self._pools.get(fact.name)
        for tenant in tenants_of(self._state) if pool is not None else ():
            if pool is not None and sees_pool(tenant, pool):
                yield PublicFact(tenant, "pool", "deleted", fact.name, {"pool": fact.name} | _authored(fact, tenant))

    def profile_facts(self, fact: f.ProfileAppliedV1) -> Iterator[PublicFact]:
        """A profile, for its tenant; a profile of the provider for all tenants."""
        for tenant in (fact.profile.tenant,) if fact.profile.tenant else tenants_of(self._state):
            public = {"profile": profile_for(self._state, tenant, fact.profile)} | _authored(fact, tenant)
            yield PublicFact(tenant, "profile", "applied", fact.profile.name, public)

    def profile_deleted_facts(self, fact: f.ProfileDeletedV1) -> Iterator[PublicFact]:
        """A deletion, for the tenants that saw the profile."""
        for tenant in (fact.tenant,) if fact.tenant else tenants_of(self._state):
            yield PublicFact(tenant, "profile", "deleted", fact.name, {"profile": fact.name} | _authored(fact, tenant))

    def growth_facts(self, verb: str, fact: Any, public: dict[str, Any], noun: str = "growth") -> Iterator[PublicFact]:
        """Growth or maintenance of a pool, for tenants that see it, without the jobs that need it."""
        pool = self._pools.get(fact.pool)
        for tenant in tenants_of(self._state) if pool is not None else ():
            if pool is not None and sees_pool(tenant, pool):
                yield PublicFact(tenant, noun, verb, fact.pool, {"pool": fact.pool, **public})

    def closed_facts(self, fact: f.ObjectClosedV1) -> Iterator[PublicFact]:
        """A closure, for its tenant or those that see the pool; one of the provider's objects for all tenants."""
        pool = self._pools.get(fact.name) if fact.kind == "pool" else None
        owner = fact.name if fact.kind == "tenant" else fact.tenant
        for tenant in (owner,) if owner else tenants_of(self._state):
            if pool is None or sees_pool(tenant, pool):
                yield PublicFact(
                    tenant, fact.kind, "closed", fact.name, {fact.kind: fact.name, "mode": fact.mode} | _authored(fact, tenant)
                )

    def believed(self, fact: f.NodeRegisteredV1) -> f.NodeRegisteredV1:
        """The registration without claims that are not approved."""
        return as_believed(fact, self._state.approvals.get(fact.node))

    def node_facts(self, verb: str, fact: AnyFact, name: str, public: dict[str, Any]) -> Iterator[PublicFact]:
        """A fact of a node, for tenants that see it."""
        node = self._state.nodes.get(name)
        for tenant in tenants_of(self._state) if node is not None else ():
            if node is not None and sees_node(self._state, tenant, node):
                yield PublicFact(tenant, "node", verb, name, {"node": name, **public, **_authored(fact, tenant)})


def _same_tenant(job: str, other: str) -> bool:
    return job.partition(".")[0] == other.partition(".")[0]


def _piece(job: str, noun: str, verb: str, public: dict[str, Any]) -> PublicFact:
    """Public fact of a job; the subject ends in the job's ULID."""
    tenant, _, rest = job.partition(".")
    return PublicFact(tenant, noun, verb, rest.rpartition(".")[2], public)


def _of_others(projector: Projector, fact: AnyFact) -> Iterator[PublicFact] | tuple[PublicFact, ...]:
    project = OF_OTHERS.get(type(fact))
    return project(projector, fact) if project is not None else ()


def _authored(fact: AnyFact, tenant: str) -> dict[str, str]:
    """Author and reason if the author is of this tenant; else empty."""
    author = getattr(fact, "author", "")
    return {"author": author, "reason": getattr(fact, "reason", "")} if author.partition(".")[0] == tenant else {}


def _forced(_projector: Projector, fact: f.PreemptionForcedV1) -> tuple[PublicFact, ...]:
    public = {"job": fact.job, "attempt": fact.attempt, **_authored(fact, fact.job.partition(".")[0])}
    return (_piece(fact.job, "job", "forced", public),)


def _stop(_projector: Projector, fact: f.StopOrderedV1) -> tuple[PublicFact, ...]:
    """A stop, named `preempting` if that is the cause; the preemptor only within the tenant."""
    ladder = fact.ladder
    public = {
        "job": fact.job,
        "attempt": fact.attempt,
        "cause": ladder.cause,
        "then": ladder.then,
        "callback_grace": ladder.callback_grace,
        "term_grace": ladder.term_grace,
        "preemptor": ladder.preemptor if _same_tenant(fact.job, ladder.preemptor) else "",
    }
    return (_piece(fact.job, "job", "preempting" if ladder.cause == "preempted" else "stopping", public),)


def _wish_refused(_projector: Projector, fact: f.WishRefusedV1) -> tuple[PublicFact, ...]:
    """A refusal, for the user who may publish on that subject; no message if the subject names no tenant."""
    subject, _ = split_by(fact.subject)
    tenant, user = asker_of(subject)
    public = {"wish": fact.wish, "user": user, "subject": subject, "reason": fact.reason, "message": fact.message}
    return (PublicFact(tenant, "wish", "refused", user, public),) if tenant else ()


def _refusals(_projector: Projector, fact: f.RefusalsCountedV1) -> tuple[PublicFact, ...]:
    public = {"user": fact.user, "reason": fact.reason, "count": fact.count}
    return (PublicFact(fact.tenant, "refusals", "counted", fact.user, public),)


def _own(verb: str, noun: str, tenant: str, name: str, public: object, fact: AnyFact) -> tuple[PublicFact, ...]:
    return (PublicFact(tenant, noun, verb, name, {noun: public} | _authored(fact, tenant)),)


def _gated(_projector: Projector, fact: f.PolicyGatedV1) -> tuple[PublicFact, ...]:
    public = {"policy": fact.policy, "shut": fact.shut, "stops": fact.stops, "spent": fact.spent}
    return (PublicFact(fact.tenant, "policy", "gated", fact.policy, public),)


def _node_only(projector: Projector, fact: AnyFact) -> Iterator[PublicFact]:
    """A fact of a node that is public with its type and a few fields."""
    verb = f.fact_type(type(fact)).split(".")[1].replace("_", "-")
    public = {name: value for name in ("silent_for", "begins", "kind") if (value := getattr(fact, name, None)) is not None}
    return projector.node_facts(verb, fact, getattr(fact, "node", ""), public)


def _registered(projector: Projector, fact: f.NodeRegisteredV1) -> Iterator[PublicFact]:
    """The approved claims of a node, without its leases, which are of many tenants."""
    names = ("labels", "devices", "cpu", "memory", "executor", "isolation", "levels")
    public = {name: getattr(projector.believed(fact), name) for name in names}
    return projector.node_facts("registered", fact, fact.node, public | {"at_node": fact.at})


OF_OTHERS: dict[type, Callable[[Projector, Any], Iterator[PublicFact] | tuple[PublicFact, ...]]] = {
    f.StopOrderedV1: _stop,
    f.PreemptionForcedV1: _forced,
    f.PreemptionOrderedV1: Projector.preemption_facts,
    f.PreemptionSettledV1: Projector.settlement_facts,
    f.WishRefusedV1: _wish_refused,
    f.RefusalsCountedV1: _refusals,
    f.TenantAppliedV1: lambda _, fact: _own("applied", "tenant", fact.tenant.name, fact.tenant.name, fact.tenant, fact),
    f.TenantDeletedV1: lambda _, fact: _own("deleted", "tenant", fact.name, fact.name, fact.name, fact),
    f.UserAppliedV1: lambda _, fact: _own("applied", "user", fact.user.tenant, fact.user.handle, fact.user.handle, fact),
    f.UserDeletedV1: lambda _, fact: _own("deleted", "user", fact.tenant, fact.handle, fact.handle, fact),
    f.GroupAppliedV1: lambda _, fact: _own("applied", "group", fact.group.tenant, fact.group.name, fact.group, fact),
    f.GroupDeletedV1: lambda _, fact: _own("deleted", "group", fact.tenant, fact.name, fact.name, fact),
    f.PolicyAppliedV1: lambda _, fact: _own("applied", "policy", fact.policy.tenant, fact.policy.name, fact.policy, fact),
    f.PolicyDeletedV1: lambda _, fact: _own("deleted", "policy", fact.tenant, fact.name, fact.name, fact),
    f.PolicyGatedV1: _gated,
    f.GrowthRequestedV1: lambda projector, fact: projector.growth_facts("requested", fact, {"nodes": fact.nodes}),
    f.GrowthEndedV1: lambda projector, fact: projector.growth_facts(
        "ended", fact, {"nodes": fact.nodes, "outcome": fact.outcome, "closed_until": fact.closed_until}
    ),
    f.PoolAppliedV1: Projector.pool_facts,
    f.PoolDeletedV1: Projector.pool_deleted_facts,
    f.ProfileAppliedV1: Projector.profile_facts,
    f.ProfileDeletedV1: Projector.profile_deleted_facts,
    f.ObjectClosedV1: Projector.closed_facts,
    f.NodeRegisteredV1: _registered,
    f.NodeStoppedV1: lambda projector, fact: projector.node_facts("stopped", fact, fact.node, {"at_node": fact.at}),
    f.DeviceDrainedV1: lambda projector, fact: projector.node_facts(
        *("device-drained", fact, fact.node),
        {"device": fact.device, "cause": fact.cause, "code": fact.code, "message": fact.message, "at_node": fact.at},
    ),
    f.DeviceReturnedV1: lambda projector, fact: projector.node_facts(
        "device-returned", fact, fact.node, {"device": fact.device, "message": fact.message, "at_node": fact.at}
    ),
    f.NodeCheckedV1: lambda projector, fact: projector.node_facts(
        "checked", fact, fact.node, {"passed": fact.passed, "message": fact.message, "at_node": fact.at}
    ),
    f.MaintenanceStatedV1: lambda projector, fact: projector.growth_facts(
        "stated", fact, {name: getattr(fact, name) for name in ("begins", "ends", "begun", "reason")}, "maintenance"
    ),
    **dict.fromkeys((f.NodeCordonedV1, f.NodeUncordonedV1, f.NodeSetAsideV1, f.NodeCheckOrderedV1, f.NodeLostV1), _node_only),
    **dict.fromkeys((f.NodeDrainScheduledV1, f.NodeDrainBeganV1, f.NodeDrainOrderedV1, f.NodeConfirmedEmptyV1), _node_only),
    **dict.fromkeys((f.NodeExcludedV1, f.NodeApprovedV1, f.InstanceInterruptedV1), _node_only),
}
"""Facts that need the state, or that go to several tenants."""
