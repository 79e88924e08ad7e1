"""The directory of tenants, users, groups and tokens, folded from governance's own subject of the ledger, without any other service.

Governance's records form a chain: each names the digest of its predecessor, so a missing record is detected.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from headrace.bus.log import LogBroken, LogUnavailable, Message
from headrace.contracts import facts as f
from headrace.contracts.facts.fact import fact_type
from headrace.contracts.facts.records import digest
from headrace.contracts.facts.writers import GOVERNANCE, may_state_type
from headrace.contracts.transport.codec import Malformed, decode_some
from headrace.contracts.transport.subjects import ledger
from headrace.domain.fold.apply import apply
from headrace.domain.fold.installation import beyond_us
from headrace.domain.state.state import State
from headrace.identity.pii import PersonalData

SUBJECT = ledger(GOVERNANCE)
POLL_EVERY = 1.0
STORED_AFTER = 0.02
"""Seconds between the moment at which a record can be received and the moment at which it is stored."""

OF_IDENTITY = (
    f.TenantAppliedV1,
    f.TenantDeletedV1,
    f.UserAppliedV1,
    f.UserDeletedV1,
    f.UserErasedV1,
    f.GroupAppliedV1,
    f.GroupDeletedV1,
    f.MembershipClaimedV1,
    f.NodeExcludedV1,
    f.NodeUncordonedV1,
    f.TokenCreatedV1,
    f.TokenRevokedV1,
)
READ = frozenset(map(fact_type, (*OF_IDENTITY, f.InstallationLevelV1)))
"""Types of the facts that are decoded; the others only have to be governance's."""

_log = structlog.get_logger("headrace.callout")


class Source(Protocol):
    """Source of records (`bus.nats.jetstream.JetStreamLog`)."""

    async def next(self, subject: str, after: int) -> Message | None:
        """The first message on a subject after a sequence; None at the end."""


class Directory:
    """The fold of governance's records about identities. `people` decrypts the sealed personal data in them."""

    def __init__(self, people: PersonalData | None = None) -> None:
        self.state = State()
        self._people = people
        self._digest = ""

    def read(self, message: Message) -> bool:
        """Fold one record. Returns whether it changed identities. Raises LogBroken if it is not governance's next record."""
        try:
            record, types = decode_some(message.payload, READ)
        except Malformed as error:
            raise LogBroken(f"record {message.sequence} of governance cannot be read: {error}") from None
        if (
            record.by != GOVERNANCE
            or record.prev != self._digest
            or not all(may_state_type(GOVERNANCE, of_type) for of_type in types)
        ):
            raise LogBroken(f"record {message.sequence} is not governance's next: the chain of its records is broken")
        if beyond := beyond_us(record):
            raise LogBroken(f"record {message.sequence} {beyond}")
        self._digest = digest(message.payload)
        apply(self.state, record, message.sequence)
        if self._people is not None and record.facts:
            self._people.open_all(self.state)
        return any(isinstance(fact, OF_IDENTITY) for fact in record.facts)


class Follower:
    """Keeps a directory up to date. `changed` is called after each change."""

    def __init__(self, source: Source, changed: Callable[[], None], people: PersonalData | None = None) -> None:
        self.directory = Directory(people)
        self._source = source
        self._changed = changed
        self._lock = asyncio.Lock()
        self._woken = asyncio.Event()

    def wake(self) -> None:
        """Wake the follower: a record of governance was published."""
        self._woken.set()

    async def catch_up(self) -> None:
        """Read all records stored now. Raises LogUnavailable while the log cannot be reached, LogBroken if the chain is broken."""
        async with self._lock:
            changed = False
            while (message := await self._source.next(SUBJECT, self.directory.state.sequence)) is not None:
                changed = self.directory.read(message) or changed
            if changed:
                self._changed()

    async def run(self) -> None:
        """Follow until cancelled: a record is read at once when it is received, and within a second if it is not."""
        while True:
            try:
                await self.catch_up()
            except LogUnavailable as error:
                _log.warning("ledger_away", reason=str(error))
            self._woken.clear()
            try:
                async with asyncio.timeout(POLL_EVERY):
                    await self._woken.wait()
                await asyncio.sleep(STORED_AFTER)
            except TimeoutError:
                continue
