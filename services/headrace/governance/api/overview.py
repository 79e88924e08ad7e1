"""Overviews: the whole installation at one moment in columns, and its changes as they happen, as the caller may see them.

Strategy: an overview is computed from the state alone, so it is the same for now and for the past. A watch sends the whole overview again
after a record has changed something, and waits between two of them for a multiple of what one costs, so that watches take a bounded part
of a core. Watchers who see the same share one computation. Each watch sends every event once, or says how many it left out.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.bus.log import LogError
from headrace.contracts.api import overview_pb2 as pb
from headrace.contracts.transport.codec import Malformed, decode_record
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.governance.api import queues
from headrace.governance.api.device_loads import loads_of
from headrace.governance.api.errors import invalid
from headrace.governance.api.history import point_in
from headrace.governance.api.messages import moment, sequence_of
from headrace.governance.api.resource_kinds import KINDS, everything, message_of
from headrace.governance.api.watch_limits import WatchLimits
from headrace.service.answering import Refused
from headrace.service.records import page
from headrace.views.audit_lines import lines_of
from headrace.views.job_index import queue_counts
from headrace.views.pseudonyms import name as shown_name
from headrace.views.shown_states import state_of
from headrace.views.tenant_views import node_state
from headrace.views.visibility import ALL_TENANTS, sees_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from headrace.contracts.facts.records import Record
    from headrace.contracts.messages.audit import AuditLine
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.state import State
    from headrace.governance.api.context import ApiContext, CallContext
    from headrace.governance.api.device_loads import LastLoads
    from headrace.views.job_index import Queue, QueueCounts

EVENTS_MAX = 200
"""Maximum events in one answer; of more the latest are sent."""
ALIVE_EVERY = 10.0
LOADS_WITHIN = 1.0
"""Seconds between two answers of a watch until loads are known for the first time."""
PAUSE, PAUSE_FACTOR = 0.15, 20
"""Minimum seconds between two answers of a watch: at least the first, and as a multiple of what the computation of one took."""


class _Computed(NamedTuple):
    sequence: int
    overview: pb.Overview
    took: float


class Overviews:
    """The service; keeps the last overview that it computed for each tenant's view."""

    def __init__(self, alive_every: float = ALIVE_EVERY, loads: LastLoads | None = None) -> None:
        self._alive_every = alive_every
        self._loads = loads
        self._limits = WatchLimits()
        self._last: dict[str, _Computed] = {}

    async def get_overview(self, request: Any, call: CallContext) -> pb.Overview:
        """The installation now, or at the record or time `at`."""
        backend, tenant = call.backend, call.tenant
        if not request.at:
            found = pb.Overview()
            found.CopyFrom(self._now(backend, tenant).overview)
            return found
        point = point_in(request.at, "at")
        state, tip = await backend.past_queries.at(point, tenant)
        found = await backend.past_queries.run(_past_overview, state, tenant, max(state.now, point.at))
        found.tip = str(tip)
        return found

    async def watch_overview(self, request: Any, call: CallContext) -> AsyncIterator[pb.OverviewChange]:
        """The overview and its changes, until the caller ends the call."""
        backend, tenant = call.backend, call.tenant
        sent = sequence_of(request.since, "since") if request.since else backend.recent.oldest
        if sent > backend.state.sequence:
            raise invalid("since", f"the ledger ends with record {backend.state.sequence}")
        with self._limits.one(call.caller):
            shown, sent_loads = -1, None
            while True:
                change = pb.OverviewChange(time=moment(backend.now()))
                records = await _records_after(backend, sent)
                computed = self._now(backend, tenant)
                loads = self._loads.last(call) if self._loads is not None else None
                if loads is not None and (loads is not sent_loads or computed.sequence != shown):
                    change.loads.CopyFrom(loads_of(loads, computed.overview))
                    sent_loads = loads
                if computed.sequence != shown:
                    change.overview.CopyFrom(computed.overview)
                    shown = computed.sequence
                lines = [line for sequence, record in records for line in lines_of(record, sequence, tenant, backend.state)]
                change.left_out = max(0, len(lines) - EVENTS_MAX)
                change.events.extend(map(_event, lines[-EVENTS_MAX:]))
                sent = records[-1][0] if records else sent
                change.sequence = str(sent)
                yield change
                await asyncio.sleep(max(PAUSE, PAUSE_FACTOR * computed.took))
                waits = LOADS_WITHIN if self._loads is not None and sent_loads is None else self._alive_every
                await _until_something_happened(backend, max(sent, shown), min(waits, self._alive_every))

    def _now(self, backend: ApiContext, tenant: str) -> _Computed:
        known, sequence = self._last.get(tenant), backend.state.sequence
        if known is not None and known.sequence == sequence:
            return known
        began = time.perf_counter()
        overview = overview_of(backend.state, backend.job_index.lines, tenant, backend.now())
        overview.tip = overview.sequence
        known = self._last[tenant] = _Computed(sequence, overview, time.perf_counter() - began)
        return known


async def _until_something_happened(backend: ApiContext, sequence: int, within: float) -> None:
    """Until there is a record after a sequence, or `within` seconds have passed."""
    if backend.state.sequence > sequence:
        return
    try:
        async with asyncio.timeout(within):
            await backend.recent.arrival()
    except TimeoutError:
        return


async def _records_after(backend: ApiContext, sequence: int) -> list[tuple[int, Record]]:
    """The records after a sequence up to what the fold has read, from memory or else from the ledger; at most a page."""
    recent = backend.recent.after(sequence)
    if recent is not None:
        return recent
    found = []
    try:
        for stored in (await page(backend.ledger, sequence)).records:
            if stored.sequence > backend.state.sequence:
                break
            try:
                found.append((stored.sequence, decode_record(stored.payload)))
            except Malformed:  # a void record, which has no events
                continue
    except LogError as error:
        raise Refused("UNAVAILABLE", f"the ledger cannot be read now: {error}") from None
    return found


def _event(line: AuditLine) -> pb.OverviewEvent:
    return pb.OverviewEvent(
        sequence=str(line.sequence),
        number=line.place,
        time=moment(line.at),
        by=line.by,
        type=line.type,
        about=line.about,
        text=line.text,
        rule=line.rule,
    )


def _past_overview(state: State, tenant: str, now: int) -> pb.Overview:
    return overview_of(state, queue_counts(state), tenant, now)


def overview_of(state: State, lines: Mapping[Queue, QueueCounts], tenant: str, now: int) -> pb.Overview:
    """The overview of a state as `tenant` may see it; `now`: microseconds since 1970, `lines`: the counts of each queue."""
    overview = pb.Overview(sequence=str(state.sequence), time=moment(state.now))
    (kind,) = (kind for kind in KINDS if kind.kind == "pool")
    pools = sorted(everything(state, kind, tenant, None), key=lambda one: one.name)
    overview.pools.extend(message_of(state, kind, one) for one in pools)  # type: ignore[misc]
    owners = sorted({owner for owner, _ in state.policies}) if tenant == ALL_TENANTS else [tenant]
    for owner in owners:
        overview.queues.extend(queues.messages(state, lines, owner, now))
    nodes = [state.nodes[name] for name in sorted(state.nodes) if sees_node(state, tenant, state.nodes[name])]
    _fill_nodes(overview.nodes, nodes, state)
    _fill_devices(overview, nodes, state, tenant)
    return overview


def _fill_nodes(columns: pb.NodeColumns, nodes: list[NodeState], state: State) -> None:
    columns.name.extend([node.name for node in nodes])
    columns.pool.extend([node.pool for node in nodes])
    columns.state.extend([node_state(state, node) for node in nodes])
    columns.model.extend([node.model for node in nodes])


def _fill_devices(overview: pb.Overview, nodes: list[NodeState], state: State, tenant: str) -> None:
    """Devices, and the shares of jobs that the tenant may see; the rest of what is used belongs to others."""
    columns = overview.devices
    devices = [device for node in nodes for device in node.devices]
    columns.node.extend([number for number, node in enumerate(nodes) for _ in node.devices])
    columns.name.extend([device.name for device in devices])
    unheld = [device.unheld if device.denies_units else device.free for device in devices]
    columns.used.extend([GPU_UNITS - units for units in unheld])
    columns.kept.extend(
        [units - device.unused if device.nominated or device.kept else 0 for device, units in zip(devices, unheld, strict=True)]
    )
    columns.unfit.extend([device.unfit for device in devices])
    holders: dict[str, JobRecord] = {}
    indexes: dict[str, int] = {}
    shares: list[tuple[int, int, int, str, int]] = []
    first = 0
    for node in nodes:
        places = {device.name: number for number, device in enumerate(node.devices, first)} if node.leases else {}
        first += len(node.devices)
        for lease in node.leases.values():
            job = lease.job
            if lease.suspended_at or tenant not in (ALL_TENANTS, job.tenant):
                continue
            holders[job.key] = job
            index = indexes.setdefault(job.key, len(indexes))
            shares += [(places[share.device], index, share.units, share.mig, share.start) for share in lease.devices]
    if shares:
        held = columns.shares
        for column, values in zip(
            (held.device, held.holder, held.units, held.mig, held.start), zip(*shares, strict=True), strict=True
        ):
            column.extend(values)  # type: ignore[attr-defined]  # the columns have different types
    _fill_holders(overview.holders, holders, state)


def _fill_holders(columns: pb.HolderColumns, jobs: dict[str, JobRecord], state: State) -> None:
    keys = [key.split(".") for key in jobs]
    columns.id.extend([job_id for _, _, job_id in keys])
    columns.display_name.extend([job.name for job in jobs.values()])
    columns.tenant.extend([tenant for tenant, _, _ in keys])
    columns.user.extend([shown_name(state, tenant, user) for tenant, user, _ in keys])
    columns.queue.extend([job.queue for job in jobs.values()])
    columns.state.extend([state_of(job) for job in jobs.values()])
    columns.since.extend([next(iter(job.leases.values())).granted_at // SECOND for job in jobs.values()])
