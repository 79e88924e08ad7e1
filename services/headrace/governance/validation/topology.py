"""Topology levels that profiles name exist in the pools that they lead to (R40)."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.contracts.documents.model import Pool, Profile
from headrace.domain.state.pools import PoolState
from headrace.domain.state.state import State
from headrace.domain.state.topology import topology_of
from headrace.governance.objects import ObjectName, PlacedDocument, name_of
from headrace.governance.validation.diagnostics import Diagnostics, listed


def check_topology(after: State, changed: Iterable[PlacedDocument], findings: Diagnostics) -> None:
    """Report an error for each level that a pool of a profile lacks; a warning for a level that no node of a changed pool has."""
    changed = list(changed)
    names = {name for name, _, _ in changed}
    pools = {document.name for _, document, _ in changed if isinstance(document, Pool)}
    for written in after.profiles.values():
        profile = written.document
        if isinstance(profile, Profile) and profile.topology is not None:
            for pool in profile.pools:
                if pool in after.pools and (pool in pools or name_of(profile) in names):
                    _check_levels(name_of(profile), profile, after.pools[pool], findings)
    for pool in pools:
        _warn_of_labels(after.pools[pool], findings)


def _check_levels(name: ObjectName, profile: Profile, pool: PoolState, findings: Diagnostics) -> None:
    topology, levels = profile.topology, pool.document.topology
    if topology is None:
        return
    for key, level in (("require", topology.require), ("prefer", topology.prefer)):
        if level and level not in levels:
            has = f"its topology is {listed(levels)}" if levels else "it has no topology"
            message = (
                f"pool {pool.document.name} has no topology level {level}; {has}: name one of its levels, or add this one there"
            )
            findings.error(findings.where(name, "topology", key), message)
            return
    if topology.require and topology.prefer and levels.index(topology.prefer) < levels.index(topology.require):
        wider = f"{topology.prefer} is wider than {topology.require} in pool {pool.document.name}"
        message = f"{wider}; prefer a narrower level, or leave it out"
        findings.error(findings.where(name, "topology", "prefer"), message)


def _warn_of_labels(pool: PoolState, findings: Diagnostics) -> None:
    for index, level in enumerate(pool.document.topology):
        if pool.nodes and not topology_of(pool).domains(level):
            labels = ", ".join(pool.document.topology[: index + 1])
            message = f"no node of pool {pool.document.name} has the labels {labels} yet, so it has no domain of this level"
            where = findings.where(ObjectName("pool", "", pool.document.name), "topology", index)
            findings.warn(where, "NO_NODES_YET", message)
