"""Facts of a *node executor*: what it has, and what became of each lease on it. A node speaks of itself only.

`at` is the node's clock, in microseconds since 1970 (R37).
"""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact, Value, Whole


class Device(Value, frozen=True, kw_only=True):
    """One GPU as the node sees it. `memory` in MiB. `unfit`: why nothing may be granted on it; empty where it is in order."""

    device: str
    model: str
    memory: Whole
    mig: bool = False
    unfit: str = ""


class NodeRegisteredV1(Fact, frozen=True, kw_only=True, tag="node.registered.v1"):
    """The node is here, with this hardware. Said at every start; `holding` are the leases whose jobs still run on it.

    `isolation` is the level that it has proved; `levels` says, for the kinds `whole`, `fraction` and `slice`, where that is another, and
    for `container` (without a GPU), `container-whole`, `container-fraction` and `container-slice`, where jobs with an image have another
    than processes; `unable` where they cannot run at all. `reads` is the level that its executor reads and writes
    (`contracts.facts.levels`).
    """

    node: str
    labels: dict[str, str] = {}
    devices: tuple[Device, ...] = ()
    cpu: Whole
    memory: Whole
    executor: str = ""
    isolation: str = "watchdog"
    holding: tuple[str, ...] = ()
    levels: dict[str, str] = {}
    reads: int = 1
    at: Whole


class DeviceDrainedV1(Fact, frozen=True, kw_only=True, tag="device.drained.v1"):
    """A device is in no order: nothing more is granted on it. What runs there goes on as long as it can.

    `cause`: `lost`, `xid`, `ecc`, `row_remap`, `recovery_action`, `stuck_slice`, `foreign_slice`, `disputed` (it is held for a lease that
    the ledger does not have there; until the node registers again, R36); `code` is the number that came with it
    (the XID, the recovery action, the count of errors), `message` the same for people.
    """

    node: str
    device: str
    cause: str
    code: Whole = 0
    message: str = ""
    at: Whole


class DeviceReturnedV1(Fact, frozen=True, kw_only=True, tag="device.returned.v1"):
    """A device that was drained is in order again; `message` says what was seen."""

    node: str
    device: str
    message: str = ""
    at: Whole


class NodeStoppedV1(Fact, frozen=True, kw_only=True, tag="node.stopped.v1"):
    """The executor is going down in an orderly way; nothing runs on the node any more.

    `through`: the ledger sequence of the last orders that it had read. It says nothing of leases granted after that (R36). 0: it was said
    by release 0.1.0, which names none, and means every lease on the node.
    """

    node: str
    through: Whole = 0
    at: Whole


class NodeCheckedV1(Fact, frozen=True, kw_only=True, tag="node.checked.v1"):
    """The node has checked itself, as it was asked to after it had been set aside (R36). `ordered` is the sequence of that order.

    `passed`: it could write to its disk, saw its devices and started a program as it starts jobs; else `message` says what failed.
    """

    node: str
    ordered: Whole
    passed: bool
    message: str = ""
    at: Whole


class LeaseStartedV1(Fact, frozen=True, kw_only=True, tag="lease.started.v1"):
    """The job's process runs. `isolation` is the level really obtained, never overstated."""

    job: str
    attempt: Whole
    rank: Whole = 0
    at: Whole
    isolation: str = "watchdog"


class LeaseOverranV1(Fact, frozen=True, kw_only=True, tag="lease.overran.v1"):
    """The job held more memory of a device than it was given, and is killed for it. `limit` and `used` in MiB."""

    job: str
    attempt: Whole
    rank: Whole = 0
    device: str
    limit: Whole
    used: Whole
    at: Whole


class LeaseRungV1(Fact, frozen=True, kw_only=True, tag="lease.rung.v1"):
    """One rung of the ladder was taken (R28): `told`, `callback`, `suspend`, `term`, `kill`, `verify`. `took` in microseconds."""

    job: str
    attempt: Whole
    rank: Whole = 0
    rung: str
    at: Whole
    took: Whole
    result: str


class LeaseSuspendedV1(Fact, frozen=True, kw_only=True, tag="lease.suspended.v1"):
    """The job is stopped where it was and keeps its place in host memory; its devices are free for others (R29).

    `how`: by which means, never overstated; `sigstop` is a stand-in on simulated devices, which hold nothing that would have to be moved.
    """

    job: str
    attempt: Whole
    rank: Whole = 0
    at: Whole
    how: str = ""


class LeaseResumedV1(Fact, frozen=True, kw_only=True, tag="lease.resumed.v1"):
    """A job that was suspended runs again, on the same devices (R29)."""

    job: str
    attempt: Whole
    rank: Whole = 0
    at: Whole


class CheckpointRegisteredV1(Fact, frozen=True, kw_only=True, tag="checkpoint.registered.v1"):
    """The job saved its work, and the node found the file there (R25). `uri` is where; `step` the job's own count."""

    job: str
    attempt: Whole
    uri: str
    step: Whole = 0
    at: Whole


class LeaseEndedV1(Fact, frozen=True, kw_only=True, tag="lease.ended.v1"):
    """The process is gone, the devices are verified free: the lease is released.

    `outcome`: `exited`, `killed` (by the ladder's last rung), `refused` (never started, the node's fault; R36), `never_started` (a stop
    came first), `lost` (the executor cannot say). `exit_code` as a shell would tell it (128 + signal). `finished`: the job declared
    itself finished (R30). `stopping`: a ladder was being walked when it ended; without it the job ended by itself, even if a stop
    was on its way. `exited_at` is when the process ended, `at` when the devices were free. `held_by`: with `refused`, the lease that still
    holds a device which this one was granted: the node was never told to end it, or has not finished doing so. Then node and ledger
    disagree, which is not counted as a refusal: the device is drained as `disputed`, and the node asks what should run on it (R36).
    """

    job: str
    attempt: Whole
    rank: Whole = 0
    outcome: str
    exit_code: Whole | None = None
    finished: bool = False
    stopping: bool = False
    message: str = ""
    held_by: str = ""
    exited_at: Whole
    at: Whole
