"""Levels of isolation of jobs in containers. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from headrace.contracts.values.isolation import CONTAINED, CONTAINER, FRACTION, UNABLE, weakest

PROVED = "watchdog"
"""The level proved for containers: overruns are detected. Other limits of the engine have not been tested."""


def level_inside(level: str) -> str:
    """Return the level that a job has in a container if a process would have this one."""
    return weakest(level, PROVED)


def levels_inside(levels: Mapping[str, str], *, engine: bool, shared: bool) -> dict[str, str]:
    """Return the node's levels of containers from those of processes. `shared`: containers can use a GPU beside other jobs."""
    if not engine:
        return dict.fromkeys(CONTAINED, UNABLE)
    inside = {f"{CONTAINER}-{kind}": level_inside(level) for kind, level in levels.items()}
    return inside if shared else inside | {f"{CONTAINER}-{FRACTION}": UNABLE}
