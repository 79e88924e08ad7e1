"""Rate limit of a node's writes to the ledger, and its exclusion for exceeding it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.facts.records import NODE_RECORD_BYTES_MAX
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.contracts.messages.tokens import TokenRole
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.governance.decide import Decision

if TYPE_CHECKING:
    from headrace.domain.state.state import State
    from headrace.governance.decide import Operation

BYTES_AT_ONCE, BYTES_PER_SECOND = 16 * 1024 * 1024, 128 * 1024
"""Burst and rate of a node's writes. A job is about 1 KiB of facts, so this allows 100 jobs a second on one node without end, and a
backlog of 60,000 facts after a partition.
"""
VOIDS_AT_ONCE, VOID_EVERY = 10, 1 * MINUTE
"""Maximum void records in a row, and the time after which one more is allowed (microseconds)."""
MIB = 1024 * 1024


class _Use(NamedTuple):
    """Used part of a node's allowance at `at` (microseconds): bytes times `SECOND`, and void records times `VOID_EVERY`."""

    at: int
    bytes: int
    voids: int


class Allowances:
    """Use of each node, by the times at which the server stored its records. Pure."""

    def __init__(self) -> None:
        self._uses: dict[str, _Use] = {}

    def record(self, node: str, size: int, at: int, *, is_void: bool) -> str:
        """Count a record; one that is too large counts as void. Returns the limit exceeded, in a few words; empty if none is."""
        use = self._uses.get(node, _Use(at, 0, 0))
        passed = max(0, at - use.at)
        used = max(0, use.bytes - passed * BYTES_PER_SECOND) + size * SECOND
        voids = max(0, use.voids - passed) + (VOID_EVERY if is_void or size > NODE_RECORD_BYTES_MAX else 0)
        self._uses[node] = _Use(max(at, use.at), used, voids)
        if voids > VOIDS_AT_ONCE * VOID_EVERY:
            largest = NODE_RECORD_BYTES_MAX // 1024
            return (
                f"more than {VOIDS_AT_ONCE} records within {VOIDS_AT_ONCE} minutes that are void or larger than {largest} KiB"
            )
        if used > BYTES_AT_ONCE * SECOND:
            return f"more than {BYTES_AT_ONCE // MIB} MiB at once and {BYTES_PER_SECOND // 1024} KiB a second after that"
        return ""

    def forget(self, node: str) -> None:
        """Reset the use of a node."""
        self._uses.pop(node, None)


def excluding(node: str, reason: str) -> Operation:
    """Operation that excludes a node; without effect if it is excluded already, or has no token."""

    def operation(state: State, _now: int) -> Decision:
        answer = ApplyAnswer(changes=(), applied=True)
        if not can_be_excluded(state, node):
            return Decision(answer)
        return Decision(answer, (f.NodeExcludedV1(node=node, reason=reason),))

    return operation


def can_be_excluded(state: State, node: str) -> bool:
    """True if a node has a valid token, which can be refused, and is not excluded."""
    tokens = state.tokens.known.values()
    has_token = any(one.role == TokenRole.NODE and one.handle == node and not one.revoked_at for one in tokens)
    return state.terms.amended and has_token and node not in state.excluded
