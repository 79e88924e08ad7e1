"""Excludes nodes that write void records, or more than their limit: every service reads what one node writes.

Strategy: governance folds the whole ledger, so it sees each node's writes. The count is in this process, not in the fold, because it
decides about no job; it starts anew with the process. When a node exceeds its limit, callout ends its connections at once, because an
append has to wait behind a flood; then the exclusion is stated as a fact, which holds until an operator uncordons the node.

Only a node with a token can be excluded. One that logs in by the installation's own configuration is named in the status.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from headrace.bus.log import LogError
from headrace.contracts.messages.tokens import PauseRequest
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import ledger, query
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import NODE_WRITER
from headrace.governance.node_allowance import Allowances, can_be_excluded, excluding
from headrace.service.answering import Refused
from headrace.service.fold import wall_clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from headrace.bus.log import Message
    from headrace.contracts.messages.queries import ApplyAnswer
    from headrace.governance.decide import Operation
    from headrace.service.deciding import Deciding

FRESH = 60 * SECOND
"""Records older than this are ignored: they were dealt with, or their node has been readmitted since."""
PAUSED_WITHIN = 1.0
_SUBJECT = ledger(NODE_WRITER)

_log = structlog.get_logger("headrace.governance")


class NodeExclusion:
    """The nodes of one installation. `decided`: judges and states an operation."""

    def __init__(self, deciding: Deciding, decided: Callable[[Operation], Awaitable[ApplyAnswer]]) -> None:
        self._deciding = deciding
        self._decided = decided
        self._allowances = Allowances()
        self._beyond: dict[str, str] = {}
        self._found = asyncio.Event()
        self._unstoppable: dict[str, int] = {}
        deciding.fold.watchers.append(self.watch)

    def watch(self, message: Message, is_void: bool) -> None:
        """Count a message of the ledger."""
        if not message.subject.startswith(_SUBJECT) or message.stamped < wall_clock() - FRESH:
            return
        node = message.subject.removeprefix(_SUBJECT)
        what = self._allowances.record(node, len(message.payload), message.stamped, is_void=is_void)
        if what and node not in self._beyond:
            self._beyond[node] = what
            self._found.set()

    def trouble(self) -> str:
        """Status text of nodes that write too much and cannot be excluded, of excluded nodes, and of those that never registered."""
        state, now = self._deciding.fold.state, wall_clock()
        out = [name for name in sorted(state.excluded) if name not in state.nodes]
        lines = [f"node {name} is excluded: {state.excluded[name]}" for name in out]
        lines += [
            f"node {name} writes too much, and logs in by the installation's own configuration: stop it"
            for name, at in sorted(self._unstoppable.items())
            if at > now - FRESH
        ]
        return "; ".join(lines)

    async def run(self) -> None:
        """Exclude nodes that exceed their limit, until cancelled."""
        await self._deciding.caught_up.wait()
        while True:
            await self._found.wait()
            self._found.clear()
            for node, what in list(self._beyond.items()):
                await self._exclude(node, what)
                self._allowances.forget(node)
                del self._beyond[node]

    async def _exclude(self, node: str, what: str) -> None:
        state = self._deciding.fold.state
        if node in state.excluded:
            return
        if not can_be_excluded(state, node):
            self._unstoppable[node] = wall_clock()
            _log.error("node_writes_too_much", node=node, what=what, help="it has no token that could be refused: stop it")
            return
        reason = f"it wrote {what}; once its executor is in order, `headrace node uncordon {node}` lets it in"
        _log.error("node_excluded", node=node, reason=reason)
        subject = query("callout", "pause", "default", "governance")
        try:
            await self._deciding.service.connection.ask(subject, encode(PauseRequest(node=node)), within=PAUSED_WITHIN)
        except LogError as error:
            _log.warning("not_disconnected_at_once", node=node, reason=str(error))
        try:
            await self._decided(excluding(node, reason))
        except Refused as error:
            _log.error("exclusion_not_stated", node=node, reason=str(error))
