"""Maintenance of nodes, ahead or under way, as people may see it (R41)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.messages.explanation import MaintenanceView
from headrace.views.visibility import ALL_TENANTS

if TYPE_CHECKING:
    from headrace.domain.model.nodes import NodeState
    from headrace.domain.state.state import State


def maintenance_of(state: State, node: NodeState, tenant: str) -> MaintenanceView | None:
    """What takes a node out of service, or will; of several the first to begin. Who scheduled it, and why, is shown to the provider."""
    drain, window = state.maintenance.drains.get(node.name), state.maintenance.pools.get(node.pool)
    if drain is not None and (window is None or drain.begins < window.begins):
        by, reason = (drain.author, drain.reason) if tenant == ALL_TENANTS else ("", "")
        return MaintenanceView(kind="drain", begins=drain.begins, reason=reason, by=by)
    if window is None:
        return None
    return MaintenanceView(kind="window", begins=window.begins, ends=window.ends, reason=window.reason)
