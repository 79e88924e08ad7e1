"""Receives the samples of nodes, adds complete minutes to the tables of loads, and answers who uses GPUs now.

Samples are published and not stored. What arrives while this process is away is unknown, as is what arrives while PostgreSQL is away for
more than an hour.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from headrace.accounting.books.row_mapping import account_of, service_accounts
from headrace.accounting.books.utilization import Utilization
from headrace.accounting.storage import load_store
from headrace.contracts.messages.orders import Samples
from headrace.contracts.messages.utilization import IdleHolder, IdleNode, NodeLoad, UtilizationAnswer
from headrace.contracts.transport.codec import Malformed, decode
from headrace.contracts.transport.subjects import telemetry
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.domain.state.idleness import idle_since, is_idle
from headrace.views.pseudonyms import name
from headrace.views.tenant_views import node_state
from headrace.views.visibility import ALL_TENANTS, sees_node

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.aio.msg import Msg

    from headrace.accounting.books.rollups import RollupAccount
    from headrace.accounting.storage.database import Database
    from headrace.contracts.messages.orders import DeviceSample
    from headrace.domain.model.jobs import JobRecord, LeaseState
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.state import State

WRITE_EVERY = 10.0
SHOWN_WITHIN = MINUTE
"""Age of a sample, in microseconds, from which on it is not shown."""
UNKNOWN = -1


class Sampling:
    """The samples of all nodes. `state`: the present fold; `clock`: microseconds since 1970."""

    def __init__(self, state: Callable[[], State], database: Database, clock: Callable[[], int]) -> None:
        self._state = state
        self._database = database
        self._clock = clock
        self._loads = Utilization(self._account)
        self._last: dict[str, tuple[int, Samples]] = {}
        self._service_accounts: frozenset[tuple[str, str]] = frozenset()
        self._forgotten_at = 0
        self.received = 0
        """Number of samples so far."""

    async def receive(self, message: Msg) -> None:
        """Take a message from a node; one that is malformed, or of another node, is ignored."""
        try:
            samples = decode(message.data, Samples)
        except Malformed:
            return
        if message.subject == telemetry(samples.node, "samples"):
            self.enter(samples)

    def enter(self, samples: Samples) -> None:
        """Add samples that have just arrived."""
        node = self._state().nodes.get(samples.node)
        if node is not None:
            at = self._clock()
            self.received += 1
            self._last[node.name] = (at, samples)
            self._loads.enter(samples, node, at)

    async def run(self) -> None:
        """Write complete minutes until cancelled."""
        while True:
            await asyncio.sleep(WRITE_EVERY)
            await self.write()

    async def write(self) -> None:
        """Write the minutes that are complete, and once an hour delete what is old."""
        now, state = self._clock(), self._state()
        self._service_accounts = service_accounts(state)
        for minute, rows in self._loads.complete(now):
            await self._database.run(partial(load_store.add, minute=minute, rows=rows))
        if now - self._forgotten_at >= HOUR:
            self._forgotten_at = now
            self._last = {node: last for node, last in self._last.items() if node in state.nodes}
            self._loads.forget(state.nodes)
            await self._database.run(partial(load_store.forget, now=now))

    def _account(self, job: JobRecord) -> RollupAccount:
        return account_of(job, service_account=(job.tenant, job.user) in self._service_accounts)

    def view(self, tenant: str) -> UtilizationAnswer:
        """The last samples as the tenant may see them: devices with leases of its jobs; for `ALL_TENANTS` all."""
        state, now = self._state(), self._clock()
        loads: list[NodeLoad] = []
        idle: dict[tuple[str, str], _Holding] = {}
        unknown = 0
        for node_name in sorted(self._last):
            at, samples = self._last[node_name]
            node = state.nodes.get(node_name)
            if node is None or at < now - SHOWN_WITHIN:
                continue
            holders = _holders(node, tenant)
            devices = [device for device in samples.devices if tenant == ALL_TENANTS or device.device in holders]
            if devices:
                loads.append(_load(node_name, at, devices))
            for device in devices:
                held_by = holders.get(device.device, ())
                unknown += bool(held_by) and device.busy is None
                if device.idle:
                    for lease, units in held_by:
                        idle.setdefault((lease.job.key, node_name), _Holding(lease)).add(device, units)
        return UtilizationAnswer(
            now=now,
            nodes=tuple(loads),
            holders=tuple(
                sorted((held.view(state) for held in idle.values()), key=lambda one: (-one.units, one.job, one.node))
            ),
            idle_nodes=tuple(_idle_nodes(state, tenant)),
            unknown=unknown,
        )


class _Holding:
    """The idle devices of one job on one node."""

    def __init__(self, lease: LeaseState) -> None:
        self._lease = lease
        self._devices: list[DeviceSample] = []
        self._units = 0

    def add(self, device: DeviceSample, units: int) -> None:
        self._devices.append(device)
        self._units += units

    def view(self, state: State) -> IdleHolder:
        lease, job = self._lease, self._lease.job
        return IdleHolder(
            job=job.key,
            name=job.name,
            tenant=job.tenant,
            user=name(state, job.tenant, job.user),
            policy=job.policy.document.name,
            profile=job.profile,
            pool=lease.pool,
            node=lease.node,
            devices=tuple(device.device for device in self._devices),
            units=self._units,
            held=min(device.held for device in self._devices) // SECOND,
            average=max(device.average or 0 for device in self._devices),
            idle_at=idle_since(job),
            idle_yields=is_idle(job),
        )


def _holders(node: NodeState, tenant: str) -> dict[str, list[tuple[LeaseState, int]]]:
    """The tenant's leases by device, with their units of it."""
    found: defaultdict[str, list[tuple[LeaseState, int]]] = defaultdict(list)
    for lease in node.leases.values():
        if not lease.suspended_at and tenant in (ALL_TENANTS, lease.job.tenant):
            for share in lease.devices:
                found[share.device].append((lease, share.units))
    return found


def _load(node: str, at: int, devices: list[DeviceSample]) -> NodeLoad:
    return NodeLoad(
        node=node,
        at=at,
        devices=tuple(device.device for device in devices),
        busy=tuple(UNKNOWN if device.busy is None else device.busy for device in devices),
        average=tuple(UNKNOWN if device.average is None else device.average for device in devices),
        memory=tuple(device.memory_used for device in devices),
        held=tuple(device.held // SECOND for device in devices),
        idle=tuple(int(device.idle) for device in devices),
    )


def _idle_nodes(state: State, tenant: str) -> list[IdleNode]:
    return [
        IdleNode(node=node.name, pool=node.pool, units=GPU_UNITS * len(node.devices))
        for _, node in sorted(state.nodes.items())
        if node.devices and not node.leases and node_state(state, node) == "ready" and sees_node(state, tenant, node)
    ]
