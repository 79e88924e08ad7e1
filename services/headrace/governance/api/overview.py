"""Overviews: the whole installation at one moment in columns, and its changes as they happen, as the caller may see them.

Strategy: an overview is computed from the state alone, so it is the same for now and for the past. A watch sends the whole overview again
after a record has changed something, and waits between two of them for a multiple of what one costs, so that watches take a bounded part
of a core. Watchers who see the same share one computation. Each watch sends every event once, or, if it was not asked for every one, says
how many it left out. The events of one record are never divided between two answers, so the sequence of an answer is where to go on.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.bus.log import LogError
from headrace.contracts.api import overview_pb2 as pb
from headrace.contracts.facts import fact_type
from headrace.contracts.transport.codec import Malformed, decode_record
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import is_token
from headrace.contracts.values.natural_order import natural_order
from headrace.governance.api import queues
from headrace.governance.api.device_loads import loads_of
from headrace.governance.api.errors import invalid, shown
from headrace.governance.api.history import point_in
from headrace.governance.api.messages import moment, sequence_of
from headrace.governance.api.past_overviews import PastOverviews
from headrace.governance.api.resource_kinds import KINDS, everything, message_of
from headrace.governance.api.watch_limits import WatchLimits
from headrace.identity.caller import Denied
from headrace.identity.roles import NOT_YOURS
from headrace.service.answering import Refused
from headrace.service.records import page
from headrace.views.audit_lines import TYPES, lines_of, tenants_of
from headrace.views.job_index import queue_counts
from headrace.views.maintenance import maintenance_of
from headrace.views.pseudonyms import name as shown_name
from headrace.views.shown_states import state_of
from headrace.views.tenant_views import node_state
from headrace.views.visibility import ALL_TENANTS, sees_node

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.records import Record
    from headrace.contracts.messages.audit import AuditLine
    from headrace.contracts.messages.utilization import UtilizationAnswer
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


VIEWS_KEPT = 16
"""Maximum number of views whose last overview is kept."""

_View = tuple[str, tuple[str, ...]]
"""The tenant that sees, and the tenants that are asked for (empty: all)."""


class _Computed(NamedTuple):
    sequence: int
    overview: pb.Overview
    took: float


class _Asked(NamedTuple):
    """What a watch is about. Each field is empty for all."""

    nouns: frozenset[str]
    tenants: tuple[str, ...]
    parts: frozenset[str]
    is_whole: bool
    """Whether every event is sent."""

    def wants(self, fact: AnyFact) -> bool:
        """True for a fact whose event is sent."""
        if self.nouns and fact_type(type(fact)).partition(".")[0] not in self.nouns:
            return False
        owners = tenants_of(fact) if self.tenants else frozenset()
        return not owners or not owners.isdisjoint(self.tenants)

    @property
    def has_devices(self) -> bool:
        """Whether devices are sent, and so their loads."""
        return not self.parts or "devices" in self.parts

    def of(self, overview: pb.Overview) -> pb.Overview:
        """The parts of an overview that are sent."""
        if not self.parts:
            return overview
        sent = pb.Overview(sequence=overview.sequence, time=overview.time, tip=overview.tip)
        for field, value in overview.ListFields():
            if field.name in self.parts and field.name in _PARTS:
                getattr(sent, field.name).MergeFrom(value)
        return sent


_PARTS = frozenset({"pools", "queues", "nodes", "devices", "holders"})
_ALWAYS = frozenset({"sequence", "time", "tip"})
_NOUNS = frozenset(name.partition(".")[0] for name in TYPES)


class Overviews:
    """The service; keeps the last overview that it computed for each tenant's view."""

    def __init__(self, alive_every: float = ALIVE_EVERY, loads: LastLoads | None = None) -> None:
        self._alive_every = alive_every
        self._loads = loads
        self._limits = WatchLimits()
        self._past = PastOverviews(_past_overview)
        self._last: OrderedDict[_View, _Computed] = OrderedDict()

    async def get_overview(self, request: Any, call: CallContext) -> pb.Overview:
        """The installation now, or at the record or time `at`."""
        backend, tenant = call.backend, call.tenant
        if not request.at:
            found = pb.Overview()
            found.CopyFrom(self._now(backend, (tenant, ())).overview)
            return found
        return await self._past.at(point_in(request.at, "at"), call)

    async def watch_overview(self, request: Any, call: CallContext) -> AsyncIterator[pb.OverviewChange]:
        """The overview and its changes, until the caller ends the call."""
        backend, tenant, asked = call.backend, call.tenant, _asked(request, call)
        usual = backend.state.sequence if asked.is_whole else backend.recent.oldest
        sent = sequence_of(request.since, "since") if request.since else usual
        await _reach(sent, call)
        with self._limits.one(call.caller):
            drawn, loads = -1, None
            while True:
                change = pb.OverviewChange(time=moment(backend.now()))
                records, through = await _records_after(backend, sent)
                if drawn < 0 or not asked.is_whole or through == backend.state.sequence:
                    computed = self._now(backend, (tenant, asked.tenants))
                    loads = self._draw(change, computed, drawn, loads, asked, call)
                    drawn = computed.sequence
                lines: list[AuditLine] = []
                for sequence, record in records:
                    if asked.is_whole and len(lines) >= EVENTS_MAX:
                        yield _filled(change, lines, sent)
                        change, lines = pb.OverviewChange(time=moment(backend.now())), []
                    lines += lines_of(record, sequence, tenant, backend.state, asked.wants)
                    sent = sequence
                if not asked.is_whole:
                    change.left_out = max(0, len(lines) - EVENTS_MAX)
                    del lines[:-EVENTS_MAX]
                sent = through
                yield _filled(change, lines, sent)
                if asked.is_whole and sent < backend.state.sequence:
                    await asyncio.sleep(0)
                    continue
                await asyncio.sleep(max(PAUSE, PAUSE_FACTOR * computed.took))
                awaits_loads = self._loads is not None and asked.has_devices and loads is None
                waits = LOADS_WITHIN if awaits_loads else self._alive_every
                await _until_something_happened(backend, max(sent, drawn), min(waits, self._alive_every))

    def _draw(
        self,
        change: pb.OverviewChange,
        computed: _Computed,
        drawn: int,
        sent: UtilizationAnswer | None,
        asked: _Asked,
        call: CallContext,
    ) -> UtilizationAnswer | None:
        """Add the overview, unless it was sent as of record `drawn`, and the loads unless they were `sent`; returns the last loads sent."""
        loads = self._loads.last(call) if self._loads is not None and asked.has_devices else None
        is_new = computed.sequence != drawn
        if is_new:
            change.overview.CopyFrom(asked.of(computed.overview))
        if loads is None or (loads is sent and not is_new):
            return sent
        change.loads.CopyFrom(loads_of(loads, computed.overview))
        return loads

    def _now(self, backend: ApiContext, view: _View) -> _Computed:
        known, sequence = self._last.get(view), backend.state.sequence
        if known is not None and known.sequence == sequence:
            return known
        began = time.perf_counter()
        tenant, only = view
        overview = overview_of(backend.state, backend.job_index.lines, tenant, backend.now(), only)
        overview.tip = overview.sequence
        known = self._last[view] = _Computed(sequence, overview, time.perf_counter() - began)
        self._last.move_to_end(view)
        if len(self._last) > VIEWS_KEPT:
            self._last.popitem(last=False)
        return known


def _asked(request: Any, call: CallContext) -> _Asked:
    """What a request asks for. Raises ApiError, and Denied for what is of other tenants."""
    nouns, parts, tenants = frozenset(request.nouns), frozenset(request.parts), tuple(sorted(set(request.tenants)))
    if unknown := sorted(nouns - _NOUNS):
        raise invalid("nouns", f"{shown(unknown[0])!r} is not known; there are {', '.join(sorted(_NOUNS))}")
    if unknown := sorted(parts - _PARTS - _ALWAYS):
        raise invalid("parts", f"{shown(unknown[0])!r} is not known; there are {', '.join(sorted(_PARTS | _ALWAYS))}")
    for tenant in tenants:
        if not is_token(tenant):
            raise invalid("tenants", "write a name: 1 to 63 of a-z, 0-9 and '-'")
        if call.tenant not in (ALL_TENANTS, tenant):
            raise Denied(NOT_YOURS)
    return _Asked(nouns, tenants, parts, request.every_event)


async def _reach(since: int, call: CallContext) -> None:
    """Wait until the fold has that record. Raises ApiError if the ledger ends before it."""
    backend = call.backend
    if since <= backend.state.sequence:
        return
    try:
        tip = await backend.ledger.tip()
    except LogError as error:
        raise Refused("UNAVAILABLE", f"the ledger cannot be read now: {error}") from None
    if since > tip:
        raise invalid("since", f"the ledger ends with record {tip}")
    await backend.reach(since, call.within)


async def _until_something_happened(backend: ApiContext, sequence: int, within: float) -> None:
    """Until there is a record after a sequence, or `within` seconds have passed."""
    if backend.state.sequence > sequence:
        return
    try:
        async with asyncio.timeout(within):
            await backend.recent.arrival()
    except TimeoutError:
        return


async def _records_after(backend: ApiContext, sequence: int) -> tuple[list[tuple[int, Record]], int]:
    """The records after a sequence up to what the fold has read, and the last of them, also if that is void.

    From memory, or else from the ledger; then at most a page.
    """
    recent = backend.recent.after(sequence)
    if recent is not None:
        return recent, backend.state.sequence
    found, through = [], sequence
    try:
        for stored in (await page(backend.ledger, sequence)).records:
            if stored.sequence > backend.state.sequence:
                break
            through = stored.sequence
            try:
                found.append((stored.sequence, decode_record(stored.payload)))
            except Malformed:  # a void record, which has no events
                continue
    except LogError as error:
        raise Refused("UNAVAILABLE", f"the ledger cannot be read now: {error}") from None
    return found, through


def _filled(change: pb.OverviewChange, lines: list[AuditLine], through: int) -> pb.OverviewChange:
    """The answer with the events up to the record `through`."""
    change.sequence = str(through)
    change.events.extend(map(_event, lines))
    return change


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


def overview_of(
    state: State, lines: Mapping[Queue, QueueCounts], tenant: str, now: int, only: tuple[str, ...] = ()
) -> pb.Overview:
    """The overview of a state as `tenant` may see it; `now`: microseconds since 1970, `lines`: the counts of each queue.

    `only`: the tenants whose queues and jobs are in it, empty: all that are seen.
    """
    overview = pb.Overview(sequence=str(state.sequence), time=moment(state.now))
    (kind,) = (kind for kind in KINDS if kind.kind == "pool")
    pools = sorted(everything(state, kind, tenant, None), key=lambda one: one.name)
    overview.pools.extend(message_of(state, kind, one) for one in pools)  # type: ignore[misc]
    owners = sorted({owner for owner, _ in state.policies}) if tenant == ALL_TENANTS else [tenant]
    for owner in owners if not only else [owner for owner in owners if owner in only]:
        overview.queues.extend(queues.messages(state, lines, owner, now))
    nodes = [
        state.nodes[name] for name in sorted(state.nodes, key=natural_order) if sees_node(state, tenant, state.nodes[name])
    ]
    _fill_nodes(overview.nodes, nodes, state)
    _fill_maintenance(overview.nodes, nodes, state, tenant)
    _fill_devices(overview, nodes, state, only or (() if tenant == ALL_TENANTS else (tenant,)))
    return overview


def _fill_nodes(columns: pb.NodeColumns, nodes: list[NodeState], state: State) -> None:
    columns.name.extend([node.name for node in nodes])
    columns.pool.extend([node.pool for node in nodes])
    columns.state.extend([node_state(state, node) for node in nodes])
    columns.model.extend([node.model for node in nodes])


def _fill_maintenance(columns: pb.NodeColumns, nodes: list[NodeState], state: State, tenant: str) -> None:
    """What takes nodes out of service, or will, for the nodes that have any."""
    views = [maintenance_of(state, node, tenant) for node in nodes]
    found = [(number, view) for number, view in enumerate(views) if view is not None]
    if not found:
        return
    ahead = columns.maintenance
    ahead.node.extend([number for number, _ in found])
    ahead.kind.extend([view.kind for _, view in found])
    ahead.begin.extend([view.begins // SECOND for _, view in found])
    ahead.end.extend([view.ends // SECOND for _, view in found])
    ahead.reason.extend([view.reason for _, view in found])
    ahead.scheduled_by.extend([view.by for _, view in found])


def _fill_devices(overview: pb.Overview, nodes: list[NodeState], state: State, tenants: tuple[str, ...]) -> None:
    """Devices, and the shares of the jobs of these tenants (empty: of all); the rest of what is used belongs to others."""
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
            if lease.suspended_at or (tenants and job.tenant not in tenants):
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
