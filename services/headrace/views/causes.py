"""Causes of facts: which earlier facts a fact responds to, among those that are given. Pure.

The ledger states no causes besides each record's `as_of`; they follow from the rules. A grant responds to an admission or a requeue, and
to the plan that made room for it; a stop order to the preemption, the cancel, the drain; an end to the order or the grant; and so on.
Following the links forward from a fact gives its effects, backward its causes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.facts import AnyFact
from headrace.contracts.values.ids import IdError, array_of, split_job_key

Ref = tuple[int, int]
"""(sequence, place in the record)."""


class StatedFact(NamedTuple):
    """A fact and its position in the ledger."""

    ref: Ref
    fact: AnyFact


def causes(stated: Iterable[StatedFact]) -> dict[Ref, tuple[Ref, ...]]:
    """Each fact's causes among those before it; `stated` in the order of the ledger."""
    trail = _Trail()
    found: dict[Ref, tuple[Ref, ...]] = {}
    for each in stated:
        rule = _RULES.get(type(each.fact))
        answered = tuple(ref for ref in dict.fromkeys(rule(trail, each.fact)) if ref != each.ref) if rule is not None else ()
        found[each.ref] = (*found.get(each.ref, ()), *answered)
        trail.note(each)
    return found


def around(links: dict[Ref, tuple[Ref, ...]], focus: Iterable[Ref]) -> set[Ref]:
    """Causes and effects of the facts in `focus`, including these."""
    effects: dict[Ref, list[Ref]] = {}
    for ref, answered in links.items():
        for cause in answered:
            effects.setdefault(cause, []).append(ref)
    start = set(focus)
    return _reached(start, lambda ref: links.get(ref, ())) | _reached(start, lambda ref: effects.get(ref, ()))


def _reached(start: set[Ref], following: Callable[[Ref], Iterable[Ref]]) -> set[Ref]:
    reached, ahead = set(start), list(start)
    while ahead:
        for ref in following(ahead.pop()):
            if ref not in reached:
                reached.add(ref)
                ahead.append(ref)
    return reached


class _Trail:
    """The last fact of each type about each object."""

    def __init__(self) -> None:
        self._last: dict[tuple[type, object], Ref] = {}
        self._node_of: dict[tuple[str, int, int], str] = {}
        self._pool_of: dict[str, str] = {}
        self._documents: Ref | None = None
        self._victims: dict[str, Ref] = {}
        self._victims_of: dict[str, tuple[tuple[str, int], ...]] = {}

    def note(self, stated: StatedFact) -> None:
        """Store the fact as the last of its type."""
        fact = stated.fact
        for about in _keys(fact):
            self._last[type(fact), about] = stated.ref
        if isinstance(fact, f.LeaseGrantedV1):
            self._node_of[fact.job, fact.attempt, fact.rank] = fact.node
            self._pool_of[fact.node] = fact.pool
        elif isinstance(fact, f.PreemptionOrderedV1):
            self._victims |= {victim.job: stated.ref for victim in fact.victims}
            self._victims_of[fact.preemption] = tuple((victim.job, victim.attempt) for victim in fact.victims)
        elif isinstance(fact, f.PolicyAppliedV1 | f.PolicyDeletedV1 | f.PoolAppliedV1 | f.ProfileAppliedV1 | f.TenantAppliedV1):
            self._documents = stated.ref

    def last(self, *kinds: type, of: object) -> Iterator[Ref]:
        """The latest fact of these types about an object, or the array to which it belongs; empty if not stated yet."""
        array = array_of(of) if isinstance(of, str) else ""
        names = (of, array) if array else (of,)
        refs = [ref for kind in kinds for name in names if (ref := self._last.get((kind, name))) is not None]
        if refs:
            yield max(refs)

    def attempt_began(self, fact: Any) -> Iterator[Ref]:
        return self.last(f.LeaseGrantedV1, of=(fact.job, fact.attempt))

    def lease(self, fact: Any) -> Iterator[Ref]:
        return self.last(f.LeaseGrantedV1, of=(fact.job, fact.attempt, fact.rank))

    def waits_since(self, job: str) -> Iterator[Ref]:
        return self.last(f.JobAdmittedV1, f.JobRequeuedV1, of=job)

    def stop_of(self, fact: f.StopOrderedV1) -> Iterator[Ref]:
        """Causes of a stop order, by the cause that it names."""
        match fact.ladder.cause:
            case "preempted" if fact.ladder.preemptor and fact.job in self._victims:
                yield self._victims[fact.job]
            case "preempted":
                yield from self.last(f.PreemptionForcedV1, of=fact.job)
            case "moved":
                yield from self.last(f.MoveOrderedV1, of=(fact.job, fact.attempt))
            case "cancelled":
                yield from self.last(f.JobCancelRequestedV1, of=fact.job)
            case "drain":
                nodes = [
                    node for (job, attempt, _), node in self._node_of.items() if (job, attempt) == (fact.job, fact.attempt)
                ]
                for node in nodes:
                    drained = self.last(f.NodeDrainOrderedV1, f.NodeDrainBeganV1, f.DeviceDrainedV1, of=node)
                    yield from tuple(drained) or self.last(f.MaintenanceStatedV1, of=("pool", self._pool_of.get(node)))
            case "interrupted":
                for (job, attempt, _), node in self._node_of.items():
                    if (job, attempt) == (fact.job, fact.attempt):
                        yield from self.last(f.InstanceInterruptedV1, of=node)
            case "gang_broken":
                yield from self.last(f.LeaseEndedV1, f.LeaseRevokedV1, of=(fact.job, fact.attempt))
            case _:
                yield from self.last(f.JobRequeueRequestedV1, of=fact.job)
        yield from self.attempt_began(fact)

    def end_of(self, fact: Any) -> Iterator[Ref]:
        stops = tuple(self.last(f.StopOrderedV1, of=(fact.job, fact.attempt))) if fact.stopping else ()
        yield from stops or self.lease(fact)

    def revoked(self, fact: f.LeaseRevokedV1) -> Iterator[Ref]:
        node = self._node_of.get((fact.job, fact.attempt, fact.rank), "")
        yield from self.last(f.NodeLostV1, f.NodeStoppedV1, f.NodeConfirmedEmptyV1, of=node)
        yield from self.lease(fact)

    def settled(self, fact: f.PreemptionSettledV1) -> Iterator[Ref]:
        for victim in self._victims_of.get(fact.preemption, ()):
            yield from self.last(f.LeaseEndedV1, f.LeaseRevokedV1, f.LeaseSuspendedV1, of=victim)
        yield from self.last(f.PreemptionOrderedV1, of=fact.preemption)

    def granted(self, fact: f.LeaseGrantedV1) -> Iterator[Ref]:
        yield from self.waits_since(fact.job)
        yield from self.last(f.PreemptionOrderedV1, of=fact.job)
        yield from self.last(f.MoveOrderedV1, of=(fact.job, fact.attempt - 1))
        yield from self.last(f.HoldPlacedV1, of=fact.job)

    def nominated(self, fact: f.NominationEndedV1) -> Iterator[Ref]:
        """The preemption by its name; else the move of the job, which has no name."""
        yield from tuple(self.last(f.PreemptionOrderedV1, of=fact.preemption)) or self.last(f.MoveOrderedV1, of=fact.job)

    def over(self, fact: Any) -> Iterator[Ref]:
        """Causes of a job's end or requeue: the ends of its attempt; else the cancel request while it waited."""
        ends = tuple(self.last(f.LeaseEndedV1, f.LeaseRevokedV1, of=(fact.job, fact.attempt)))
        asked = tuple(self.last(f.JobCancelRequestedV1, of=fact.job))
        yield from ends or asked or self.waits_since(fact.job)

    def dismissed(self, fact: f.JobDismissedV1 | f.JobMatchedV1) -> Iterator[Ref]:
        yield from self.waits_since(fact.job)
        if self._documents is not None:
            yield self._documents


def _keys(fact: AnyFact) -> Iterator[object]:
    """Keys of the objects that a fact is about: job, attempt, lease, preemption, node."""
    job, attempt, rank = (getattr(fact, name, None) for name in ("job", "attempt", "rank"))
    if job:
        yield job
        if attempt is not None:
            yield job, attempt
            if rank is not None:
                yield job, attempt, rank
    if isinstance(fact, f.MaintenanceStatedV1):
        yield "pool", fact.pool
    for name in ("preemption", "node"):
        if getattr(fact, name, ""):
            yield getattr(fact, name)


_RULES: dict[type, Callable[[_Trail, Any], Iterable[Ref]]] = {
    f.JobCancelRequestedV1: lambda trail, fact: trail.last(f.JobAdmittedV1, of=fact.job),
    f.JobRequeueRequestedV1: lambda trail, fact: trail.last(f.JobAdmittedV1, of=fact.job),
    f.NodeDrainBeganV1: lambda trail, fact: trail.last(f.NodeDrainScheduledV1, of=fact.node),
    f.PreemptionForcedV1: lambda trail, fact: trail.attempt_began(fact),
    f.JobDismissedV1: _Trail.dismissed,
    f.JobMatchedV1: _Trail.dismissed,
    f.ReclaimOpenedV1: lambda trail, fact: trail.waits_since(fact.job),
    f.PreemptionProposedV1: lambda trail, fact: trail.last(f.ReclaimOpenedV1, of=fact.job),
    f.PreemptionNoneV1: lambda trail, fact: trail.last(f.ReclaimOpenedV1, of=fact.job),
    f.PreemptionDismissedV1: lambda trail, fact: trail.last(f.PreemptionProposedV1, f.ReclaimOpenedV1, of=fact.job),
    f.PreemptionOrderedV1: lambda trail, fact: trail.last(f.PreemptionProposedV1, f.ReclaimOpenedV1, of=fact.job),
    f.PreemptionSettledV1: _Trail.settled,
    f.NominationEndedV1: _Trail.nominated,
    f.HoldPlacedV1: lambda trail, fact: trail.waits_since(fact.job),
    f.HoldLiftedV1: lambda trail, fact: trail.last(f.HoldPlacedV1, of=fact.job),
    f.LeaseGrantedV1: _Trail.granted,
    f.LeaseStartedV1: _Trail.lease,
    f.LeaseRungV1: lambda trail, fact: trail.last(f.StopOrderedV1, of=(fact.job, fact.attempt)),
    f.LeaseIdledV1: lambda trail, fact: trail.lease(fact),
    f.LeaseUsedV1: lambda trail, fact: trail.last(f.LeaseIdledV1, of=(fact.job, fact.attempt)),
    f.LeaseOverdueV1: lambda trail, fact: trail.last(f.StopOrderedV1, of=(fact.job, fact.attempt)),
    f.LeaseSuspendedV1: lambda trail, fact: trail.last(f.StopOrderedV1, of=(fact.job, fact.attempt)),
    f.ResumeOrderedV1: lambda trail, fact: trail.last(f.LeaseSuspendedV1, of=(fact.job, fact.attempt)),
    f.MoveOrderedV1: lambda trail, fact: trail.last(f.LeaseSuspendedV1, of=(fact.job, fact.attempt)),
    f.LeaseResumedV1: lambda trail, fact: trail.last(f.ResumeOrderedV1, of=(fact.job, fact.attempt)),
    f.CheckpointRegisteredV1: lambda trail, fact: trail.attempt_began(fact),
    f.StopOrderedV1: _Trail.stop_of,
    f.LeaseEndedV1: _Trail.end_of,
    f.LeaseRevokedV1: _Trail.revoked,
    f.JobRequeuedV1: _Trail.over,
    f.JobEndedV1: _Trail.over,
}
"""Causes by type of fact. Facts without a rule are beginnings: a submission, a document, a report of a node."""


def relatives(fact: AnyFact) -> Iterator[str]:
    """Other jobs that a fact ties to its own: its victims and its preemptor."""
    if isinstance(fact, f.PreemptionOrderedV1 | f.PreemptionProposedV1):
        yield fact.job
        yield from (victim.job for victim in fact.victims)
    preemptor = getattr(getattr(fact, "ladder", None), "preemptor", "")
    if preemptor:
        try:
            split_job_key(preemptor)
        except IdError:
            return
        yield preemptor
