"""Appends facts of *audit*. They do not depend on what others state meanwhile, so it need not read up to the tip first."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from headrace.bus.log import LogUnavailable, WrongLast
from headrace.bus.loop import Fenced
from headrace.bus.writer_chain import Chain
from headrace.contracts.facts.levels import FIRST, at_level
from headrace.contracts.facts.records import digest
from headrace.contracts.facts.writers import AUDIT
from headrace.contracts.transport.subjects import ledger
from headrace.service.engine_version import ENGINE

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.bus.log import Log
    from headrace.contracts.facts import AnyFact

RETRY = 0.5


class LedgerWriter:
    """Writer shared by all tasks of this process: its records are one chain.

    `level`: what may be stated (`contracts.facts.levels`).
    """

    def __init__(self, log: Log, level: Callable[[], int] = lambda: FIRST) -> None:
        self._log = log
        self._level = level
        self._chain: Chain | None = None
        self._turn = asyncio.Lock()

    async def state(self, facts: tuple[AnyFact, ...], as_of: int, now: int, cause: str = "") -> int:
        """Append facts in one record and return its sequence. `now`: log time; the server's is used if it is later (R34).

        Raises `Fenced` if another process writes in this name, and `LogRefused`.
        """
        async with self._turn:
            chain = self._chain = self._chain or await self._taken_up()
            try:
                return await chain.append(max(now, await self._time()), as_of, at_level(facts, self._level()), cause)
            except WrongLast as error:
                raise Fenced(f"another instance writes as {AUDIT}: {error}") from error

    async def _taken_up(self) -> Chain:
        chain = Chain(self._log, AUDIT, ENGINE)
        while True:
            try:
                last = await self._log.last(ledger(AUDIT))
            except LogUnavailable:
                await asyncio.sleep(RETRY)
                continue
            if last is not None:
                chain.restore(last.sequence, digest(last.payload))
            return chain

    async def _time(self) -> int:
        while True:
            try:
                return await self._log.now()
            except LogUnavailable:
                await asyncio.sleep(RETRY)
