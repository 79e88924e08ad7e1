"""When the installation's level of facts is raised: when everybody who is there has said that they read the next one. Pure.

Services are known by what they say once a second, nodes by how they registered. A node that is away and holds nothing holds nobody up:
when it comes back with an executor that is too old, its registration is void, and it is set aside until it is brought up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.facts.levels import FIRST, RELEASES, release_of
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.governance.decide import Decision

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.contracts.messages.queries import Presence
    from headrace.domain.model.state import State
    from headrace.governance.decide import Wish

PRESENT = 3.0
"""Seconds of silence after which a service counts as away: somebody of it has to be there."""
REMEMBERED = 60.0
"""Seconds for which an instance that has fallen silent still counts: it may be asleep, and come back as old as it was."""
NODES_NAMED = 10


class _Heard(NamedTuple):
    said: Presence
    at: float


class Attendance:
    """Who has been heard. `expected`: the services without which nothing is raised. Times in seconds of a clock that only goes on."""

    def __init__(self, expected: Iterable[str], began: float) -> None:
        self._expected = tuple(sorted(expected))
        self._began = began
        self._heard: dict[str, _Heard] = {}

    def hear(self, said: Presence, at: float) -> None:
        """An instance has said that it is there, or that it leaves."""
        self._heard.pop(said.instance, None)
        if not said.leaves:
            self._heard[said.instance] = _Heard(said, at)

    def objections(self, target: int, now: float) -> list[str]:
        """Why services keep the installation from that level, a line each."""
        self._heard = {instance: heard for instance, heard in self._heard.items() if heard.at > now - REMEMBERED}
        if now - self._began < PRESENT:
            return ["it is not known yet who is there"]
        there = {heard.said.service for heard in self._heard.values() if heard.at > now - PRESENT}
        away = [f"{service} is not there" for service in self._expected if service not in there]
        old = {
            f"{heard.said.called} {_too_old(heard.said.reads)}" for heard in self._heard.values() if heard.said.reads < target
        }
        return away + sorted(old)


def nodes_too_old(state: State, target: int) -> list[str]:
    """The nodes that keep the installation from that level, a line each."""
    old = sorted(
        node.name
        for node in state.nodes.values()
        if _reads(state, node.name) < target and (node.status == "ready" or node.leases)
    )
    named = [f"node {name} {_too_old(_reads(state, name))}" for name in old[:NODES_NAMED]]
    return named + ([f"and {len(old) - NODES_NAMED} nodes more"] if len(old) > NODES_NAMED else [])


def raising(target: int) -> Wish:
    """The wish that facts of that level may be stated; nothing where they may already, or a node has come that does not read them."""

    def wish(state: State, _now: int) -> Decision:
        answer = ApplyAnswer(changes=(), applied=True)
        if state.terms.level >= target or nodes_too_old(state, target):
            return Decision(answer)
        return Decision(answer, (f.InstallationLevelV1(level=target, release=RELEASES[target - 1]),))

    return wish


def _reads(state: State, node: str) -> int:
    return state.terms.executors.get(node, FIRST)


def _too_old(reads: int) -> str:
    return f"reads level {reads}: it runs {release_of(reads)}"
