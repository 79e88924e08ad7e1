"""The role of each NATS server for the ledger, as people may see it."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.bus.nats.cluster_routes import CLUSTER
from headrace.contracts.messages.installation import StreamStatus

NATS = "nats-server"
"""Name of the part of a single server; those of several are numbered."""


def roles(led: StreamStatus | None) -> dict[str, dict[str, object]]:
    """Return each server's role for the ledger (`leads`, `follows`, `away`) and its lag, by its part's name."""
    if led is None or not (led.leader or led.replicas):
        return {}
    found = {replica.name: ("away" if replica.offline else "follows", replica.lag) for replica in led.replicas or ()}
    if led.leader:
        found[led.leader] = ("leads", 0)
    return {part_of(name): {"ledger": role, "lag": lag} for name, (role, lag) in sorted(found.items())}


def summary(roles: Mapping[str, Mapping[str, object]]) -> str:
    """Format the roles for people in one line."""
    words = {"leads": "leads", "follows": "follows", "away": "is away"}
    each = (
        f"{name} {words[str(row['ledger'])]}" + ("" if row["ledger"] == "leads" else f" ({row['lag']} behind)")
        for name, row in roles.items()
    )
    return f"The ledger: {', '.join(each)}."


def part_of(name: str) -> str:
    """Return the name of the process of the server with this name."""
    return f"{NATS}{name.removeprefix(CLUSTER)}"
