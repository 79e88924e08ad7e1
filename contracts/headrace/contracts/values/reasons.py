"""Every reject reason and wait reason, in order of precedence: the first that applies is the answer (R13, R22).

A reason is part of the interface: the same token is in facts, logs, metric labels, answers and documentation, and
is never renamed. Each has one sentence for people.
"""

from __future__ import annotations

from enum import StrEnum


class RejectReason(StrEnum):
    """Why a job was rejected or dismissed for good (R13). `DISK_FULL`, `TOO_MANY_PENDING` and `TOO_FAST` may be tried again later."""

    MALFORMED = "MALFORMED"
    UNKNOWN_TENANT = "UNKNOWN_TENANT"
    UNKNOWN_QUEUE = "UNKNOWN_QUEUE"
    NOT_ALLOWED = "NOT_ALLOWED"
    RUNTIME_RULE = "RUNTIME_RULE"
    NETWORK_UNSTATED = "NETWORK_UNSTATED"
    BEYOND_PROFILE = "BEYOND_PROFILE"
    EXCEEDS_POOL_CAPACITY = "EXCEEDS_POOL_CAPACITY"
    NO_SUITABLE_NODE = "NO_SUITABLE_NODE"
    EXCEEDS_POLICY_LIMIT = "EXCEEDS_POLICY_LIMIT"
    EXCEEDS_TENANT_LIMIT = "EXCEEDS_TENANT_LIMIT"
    EXCEEDS_RESERVATION = "EXCEEDS_RESERVATION"
    DISK_FULL = "DISK_FULL"
    TOO_MANY_PENDING = "TOO_MANY_PENDING"
    TOO_FAST = "TOO_FAST"
    ID_REUSED = "ID_REUSED"
    ID_TOO_OLD = "ID_TOO_OLD"
    QUEUE_DELETED = "QUEUE_DELETED"


REJECT_SENTENCES: dict[RejectReason, str] = {
    RejectReason.MALFORMED: "the submission is not well-formed",
    RejectReason.UNKNOWN_TENANT: "the tenant does not exist",
    RejectReason.UNKNOWN_QUEUE: "the queue does not exist; a queue is <policy>/<profile>",
    RejectReason.NOT_ALLOWED: "this user may not submit to this queue",
    RejectReason.RUNTIME_RULE: "the group's runtime rules forbid what the job asks for",
    RejectReason.NETWORK_UNSTATED: "the profile does not say which network the containers of a gang have",
    RejectReason.BEYOND_PROFILE: "the request is larger than the profile",
    RejectReason.EXCEEDS_POOL_CAPACITY: "no pool of the profile is large enough, even when empty",
    RejectReason.NO_SUITABLE_NODE: "no node of the profile's pools could hold it, even when empty",
    RejectReason.EXCEEDS_POLICY_LIMIT: "the request is larger than the policy's limit",
    RejectReason.EXCEEDS_TENANT_LIMIT: "the request is larger than the tenant's limit",
    RejectReason.EXCEEDS_RESERVATION: "a non-preemptible job has to fit inside the reservation",
    RejectReason.DISK_FULL: "the disks of the NATS servers are nearly full, and what is left is kept for what runs",
    RejectReason.TOO_MANY_PENDING: "too many jobs are pending in this queue",
    RejectReason.TOO_FAST: "jobs are submitted faster than the tenant may",
    RejectReason.ID_REUSED: "this id already names a job with other content; make a new ULID, or repeat the job as it was",
    RejectReason.ID_TOO_OLD: "the time inside the id is more than 24 h ago or 5 min ahead",
    RejectReason.QUEUE_DELETED: "the queue was deleted",
}


class WaitReason(StrEnum):
    """Why a pending job waits; computed from the state on request, never recorded (R22)."""

    FROZEN = "FROZEN"
    DEPENDENCY = "DEPENDENCY"
    OUTSIDE_WINDOW = "OUTSIDE_WINDOW"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    AT_ARRAY_LIMIT = "AT_ARRAY_LIMIT"
    WAITING_FOR_PREEMPTION = "WAITING_FOR_PREEMPTION"
    AT_POLICY_LIMIT = "AT_POLICY_LIMIT"
    AT_TENANT_LIMIT = "AT_TENANT_LIMIT"
    RESERVED_SHARE_BUSY = "RESERVED_SHARE_BUSY"
    MAINTENANCE = "MAINTENANCE"
    VICTIMS_PROTECTED = "VICTIMS_PROTECTED"
    KEPT_FOR_LARGER_JOB = "KEPT_FOR_LARGER_JOB"
    BEHIND_HIGHER_RANK = "BEHIND_HIGHER_RANK"
    NO_HEALTHY_NODE = "NO_HEALTHY_NODE"
    WAITING_FOR_CAPACITY = "WAITING_FOR_CAPACITY"
    FRAGMENTED = "FRAGMENTED"
    WOULD_EXCEED_RESERVATION = "WOULD_EXCEED_RESERVATION"
    NO_FREE_CAPACITY = "NO_FREE_CAPACITY"


WAIT_SENTENCES: dict[WaitReason, str] = {
    WaitReason.FROZEN: "the queue is frozen",
    WaitReason.DEPENDENCY: "it waits for another job to end",
    WaitReason.OUTSIDE_WINDOW: "the policy's window is closed",
    WaitReason.BUDGET_EXHAUSTED: "the policy's budget for this period is used up",
    WaitReason.AT_ARRAY_LIMIT: "as many elements of its array run as may at once",
    WaitReason.WAITING_FOR_PREEMPTION: "preempted jobs are saving their work and leaving for it",
    WaitReason.AT_POLICY_LIMIT: "the policy is at its limit",
    WaitReason.AT_TENANT_LIMIT: "the tenant is at its limit in this pool",
    WaitReason.RESERVED_SHARE_BUSY: "a non-preemptible job runs inside the reservation only, and that is in use",
    WaitReason.MAINTENANCE: "nodes are in maintenance, or will be before it would have ended",
    WaitReason.VICTIMS_PROTECTED: "the jobs that could yield have not had their minimum run time",
    WaitReason.KEPT_FOR_LARGER_JOB: "free units are kept for a job that has waited longer",
    WaitReason.BEHIND_HIGHER_RANK: "a job that ranks higher goes first",
    WaitReason.NO_HEALTHY_NODE: "no healthy node of the pool could take it",
    WaitReason.WAITING_FOR_CAPACITY: "the pool is growing",
    WaitReason.FRAGMENTED: "enough is free in total, but not together on a node, a device or in a topology domain",
    WaitReason.WOULD_EXCEED_RESERVATION: "taking back borrowed units would help, but it is beyond its reservation",
    WaitReason.NO_FREE_CAPACITY: "not enough is free",
}
