"""The shared fold, fed by messages from NATS."""

from __future__ import annotations

import time
from collections.abc import Callable

import structlog

from headrace.bus.log import LogBroken, Message
from headrace.contracts.facts.records import Record
from headrace.domain.fold.ledger import FoldedLedger, LedgerBroken
from headrace.domain.state.state import State

_log = structlog.get_logger("headrace.fold")


class LedgerFold(FoldedLedger):
    """A `FoldedLedger` that logs void records, and raises LogBroken if the ledger breaks an invariant.

    `listeners` are called with each folded record and its message; `watchers` with every message, and whether it was void.
    """

    def __init__(self, state: State | None = None) -> None:
        super().__init__(state)
        self.listeners: list[Callable[[Record, Message], None]] = []
        self.watchers: list[Callable[[Message, bool], None]] = []

    def read(self, message: Message) -> Record | None:  # type: ignore[override]  # the bus' own message has the same attributes
        """Fold one message; returns the record, or None if it is void."""
        try:
            record = super().read(message)
        except LedgerBroken as error:
            raise LogBroken(str(error)) from error
        for watch in self.watchers:
            watch(message, record is None)
        if record is None:
            _log.error("void_record", reason=self.void_reason, help="the node is set aside until an operator uncordons it")
        else:
            for listener in self.listeners:
                listener(record, message)
        return record


def wall_clock() -> int:
    """This machine's time in microseconds since 1970."""
    return time.time_ns() // 1_000
