"""How much held devices computed, from the samples of nodes: sums by minute, device and lease. Pure.

Strategy: a sample stands for the time since the node's sample before. Each lease that the fold has on the device gets its units times this
time, since the lease's own start: `held`; the part in which the load is known: `measured`; that part times the percentage: `busy`. Time
without samples (a node away, a restart of the reader) is in none of the sums, so what a lease held beyond `measured` is unknown.

Samples are not facts: they are not in the ledger, and a rebuild of the books keeps the sums of samples.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from headrace.accounting.books.rows import PLACES
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.contracts.values.ids import lease_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.accounting.books.rollups import RollupAccount
    from headrace.contracts.messages.orders import DeviceSample, Samples
    from headrace.domain.model.jobs import JobRecord, LeaseState
    from headrace.domain.model.nodes import NodeState

LONGEST = 30 * SECOND
"""Maximum time that one sample stands for; of a longer gap between two samples the rest is unknown."""

LATE = LONGEST + 5 * SECOND
"""Microseconds after the end of a minute until all its samples have arrived."""

MINUTES_MAX = 60
"""Maximum number of minutes in memory; while they cannot be written the oldest are lost, and so unknown."""


class LoadRow(NamedTuple):
    """One lease on one device in one minute (minutes since 1970), in units (1/126,000 of a GPU) times microseconds.

    `memory`: MiB in use times microseconds, over the measured time. The rest is the account of the lease.
    """

    minute: int
    node: str
    device: str
    lease: int
    held: int
    measured: int
    busy: int
    idle_held: int
    memory: int
    tenant: str
    group_name: str
    policy: str
    profile: str
    user_name: str
    service_account: bool
    pool: str


class _Sums:
    __slots__ = ("account", "busy", "held", "idle_held", "measured", "memory")

    def __init__(self, account: RollupAccount) -> None:
        self.account = account
        self.held = self.measured = self.busy = self.idle_held = self.memory = 0

    @property
    def amounts(self) -> tuple[int, int, int, int, int]:
        return self.held, self.measured, self.busy, self.idle_held, self.memory


class Utilization:
    """Sums of the minutes that are not complete. `account`: the account of a job, without its pool."""

    def __init__(self, account: Callable[[JobRecord], RollupAccount]) -> None:
        self._account = account
        self._last_seen: dict[str, int] = {}
        self._minutes: defaultdict[int, dict[tuple[str, str, int], _Sums]] = defaultdict(dict)

    def enter(self, samples: Samples, node: NodeState, at: int) -> None:
        """Add samples that arrived at `at` (microseconds since 1970)."""
        since = max(self._last_seen.get(node.name, at), at - LONGEST)
        self._last_seen[node.name] = at
        if since >= at or not node.leases:
            return
        by_lease = {sample.lease: sample for sample in samples.leases}
        by_device = _holders(node.leases.values())
        for device in samples.devices:
            holders = by_device.get(device.device, ())
            alone = len(holders) == 1
            for key, lease, units in holders:
                busy, memory = device.busy, device.memory_used
                if not alone:
                    own = by_lease.get(key)
                    busy, memory = (own.busy, own.devices.get(device.device, 0)) if own is not None else (None, 0)
                self._add(node.name, device, lease, units, busy, memory, max(since, lease.started_at), at)

    def _add(
        self,
        node: str,
        device: DeviceSample,
        lease: LeaseState,
        units: int,
        busy: int | None,
        memory: int,
        since: int,
        until: int,
    ) -> None:
        key = (node, device.device, lease.sequence * PLACES + lease.place)
        while since < until:
            minute = since // MINUTE
            if minute not in self._minutes and len(self._minutes) >= MINUTES_MAX:
                del self._minutes[min(self._minutes)]
            ends = min(until, (minute + 1) * MINUTE)
            cells = self._minutes[minute]
            sums = cells.get(key)
            if sums is None:
                sums = cells[key] = _Sums(self._account(lease.job)._replace(pool=lease.pool))
            held = units * (ends - since)
            sums.held += held
            if busy is not None:
                sums.measured += held
                sums.busy += held * max(0, min(100, busy)) // 100
                sums.memory += memory * (ends - since)
                if device.idle:
                    sums.idle_held += held
            since = ends

    def complete(self, now: int) -> list[tuple[int, list[LoadRow]]]:
        """Take the minutes for which no more samples can arrive, in order."""
        done = sorted(minute for minute in self._minutes if (minute + 1) * MINUTE + LATE <= now)
        return [(minute, _rows(minute, self._minutes.pop(minute))) for minute in done]

    def forget(self, nodes: Iterable[str]) -> None:
        """Keep the times of these nodes only."""
        known = set(nodes)
        self._last_seen = {node: at for node, at in self._last_seen.items() if node in known}


def _rows(minute: int, cells: dict[tuple[str, str, int], _Sums]) -> list[LoadRow]:
    return [
        LoadRow._make((minute, *key, *sums.amounts, *sums.account[:-1]))
        for key, sums in sorted(cells.items(), key=lambda each: each[0])
    ]


def _holders(leases: Iterable[LeaseState]) -> dict[str, list[tuple[str, LeaseState, int]]]:
    """Started leases by device, with their key in samples and their units of it; suspended ones hold no device."""
    found: defaultdict[str, dict[str, tuple[LeaseState, int]]] = defaultdict(dict)
    for lease in leases:
        if lease.started_at and not lease.suspended_at:
            key = lease_id(lease.job.key, lease.attempt, lease.rank)
            for share in lease.devices:
                _, units = found[share.device].get(key, (lease, 0))
                found[share.device][key] = (lease, units + share.units)
    return {device: [(key, *held) for key, held in holders.items()] for device, holders in found.items()}
