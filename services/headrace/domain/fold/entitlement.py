"""Whether a record may be there at all: written by whom it says, in its turn, about what is its own (R34; `contracts.facts.writers`).

A record that fails is *void*: every fold skips it in the same way and counts it. A void record of a node harms only that node, which is
set aside; one of our own services means that a process or the log is broken, and stops the reader.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import release_of
from headrace.contracts.facts.writers import SERVICES, may_state
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import NODE_WRITER

if TYPE_CHECKING:
    from headrace.contracts.facts.records import Record
    from headrace.domain.state.state import State

CLOCK_AHEAD_MAX = 2 * SECOND
DEVICES_MAX = 1_024
DEVICE_NAME = re.compile(r"[A-Za-z0-9._:/-]{1,128}")
"""A device's name stands in every grant of it, so one bad node must not make it large, or two devices alike."""

_OF_A_LEASE = frozenset(
    {f.LeaseStartedV1, f.LeaseOverranV1, f.LeaseRungV1, f.LeaseSuspendedV1, f.LeaseResumedV1, f.LeaseEndedV1}
)
_OF_THE_NODE = (
    f.NodeRegisteredV1,
    f.NodeStoppedV1,
    f.NodeCheckedV1,
    f.DeviceDrainedV1,
    f.DeviceReturnedV1,
    f.InstanceInterruptedV1,
)


def objection(state: State, record: Record, writer: str, stamped: int) -> str:
    """Why the record is void; empty where it is good. `writer` is who the subject says wrote it, `stamped` the server's time."""
    if record.by != writer:
        return f"it says it is by {record.by}, its subject says {writer}"
    if record.now > stamped + CLOCK_AHEAD_MAX:
        return f"its time is {record.now - stamped} us ahead of the server's (R34)"
    if writer in SERVICES and record.prev != state.writers.get(writer, (0, ""))[1]:
        return "it does not name its writer's last record"
    for kind in dict.fromkeys(map(type, record.facts)):
        if not may_state(writer, kind):
            return f"{writer} may not state {f.fact_type(kind)}"
    if writer.startswith(NODE_WRITER):
        return _node_objection(state, record, writer[len(NODE_WRITER) :])
    return "" if writer in SERVICES else f"{writer} writes nothing here"


def _node_objection(state: State, record: Record, node: str) -> str:
    jobs = state.jobs
    for fact in record.facts:
        if type(fact) in _OF_A_LEASE:  # nearly all are
            job = jobs.get(fact.job)  # type: ignore[union-attr]
            lease = job.leases.get(fact.rank) if job is not None and job.attempt == fact.attempt else None  # type: ignore[union-attr]
            if lease is not None and lease.node != node:
                return f"it speaks of a lease on node {lease.node}"
            continue
        if isinstance(fact, _OF_THE_NODE) and fact.node != node:
            return f"it speaks of node {fact.node}"
        if isinstance(fact, f.NodeRegisteredV1):
            if fact.reads < state.terms.level:
                return (
                    f"its executor reads level {fact.reads}, and the installation is at level {state.terms.level}: "
                    f"install {release_of(state.terms.level)} on the node, and uncordon it"
                )
            if wrong := _wrong_hardware(fact):
                return wrong
        if isinstance(fact, f.CheckpointRegisteredV1):
            job = jobs.get(fact.job)
            if job is not None and job.attempt == fact.attempt and node not in job.attempts[-1].nodes:
                return f"it speaks of attempt {fact.attempt} of job {fact.job}, which has no lease here"
    return ""


def _wrong_hardware(fact: f.NodeRegisteredV1) -> str:
    names = {device.device for device in fact.devices}
    if len(names) < len(fact.devices) or len(names) > DEVICES_MAX or not all(map(DEVICE_NAME.fullmatch, names)):
        return f"it names its {len(fact.devices)} devices in an invalid way"
    return "it has less than no cpu or memory" if fact.cpu < 0 or fact.memory < 0 else ""
