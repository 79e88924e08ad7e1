"""Checks whether the keys of jobs' texts exist, and states which are missing and which are restored.

An erasure is a fact. A key that is missing without one is damage: the jobs of its owner wait, and are not dispatched, until the key is
restored or the jobs are cancelled.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import structlog

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import ApplyAnswer
from headrace.domain.state.required_keys import waiting_for_key, who_needs_keys
from headrace.governance.decide import Decision
from headrace.service.answering import Refused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from headrace.bus.text_encryption import Keyring
    from headrace.contracts.facts import AnyFact
    from headrace.domain.state.state import State
    from headrace.governance.decide import Operation
    from headrace.service.deciding import Deciding

POLL_EVERY = 5.0
SHOWN = 5

_log = structlog.get_logger("headrace.governance")


def locking(missing: Collection[tuple[str, str]]) -> Operation:
    """Operation that states whose keys are missing. Locked users who are not among them are unlocked."""

    def operation(state: State, _now: int) -> Decision:
        if not state.terms.amended:
            return Decision(ApplyAnswer(changes=()))
        needed = who_needs_keys(state)
        locked = [owner for owner in sorted(missing) if owner in needed and owner not in state.locked]
        freed = [owner for owner in sorted(state.locked) if owner not in missing or not waiting_for_key(state, *owner)]
        facts: tuple[AnyFact, ...] = (
            *(f.TextsLockedV1(tenant=tenant, handle=handle) for tenant, handle in locked),
            *(f.TextsUnlockedV1(tenant=tenant, handle=handle) for tenant, handle in freed),
        )
        return Decision(ApplyAnswer(changes=(), applied=bool(facts)), facts)

    return operation


def trouble(state: State, directory: str) -> str:
    """Status text: whose keys are missing, and the way out; empty if all exist."""
    if not state.locked:
        return ""
    waiting = {owner: waiting_for_key(state, *owner) for owner in sorted(state.locked)}
    named = [f"{tenant}.{handle}.key ({waiting[tenant, handle]} jobs wait)" for tenant, handle in list(waiting)[:SHOWN]]
    more = f", and {len(waiting) - SHOWN} more" if len(waiting) > SHOWN else ""
    return (
        f"keys of what jobs run are missing in {directory}, without an erasure: {', '.join(named)}{more}; "
        "put them back from a backup, or cancel those jobs"
    )


class MissingKeys:
    """The keys of one installation. `decided`: judges and states an operation."""

    def __init__(
        self, deciding: Deciding, decided: Callable[[Operation], Awaitable[ApplyAnswer]], keys: Keyring, directory: str
    ) -> None:
        self._deciding = deciding
        self._decided = decided
        self._keys = keys
        self._directory = directory

    def trouble(self) -> str:
        """Status text; see the function `trouble`."""
        return trouble(self._deciding.fold.state, self._directory)

    async def run(self) -> None:
        """Check periodically until cancelled."""
        await self._deciding.caught_up.wait()
        while True:
            await self.check()
            await asyncio.sleep(POLL_EVERY)

    async def check(self) -> None:
        """Check once, and state what has changed."""
        state = self._deciding.fold.state
        owners = sorted(who_needs_keys(state).keys() | state.locked.keys())
        missing = await asyncio.to_thread(self._missing, owners) if owners else frozenset()
        if not (missing or state.locked) or not state.terms.amended:
            return
        if all(owner in state.locked for owner in missing) and all(
            owner in missing and waiting_for_key(state, *owner) for owner in state.locked
        ):
            return
        try:
            await self._decided(locking(missing))
        except Refused as error:
            _log.error("keys_not_told", reason=str(error))
        if problem := self.trouble():
            _log.error("keys_missing", reason=problem)

    def _missing(self, owners: list[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        return frozenset((tenant, handle) for tenant, handle in owners if self._keys.is_missing(f"{tenant}.{handle}"))
