"""Orders for nodes, derived from the state (R28, R32): starts, stops, and all of them when a node asks. Pure.

Strategy: level, not edge. Records only show which jobs have news; an order follows from the state as it is now, so that a lease that was
granted and stopped within one batch is sent as stopped. A lease whose job has to stop is never sent as a start: a node that does not know
it answers that it never started. Every order may be sent again; a node knows the leases it has. Only a node that lost its journal in a
power failure does not, and each start says whether the lease had run: one that had is lost, and its next attempt continues from the
checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headrace.contracts import facts as f
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.facts.levels import NETWORKS
from headrace.contracts.messages.orders import ADDRESS, NodeAnswer, StartOrder, StopOrder
from headrace.contracts.transport.subjects import node_writer
from headrace.contracts.values.ids import lease_id
from headrace.contracts.values.networks import PRIVATE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.contracts.facts import AnyFact
    from headrace.contracts.messages.submissions import JobText
    from headrace.domain.model.jobs import JobRecord, LeaseState
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.state import State

    TextOf = Callable[[JobRecord], JobText | None]
    """Opened text of a job; None if its key is missing."""

REVOKED = "revoked"
"""Cause of a stop for a lease that was revoked while its node was away and that the node may still run when it is back (R32)."""


_SENT_TO_NODES = frozenset({f.LeaseGrantedV1, f.StopOrderedV1, f.ResumeOrderedV1})


class Revoked(NamedTuple):
    """A revoked lease and the record that revoked it."""

    job: str
    attempt: int
    rank: int
    sequence: int


@dataclass(slots=True)
class JobChanges:
    """Jobs that records have changed in a way that nodes have to know."""

    jobs: dict[str, None] = field(default_factory=dict)
    revoked: list[Revoked] = field(default_factory=list)

    def note(self, fact: AnyFact, sequence: int) -> None:
        """Look at one fact of a record that has been folded."""
        if type(fact) in _SENT_TO_NODES:
            self.jobs[fact.job] = None  # type: ignore[union-attr]
        elif isinstance(fact, f.LeaseRevokedV1):
            self.revoked.append(Revoked(fact.job, fact.attempt, fact.rank, sequence))

    def __bool__(self) -> bool:
        """True if a node has to know of them."""
        return bool(self.jobs or self.revoked)


@dataclass(slots=True)
class NodeOrders:
    """Orders for one node, sent together."""

    starts: list[StartOrder] = field(default_factory=list)
    stops: list[StopOrder] = field(default_factory=list)


def unconfirmed(state: State) -> JobChanges:
    """News that nodes may not have received when a feed starts: leases not started or resumed yet, and stops."""
    news = JobChanges()
    for policy in state.policies.values():
        for job in policy.jobs.values():
            if job.stop is not None or any(not lease.started_at or lease.resuming for lease in job.leases.values()):
                news.jobs[job.key] = None
    return news


def to_start(state: State, news: JobChanges) -> list[JobRecord]:
    """Jobs whose texts `orders_for` needs."""
    jobs = (state.jobs.get(key) for key in news.jobs)
    return [job for job in jobs if job is not None and job.stop is None and job.leases]


def orders_for(state: State, news: JobChanges, text_of: TextOf) -> dict[str, NodeOrders]:
    """Orders by node, as the state is now."""
    orders: dict[str, NodeOrders] = {}
    for key in news.jobs:
        job = state.jobs.get(key)
        if job is None or not job.leases:
            continue
        if job.stop is not None:
            for lease in job.leases.values():
                orders.setdefault(lease.node, NodeOrders()).stops.append(_stop(job, lease, job.stop))
            continue
        text = text_of(job)
        for lease in job.leases.values():
            orders.setdefault(lease.node, NodeOrders()).starts.append(_start(state, job, lease, text))
    for revoked in news.revoked:
        _add_revoked(state, revoked, orders)
    return orders


def _add_revoked(state: State, revoked: Revoked, orders: dict[str, NodeOrders]) -> None:
    """Add the stop of a lease that was revoked while its node was away. It has no grace to save work in."""
    job = state.jobs.get(revoked.job)
    attempt = next((past for past in job.attempts if past.number == revoked.attempt), None) if job is not None else None
    if job is None or attempt is None or revoked.rank >= len(attempt.nodes):
        return
    node = state.nodes.get(attempt.nodes[revoked.rank])
    if node is not None and node.healthy:
        ladder = Ladder(cause=REVOKED, callback_grace=0, term_grace=job.policy.document.preemption.term_grace)
        lease = lease_id(revoked.job, revoked.attempt, revoked.rank)
        orders.setdefault(node.name, NodeOrders()).stops.append(StopOrder(lease=lease, ordered=revoked.sequence, ladder=ladder))


def jobs_on(state: State, node: str) -> list[JobRecord]:
    """Jobs that should be running on a node: those whose texts `answer` needs."""
    return [lease.job for lease in _leases_on(state, node) if lease.job.stop is None]


def answer(state: State, node: str, text_of: TextOf, now: int = 0) -> NodeAnswer:
    """All leases of a node: those to run and those being stopped. `now`: the log's time."""
    leases = _leases_on(state, node)
    last_record, last_digest = state.writers.get(node_writer(node), (0, ""))
    known = state.nodes.get(node)
    return NodeAnswer(
        node=node,
        through=state.sequence,
        level=state.terms.level,
        last_record=last_record,
        last_digest=last_digest,
        now=now,
        lost=known is not None and known.status == "lost",
        check=_check_due(known),
        starts=tuple(_start(state, lease.job, lease, text_of(lease.job)) for lease in leases if lease.job.stop is None),
        stops=tuple(_stop(lease.job, lease, lease.job.stop) for lease in leases if lease.job.stop is not None),
    )


def _check_due(node: NodeState | None) -> int:
    """Sequence of the check order that a node has not answered (R36); else 0."""
    probation = node.probation if node is not None else None
    return probation.ordered if probation is not None and probation.stage == "checks" else 0


def _leases_on(state: State, node: str) -> Iterable[LeaseState]:
    found = state.nodes.get(node)
    return found.leases.values() if found is not None else ()


def _stop(job: JobRecord, lease: LeaseState, ladder: Ladder) -> StopOrder:
    """Stop order of a lease. The preemptor is named only to its own tenant."""
    if ladder.preemptor and not ladder.preemptor.startswith(f"{job.tenant}."):
        ladder = msgspec.structs.replace(ladder, preemptor="")
    return StopOrder(
        lease=lease_id(job.key, lease.attempt, lease.rank),
        ordered=job.stop_sequence,
        ladder=ladder,
        started=lease.started_at > 0,
    )


def _start(state: State, job: JobRecord, lease: LeaseState, text: JobText | None) -> StartOrder:
    """Start order of a lease. It is withheld without a text: the key may come back, or else the start takes too long (R35)."""
    attempt = job.attempts[-1]
    return StartOrder(
        lease=lease_id(job.key, lease.attempt, lease.rank),
        job=job.key,
        attempt=lease.attempt,
        rank=lease.rank,
        replicas=job.request.replicas,
        peers=tuple(_address(state, name) for name in attempt.nodes),
        granted=lease.sequence,
        devices=lease.devices,
        amounts=lease.amounts,
        name=job.name,
        queue=job.queue,
        command=text.command if text is not None else (),
        env=text.env if text is not None else {},
        secret_env=text.secret_env if text is not None else (),
        image=text.image if text is not None else "",
        workdir=text.workdir if text is not None else "",
        on_abort=text.on_abort if text is not None else (),
        resume_from=attempt.resume_from,
        trace=job.trace,
        started=lease.started_at > 0,
        suspended=lease.suspended_at > 0,
        withheld=text is None,
        secrets=text.secrets if text is not None else {},
        mounts=text.mounts if text is not None else (),
        account=state.accounts.get((job.tenant, job.user), 0),
        array=job.array.range if job.array is not None else None,
        network=_network(state, job) if text is not None and text.image else "",
    )


def _network(state: State, job: JobRecord) -> str:
    """The network of the job's containers by its profile as it is now (R44); empty below the level that knows networks."""
    if state.terms.level < NETWORKS:
        return ""
    profile = state.profile(job.tenant, job.profile)
    return (profile.network if profile is not None else None) or PRIVATE


def _address(state: State, name: str) -> str:
    """Address at which other nodes reach this one (R35): the one that it states, or else its name."""
    node = state.nodes.get(name)
    return node.labels.get(ADDRESS, name) if node is not None else name
