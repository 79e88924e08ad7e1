"""Facts of a *node executor*: its hardware, and what became of each lease on it. A node states facts about itself only.

`at` is the node's clock, in microseconds since 1970 (R37).
"""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact, Whole
from headrace.contracts.values.value import Value


class Device(Value, frozen=True, kw_only=True):
    """One GPU as the node reports it. `memory` in MiB. `unfit`: why nothing may be granted on it; empty if it is healthy.

    `nvlink`: the group of GPUs of the node that reach each other by NVLink (R40); empty: it is in none. Read from level 3 on.
    """

    device: str
    model: str
    memory: Whole
    mig: bool = False
    unfit: str = ""
    nvlink: str = ""


class NodeRegisteredV1(Fact, frozen=True, kw_only=True, tag="node.registered.v1"):
    """The node is present, with this hardware. Stated at every start; `holding` are the leases whose jobs still run on it.

    `isolation` is the level that it has proved; `levels` has the kinds with another level: `whole`, `fraction` and `slice`, and, for jobs
    with
    an image, `container` (without a GPU), `container-whole`, `container-fraction` and `container-slice`, if they differ from processes;
    `unable`
    if the node cannot run the kind. `reads` is the level of facts that its executor reads and writes (`contracts.facts.levels`).
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
    """A device is unfit: nothing more is granted on it. Jobs on it continue as long as they can.

    `cause`: `lost`, `xid`, `ecc`, `row_remap`, `recovery_action`, `stuck_slice`, `foreign_slice`, `foreign_process`,
    `disputed` (it is held for a lease that the ledger does not have there; until the node registers again, R36); `code` is the number
    that came with it (the XID, the recovery action, the count of errors, MiB), `message` the same for people.
    """

    node: str
    device: str
    cause: str
    code: Whole = 0
    message: str = ""
    at: Whole


class DeviceReturnedV1(Fact, frozen=True, kw_only=True, tag="device.returned.v1"):
    """A drained device is healthy again; `message` has the observation."""

    node: str
    device: str
    message: str = ""
    at: Whole


class NodeStoppedV1(Fact, frozen=True, kw_only=True, tag="node.stopped.v1"):
    """The executor shuts down in an orderly way; all jobs on the node have ended.

    `through`: the ledger sequence of the last orders that it had read. The fact does not cover leases granted later (R36). 0: stated by
    release 0.1.0, and covers every lease on the node.
    """

    node: str
    through: Whole = 0
    at: Whole


class NodeCheckedV1(Fact, frozen=True, kw_only=True, tag="node.checked.v1"):
    """The node has checked itself, as ordered after it had been set aside (R36). `ordered` is the sequence of that order.

    `passed`: it could write to its disk, saw its devices and started a program as it starts jobs; else `message` says what failed.
    """

    node: str
    ordered: Whole
    passed: bool
    message: str = ""
    at: Whole


class LeaseStartedV1(Fact, frozen=True, kw_only=True, tag="lease.started.v1"):
    """The job's process runs. `isolation` is the level in effect, never overstated."""

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
    """The job is suspended and stays in host memory; its devices are free for other jobs (R29).

    `how`: the mechanism, never overstated; `sigstop` is a substitute on simulated devices, which have no memory to move.
    """

    job: str
    attempt: Whole
    rank: Whole = 0
    at: Whole
    how: str = ""


class LeaseResumedV1(Fact, frozen=True, kw_only=True, tag="lease.resumed.v1"):
    """A suspended job runs again, on the same devices (R29)."""

    job: str
    attempt: Whole
    rank: Whole = 0
    at: Whole


class CheckpointRegisteredV1(Fact, frozen=True, kw_only=True, tag="checkpoint.registered.v1"):
    """The job saved its work, and the node found the file (R25). `uri` is its location; `step` the job's own count."""

    job: str
    attempt: Whole
    uri: str
    step: Whole = 0
    at: Whole


class LeaseEndedV1(Fact, frozen=True, kw_only=True, tag="lease.ended.v1"):
    """The process has ended and the devices are verified free: the lease is released.

    `outcome`: `exited`, `killed` (by the ladder's last rung), `refused` (never started, the node's fault; R36), `never_started` (stopped
    before), `lost` (unknown to the executor). `exit_code` as a shell reports it (128 + signal). `finished`: the job declared
    itself finished (R30). `stopping`: a ladder was in progress when it ended; without it the job ended by itself, even if a stop
    was under way. `exited_at` is when the process ended, `at` when the devices were free. `held_by`: with `refused`, the lease that still
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
