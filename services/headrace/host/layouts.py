"""Which services share a process."""

from __future__ import annotations

SHARING = ("admission", "allocator", "preemption", "provisioner", "governance", "feed")
"""Services that may share a process."""
ALONE = ("accounting", "audit")
"""Services that read the ledger at a pace and a priority of their own. Audit takes snapshots of a state that nothing else touches."""

DEFAULT, TOGETHER, APART = "default", "together", "apart"

LAYOUTS: dict[str, tuple[tuple[str, ...], ...]] = {
    DEFAULT: (("admission",), ("allocator",), ("preemption",), ("governance", "feed", "provisioner")),
    TOGETHER: (SHARING,),
    APART: tuple((name,) for name in SHARING),
}
"""By layout, the services of each process; those that stand alone are left out."""


def process_name(services: tuple[str, ...]) -> str:
    """Name of the process of these services."""
    return "+".join(services)
