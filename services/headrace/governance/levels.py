"""Condition for raising the installation's level of facts: every present service and node has stated that it reads the next one. Pure.

Services announce every two seconds what they read (those before release 0.3.0 every second), nodes when they register. A node that is
away and holds nothing does not hold the level back: when it returns with an executor that is too old, its registration is void, and it is
unusable until it is updated. A new installation, without any document or job, has nothing to lose if an instance of an older release is not
seen in time: there the level is raised as soon as every expected service has announced that it reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import FIRST, PRESENCE_UNKNOWN, RELEASES, release_of
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.governance.decide import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.messages.queries import Presence
    from headrace.domain.state.state import State
    from headrace.governance.decide import Operation

PRESENT = 5.0
"""Seconds of silence after which a service counts as away; one instance of it has to be present."""
REMEMBERED = 60.0
"""Seconds for which a silent instance still counts: it may be suspended, and return with the release that it had."""
NODES_NAMED = 10


class _LastPresence(NamedTuple):
    presence: Presence
    at: float


class ServicePresence:
    """Presence of services. `expected`: services that have to be present. Times in seconds of a monotonic clock."""

    def __init__(self, expected: Iterable[str], began: float) -> None:
        self._expected = tuple(sorted(expected))
        self._began = began
        self._last_presence: dict[str, _LastPresence] = {}

    def receive(self, presence: Presence, at: float) -> None:
        """Note that an instance announced itself, or that it leaves."""
        self._last_presence.pop(presence.instance, None)
        if not presence.leaves:
            self._last_presence[presence.instance] = _LastPresence(presence, at)

    def objections(self, target: int, now: float, *, new: bool = False) -> list[str]:
        """Reasons why services do not support that level, one line each. `new`: the installation is new (`is_new`)."""
        self._last_presence = {instance: last for instance, last in self._last_presence.items() if last.at > now - REMEMBERED}
        there = {last.presence.service for last in self._last_presence.values() if last.at > now - PRESENT}
        if now - self._began < PRESENT and not (new and there.issuperset(self._expected)):
            return [PRESENCE_UNKNOWN]
        away = [f"{service} is not there" for service in self._expected if service not in there]
        old = {
            f"{last.presence.called} {_too_old(last.presence.reads)}"
            for last in self._last_presence.values()
            if last.presence.reads < target
        }
        return away + sorted(old)


def is_new(state: State) -> bool:
    """Return whether there is neither a document nor a job yet, and the level was never raised."""
    return state.terms.level == FIRST and not (state.pools or state.profiles or state.policies or state.jobs)


def nodes_too_old(state: State, target: int) -> list[str]:
    """Nodes that do not support that level, one line each."""
    old = sorted(
        node.name
        for node in state.nodes.values()
        if _reads(state, node.name) < target and (node.status == "ready" or node.leases)
    )
    named = [f"node {name} {_too_old(_reads(state, name))}" for name in old[:NODES_NAMED]]
    return named + ([f"and {len(old) - NODES_NAMED} nodes more"] if len(old) > NODES_NAMED else [])


def raising(target: int) -> Operation:
    """Operation that raises the level; without effect if it is reached already, or a node has come that does not read it."""

    def operation(state: State, _now: int) -> Decision:
        answer = ApplyAnswer(changes=(), applied=True)
        if state.terms.level >= target or nodes_too_old(state, target):
            return Decision(answer)
        return Decision(answer, (f.InstallationLevelV1(level=target, release=RELEASES[target - 1]),))

    return operation


def _reads(state: State, node: str) -> int:
    return state.terms.executors.get(node, FIRST)


def _too_old(reads: int) -> str:
    return f"reads level {reads}: it runs {release_of(reads)}"
