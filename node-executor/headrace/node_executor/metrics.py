"""Health and metrics of an executor: its connection, its leases, and the facts that are not stored yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.health.health import Health

if TYPE_CHECKING:
    from headrace.node_executor.executor import Executor
    from headrace.node_executor.reporting.journal import Journal
    from headrace.node_executor.reporting.link import Link


def show(health: Health, link: Link, executor: Executor, journal: Journal, devices: int, engine: str) -> None:
    """Register the executor's checks and metrics with `health`."""
    health.check("nats", lambda: "" if link.is_connected else "the bus is away; jobs go on, and facts wait on the disk")
    health.check("ledger", lambda: "" if link.was_answered else "the feed has not answered yet what this node is to run")
    metrics = health.metrics
    metrics.gauge("headrace_build_info", "always 1; the label is the version of the software", lambda: {(engine,): 1}, "engine")
    metrics.gauge("headrace_nats_connected", "1 while connected to the NATS server", lambda: int(link.is_connected))
    metrics.gauge("headrace_node_leases", "leases on this node, starting and stopping ones included", lambda: executor.running)
    metrics.gauge("headrace_node_devices", "devices of this node", lambda: devices)
    metrics.gauge(
        "headrace_node_unsent_facts", "number of facts on the disk that are not in the ledger yet", lambda: len(journal.unsent)
    )
