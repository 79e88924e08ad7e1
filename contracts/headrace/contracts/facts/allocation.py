"""Facts of the *allocator*: grants, stops and the ends of jobs. Only the allocator grants and revokes leases and ends jobs."""

from __future__ import annotations

from headrace.contracts.facts.fact import DeviceShare, Fact, Ladder, Place
from headrace.contracts.values.gpu_memory import ModelShare
from headrace.contracts.values.value import Value


class LeaseGrantedV1(Fact, frozen=True, kw_only=True, tag="lease.granted.v1"):
    """One replica may hold these devices and amounts on one node until the lease is released or revoked.

    The leases of a gang are in one record (R2). `amounts` is all that is charged: device units as `gpu`, cpu, memory, and, in the
    lease of rank 0, one `job`. `inside` is True if the job fitted into its unused reservation when granted (R15);
    `resume_from` is the newest checkpoint registered by an earlier attempt (R29). `over_budget`: a budget was used up, so the job started
    as a borrower, whatever its reservation (R33).
    """

    job: str
    attempt: int
    rank: int = 0
    node: str
    pool: str
    devices: tuple[DeviceShare, ...] = ()
    amounts: dict[str, int]
    inside: bool = False
    resume_from: str = ""
    rule: str = "R15"
    over_budget: bool = False


class LeaseRevokedV1(Fact, frozen=True, kw_only=True, tag="lease.revoked.v1"):
    """The lease is revoked without a statement of its node.

    `cause`: `node_lost`, `node_stopped`, or `confirmed_empty`: an operator has confirmed that nothing of it is left on the node (R28, R32).
    """

    job: str
    attempt: int
    rank: int = 0
    cause: str


class StopOrderedV1(Fact, frozen=True, kw_only=True, tag="stop.ordered.v1"):
    """The attempt of the job has to stop; the node walks this ladder without further contact (R28)."""

    job: str
    attempt: int
    ladder: Ladder


class PolicyGatedV1(Fact, frozen=True, kw_only=True, tag="policy.gated.v1"):
    """The state of a policy's windows and budgets from now on (R33).

    `shut`: every window is closed, so nothing starts; `stops`: running jobs are stopped as well. `spent`: the budgets that are used up,
    such as
    `gpu per month`.
    """

    tenant: str
    policy: str
    shut: bool = False
    stops: bool = False
    spent: tuple[str, ...] = ()


class NodeDrainBeganV1(Fact, frozen=True, kw_only=True, tag="node.drain_began.v1"):
    """The time has come for which the node's drain was scheduled (R41): it is drained as if that had been ordered now (R28)."""

    node: str


class MaintenanceStatedV1(Fact, frozen=True, kw_only=True, tag="maintenance.stated.v1"):
    """The maintenance of a pool's nodes that counts from now on (R41; stated from level 3 on).

    `begun`: the nodes take no jobs and what runs there leaves by its ladder, until `ends`. Else only jobs start there that end before
    `begins`. Both are log time; 0: no maintenance counts. `reason` is that of the window in the pool's document.
    """

    pool: str
    begins: int = 0
    ends: int = 0
    begun: bool = False
    reason: str = ""


class ResumeOrderedV1(Fact, frozen=True, kw_only=True, tag="resume.ordered.v1"):
    """A suspended job holds its devices again, and its nodes resume it (R29).

    `min_runtime` is the job's own from now on, in microseconds.
    """

    job: str
    attempt: int
    min_runtime: int = 0


class MoveOrderedV1(Fact, frozen=True, kw_only=True, tag="move.ordered.v1"):
    """A suspended job continues on other devices, from its newest checkpoint (R29).

    The suspended attempt is stopped by the `stop.ordered` of the same record, with the cause `moved`. Meanwhile `places` in `pool`, one for
    each replica, are nominated for the job (R27), until its next attempt starts or a `nomination.ended` names the move. That names it
    `<job>@<sequence of this record>`.
    """

    job: str
    attempt: int
    pool: str
    places: tuple[Place, ...]
    rule: str = "R29"


class GrowthRequestedV1(Fact, frozen=True, kw_only=True, tag="growth.requested.v1"):
    """A pool that can create nodes is asked for `nodes` more (R38), for these jobs and others like them; the first jobs are listed."""

    pool: str
    nodes: int
    jobs: tuple[str, ...] = ()


class GrowthEndedV1(Fact, frozen=True, kw_only=True, tag="growth.ended.v1"):
    """The growth has ended: `grown`, or `late`, after which the pool is not asked again until `closed_until`. `nodes` were added."""

    pool: str
    outcome: str
    nodes: int = 0
    closed_until: int = 0


class JobRequeuedV1(Fact, frozen=True, kw_only=True, tag="job.requeued.v1"):
    """The job is pending again and keeps its admission time. `last`: it waits behind all jobs that wait now (R29); only after `preempted`.

    `cause`: `preempted`, `failed` (a retry is used up), `node_lost`, `node_stopped`, `refused`, `start_timeout`, `drain`,
    `interrupted` (the provider takes its node back), `requeued` (asked by its owner); after a suspension also `suspend_max`,
    `device_lost`, `suspension_lost` (the job ended meanwhile), `moved` (the job continues on other devices).

    `min_runtime` is the job's own from now on, doubled after each preemption (R29); `not_before` delays the next start
    after a loss (R32); microseconds. Until `avoid_until` the job avoids the nodes in `avoid`, which did not start it (R36).
    `may_overlap`: its node was lost without a statement, so the old attempt may still run while the next one does (R32).
    """

    job: str
    attempt: int
    cause: str
    min_runtime: int = 0
    not_before: int = 0
    avoid: tuple[str, ...] = ()
    avoid_until: int = 0
    may_overlap: bool = False
    last: bool = False


class JobEndedV1(Fact, frozen=True, kw_only=True, tag="job.ended.v1"):
    """The job has reached a final state: `succeeded`, `failed` or `cancelled`.

    Of an array: its elements that were never granted anything have; `elements`: the ranges of indices that are meant; empty: all.
    """

    job: str
    attempt: int
    state: str
    cause: str
    exit_code: int | None = None
    elements: tuple[tuple[int, int], ...] = ()


class JobDismissedV1(Fact, frozen=True, kw_only=True, tag="job.dismissed.v1"):
    """A pending job can no longer run (R10, R13): its final state is `rejected`. `reason` is a `RejectReason`.

    Of an array: none of its elements that were never granted anything can.
    """

    job: str
    reason: str
    message: str


class JobMatchedV1(Fact, frozen=True, kw_only=True, tag="job.matched.v1"):
    """A pending job may be given these GPU models from now on, the one tried first at the front (R42, R43).

    Stated from level 3 on when documents or nodes have changed since it was admitted or last matched. `shares`: as in `job.admitted`,
    those that were stated before among them. `by_model`: of whichever of them it is given, the model's own key is charged too. Of an
    array: all elements that wait.
    """

    job: str
    shares: tuple[ModelShare, ...]
    by_model: bool = False


class NodeSetAsideV1(Fact, frozen=True, kw_only=True, tag="node.set_aside.v1"):
    """Nothing new is granted on the node, because it refused several jobs in a row, or failed on probation (R36).

    `until`: time at which the node is asked to check itself, and is then given one job on probation; microseconds. 0, in ledgers of release
    0.1.0: only an operator takes it back.
    """

    node: str
    reason: str
    until: int = 0


class NodeCheckOrderedV1(Fact, frozen=True, kw_only=True, tag="node.check_ordered.v1"):
    """A node that was set aside is asked to check itself: its time is over (R36). It answers with `node.checked`."""

    node: str


class UsualRequest(Value, frozen=True, kw_only=True):
    """What one replica needs of a node: devices or a part of one, millicores, MiB, of these GPU models (empty: any).

    `whole` devices, `fraction` units of one, or the slice `mig`, which is stated from level 2 on.
    `weight`: how often this is requested, relative to the others.
    """

    whole: int = 0
    fraction: int = 0
    cpu: int = 0
    memory: int = 0
    models: tuple[str, ...] = ()
    mig: str = ""
    weight: int


class MixLearnedV1(Fact, frozen=True, kw_only=True, tag="mix.learned.v1"):
    """The usual requests of a pool from now on: placement keeps room for these (R20)."""

    pool: str
    requests: tuple[UsualRequest, ...]


class HoldPlacedV1(Fact, frozen=True, kw_only=True, tag="hold.placed.v1"):
    """The job has waited too long: these places of the pool are kept for it from jobs that rank lower (R16).

    What other jobs still hold there is awaited. Kept resources are not charged (R37). The hold ends when the job stops waiting, or when
    lifted.
    """

    job: str
    pool: str
    places: tuple[Place, ...]
    rule: str = "R16"


class HoldLiftedV1(Fact, frozen=True, kw_only=True, tag="hold.lifted.v1"):
    """The hold of the job in this pool has ended, although the job still waits."""

    job: str
    pool: str
    why: str
