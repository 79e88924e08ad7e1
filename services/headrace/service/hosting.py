"""Runs services in one process: one follower with its fold, and each service on its own connection beside it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.bus.follower import Follower
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.process import Service, freeze_present_objects
from headrace.bus.telemetry import acting_as
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.service.fold import LedgerFold, wall_clock
from headrace.service.snapshots import Snapshots, beginning
from headrace.service.task_group import run_until_first_ends

LedgerFollower = Follower[LedgerFold]

Work = Callable[[], Awaitable[None]]

Prepare = Callable[[Service, LedgerFollower], Awaitable[Work]]
"""Adds a service's listeners to the follower, which does not run yet; returns the service's work, which runs beside it."""


async def anywhere(_service: Service) -> int | None:
    """The `start` of a service that may begin with the newest snapshot."""
    return None


class Part(NamedTuple):
    """How a service runs in a process. `start`: the last record that its first state may contain; None: any."""

    prepare: Prepare
    start: Callable[[Service], Awaitable[int | None]] = anywhere


async def host(parts: Sequence[tuple[Service, Part]]) -> None:
    """Run services on one follower until cancelled, or until one of them ends. The first one's login reads the ledger for all."""
    starts = [await part.start(service) for service, part in parts]
    first, _ = parts[0]
    ledger = ledger_of(first)
    before = min((start for start in starts if start is not None), default=None)
    state = await beginning(Snapshots.over(first.connection, ledger), before)
    follower = Follower(ledger, LedgerFold(state), wall_clock)
    works = [(service.name, await acting_as(service.name, part.prepare(service, follower))) for service, part in parts]
    follower.before_first.append(freeze_present_objects)
    await run_until_first_ends(follower.run(), *(acting_as(name, work()) for name, work in works))


def alone(part: Part) -> Callable[[Service], Awaitable[None]]:
    """The `main` of a process with this service only."""

    async def main(service: Service) -> None:
        await host([(service, part)])

    return main


def ledger_of(service: Service) -> WholeLedger:
    """The ledger with its archive, over the service's own connection."""
    return WholeLedger(JetStreamLog(service.connection, LEDGER_STREAM), service.data / ARCHIVE)
