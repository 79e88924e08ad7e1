"""Facts of preemption: searched by *preemption*, ordered by the *allocator*, watched and settled by *preemption* (R19, R23-R30).

A preemption's id is `<job key of the preemptor>@<sequence of reclaim.opened>`.
"""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact, Ladder, Place
from headrace.contracts.values.value import Value


class Victim(Value, frozen=True, kw_only=True):
    """A job that has to stop. The numbers show why it was chosen (R25): `lost` in whole GPU-seconds at the time of the search.

    `ladder`: index of its ladder in the order, if the order carries ladders.
    """

    job: str
    attempt: int
    policy: str
    lost: int
    ladder: int = 0


class ReclaimOpenedV1(Fact, frozen=True, kw_only=True, tag="reclaim.opened.v1"):
    """By the allocator: this job cannot be placed in `pool`, but may preempt (R19). What helps it is kept until the answer."""

    job: str
    pool: str
    cause: str


class PreemptionProposedV1(Fact, frozen=True, kw_only=True, tag="preemption.proposed.v1"):
    """By preemption: a legal, sufficient and minimal set of victims (R26), and where the preemptor will be placed."""

    preemption: str
    job: str
    pool: str
    cause: str
    victims: tuple[Victim, ...]
    places: tuple[Place, ...]
    rule: str


class PreemptionNoneV1(Fact, frozen=True, kw_only=True, tag="preemption.none.v1"):
    """By preemption: a legal sufficient set does not exist.

    `protected` leases would have helped; the first can be preempted from `retry_at` on.
    """

    preemption: str
    job: str
    pool: str
    why: str
    protected: int = 0
    retry_at: int | None = None


class PreemptionOrderedV1(Fact, frozen=True, kw_only=True, tag="preemption.ordered.v1"):
    """By the allocator: the proposal is in force, and the places are nominated (R27).

    The victims' `stop.ordered` are in the same record; if there are too many for one record, `ladders` replace them (`derived_facts`).
    """

    preemption: str
    job: str
    pool: str
    cause: str
    victims: tuple[Victim, ...]
    places: tuple[Place, ...]
    rule: str
    ladders: tuple[Ladder, ...] = ()


class PreemptionDismissedV1(Fact, frozen=True, kw_only=True, tag="preemption.dismissed.v1"):
    """By the allocator: the proposal was no longer legal, sufficient or needed, or did not come within 2 s."""

    preemption: str
    job: str
    pool: str
    why: str


class NominationEndedV1(Fact, frozen=True, kw_only=True, tag="nomination.ended.v1"):
    """By the allocator: the freed units are no longer kept for the preemptor (R27), which was not started there."""

    preemption: str
    job: str
    why: str


class PreemptionSettledV1(Fact, frozen=True, kw_only=True, tag="preemption.settled.v1"):
    """By preemption: all victims have stopped. Times in microseconds since the order.

    `lost` is in whole GPU-seconds, checkpoints made in the grace counted (R25). `to_signal` is the delay of our services, `grace` that of
    the
    slowest job, `to_release` that of the executor and the driver.
    """

    preemption: str
    job: str
    victims: int
    lost: int
    to_signal: int
    grace: int
    to_release: int


class LeaseOverdueV1(Fact, frozen=True, kw_only=True, tag="lease.overdue.v1"):
    """By preemption: the node has not finished the ladder 30 s after its end; the devices are not granted until confirmed empty."""

    job: str
    attempt: int
    rank: int = 0
    node: str


class LeaseIdledV1(Fact, frozen=True, kw_only=True, tag="lease.idled.v1"):
    """By preemption, which receives samples: the node has measured the lease's devices as idle for its policy's `idle_after` (R39).

    `idle_for` in microseconds; `average`: percent of the time in which the busiest of them computed over the last ten minutes.
    """

    job: str
    attempt: int
    rank: int = 0
    node: str
    idle_for: int
    average: int = 0


class LeaseUsedV1(Fact, frozen=True, kw_only=True, tag="lease.used.v1"):
    """By preemption: a lease counts as idle no more (R39).

    `cause`: `busy` (a device computes again), `unmeasured` (the node no longer tells) or `policy` (it has no `idle_after` any more).
    """

    job: str
    attempt: int
    rank: int = 0
    node: str
    cause: str


class NodeLostV1(Fact, frozen=True, kw_only=True, tag="node.lost.v1"):
    """By preemption, which receives heartbeats: the node has been silent for `node_timeout` (R32)."""

    node: str
    silent_for: int
