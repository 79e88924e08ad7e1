"""Facts of taking back: searched by *preemption*, ordered by the *allocator*, watched and settled by *preemption* (R19, R23-R30).

A preemption's id is `<job key of the preemptor>@<sequence of reclaim.opened>`.
"""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact, Ladder, Place, Value


class Victim(Value, frozen=True, kw_only=True):
    """A job that has to yield. The numbers say why it and not another (R25): `lost` in whole GPU-seconds at the time of search.

    `ladder`: which of the order's ladders is its own, where the order carries them.
    """

    job: str
    attempt: int
    policy: str
    lost: int
    ladder: int = 0


class ReclaimOpenedV1(Fact, frozen=True, kw_only=True, tag="reclaim.opened.v1"):
    """By the allocator: this job cannot be placed in `pool`, but may take back (R19). What helps it is kept until the answer."""

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
    """By preemption: no legal sufficient set exists. `protected` leases would have helped; the first is free to take at `retry_at`."""

    preemption: str
    job: str
    pool: str
    why: str
    protected: int = 0
    retry_at: int | None = None


class PreemptionOrderedV1(Fact, frozen=True, kw_only=True, tag="preemption.ordered.v1"):
    """By the allocator: the plan is law, and the places are nominated (R27).

    The victims' `stop.ordered` stand in the same record; where there are too many for one, `ladders` stand for them (`implied`).
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
    """By the allocator: the proposal was no longer legal or sufficient, no longer needed, or did not come within 2 s."""

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
    """By preemption: all victims have left. Times in microseconds since the order.

    `lost` is in whole GPU-seconds, checkpoints made in the grace counted (R25). `to_signal` is ours, `grace` the slowest job's,
    `to_release` the executor's and the driver's.
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


class NodeLostV1(Fact, frozen=True, kw_only=True, tag="node.lost.v1"):
    """By preemption, which listens to heartbeats: the node has been silent for `node_timeout` (R32)."""

    node: str
    silent_for: int
