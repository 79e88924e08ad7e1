"""What a node may write to the ledger, and when it is excluded for more. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.facts.records import NODE_RECORD_BYTES_MAX
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.contracts.messages.tokens import TokenRole
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.governance.decide import Decision

if TYPE_CHECKING:
    from headrace.domain.model.state import State
    from headrace.governance.decide import Wish

BYTES_AT_ONCE, BYTES_PER_SECOND = 16 * 1024 * 1024, 128 * 1024
"""What a node may write: a job is about 1 KiB of facts, so this is 100 jobs a second on one node for as long as it likes, and a backlog of
60,000 facts after it was cut off."""
VOIDS_AT_ONCE, VOID_EVERY = 10, 1 * MINUTE
"""So many void records in a row, and one more after each such time (microseconds)."""
MIB = 1024 * 1024


class _Use(NamedTuple):
    """How much of its allowance a node had used up at `at` (microseconds): bytes times `SECOND`, and void records times `VOID_EVERY`."""

    at: int
    bytes: int
    voids: int


class Allowances:
    """What each node may write, by the times at which the server stored it. Pure."""

    def __init__(self) -> None:
        self._uses: dict[str, _Use] = {}

    def heard(self, node: str, size: int, at: int, *, is_void: bool) -> str:
        """Note a record; one that is too large counts as a void one. Returns what is too much, in a few words; empty where nothing is."""
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
        """Begin anew with a node."""
        self._uses.pop(node, None)


def excluding(node: str, reason: str) -> Wish:
    """The wish that a node be kept out; nothing where it is already, or has no token."""

    def wish(state: State, _now: int) -> Decision:
        answer = ApplyAnswer(changes=(), applied=True)
        if not can_be_excluded(state, node):
            return Decision(answer)
        return Decision(answer, (f.NodeExcludedV1(node=node, reason=reason),))

    return wish


def can_be_excluded(state: State, node: str) -> bool:
    """Whether a node has a token that counts, so that it can be refused, and is let in."""
    tokens = state.tokens.known.values()
    has_token = any(one.role == TokenRole.NODE and one.handle == node and not one.revoked_at for one in tokens)
    return state.terms.amended and has_token and node not in state.excluded
