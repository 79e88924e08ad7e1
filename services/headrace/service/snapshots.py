"""The start of a fold: the newest snapshot that can be trusted and read, or an empty state.

A snapshot is trusted because *audit* has stated its digest in the ledger, and because it ends with the record that the ledger has
there: one of several servers may have given *audit* a different one. Its name has everything needed to choose it, so that only one is
read. An unusable snapshot is logged, and the previous one is used.
"""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Iterable
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import structlog

from headrace.bus.log import Log, LogError, LogUnavailable
from headrace.bus.nats.object_store import JetStreamObjects, ObjectDamaged, Objects
from headrace.contracts.facts import SnapshotTakenV1
from headrace.contracts.facts.records import digest as record_digest
from headrace.contracts.facts.writers import AUDIT
from headrace.contracts.transport.codec import Malformed, decode_record
from headrace.contracts.transport.subjects import SNAPSHOT_BUCKET, ledger
from headrace.domain.snapshots import snapshot
from headrace.domain.state.state import State

if TYPE_CHECKING:
    from headrace.nats_client.connection import Connection

RECORDS_LOOKED_AT = 1_000
"""Number of records of *audit* after a snapshot that may contain its fact; it is one of the first."""
RETRY = 0.5
TRIES = 30
"""Maximum number of attempts to read snapshots while only the ledger answers. A stream has a leader within seconds; a service must not wait
without end for something optional.
"""

_NAME = re.compile(r"fold-(\d{16})-(\d{16})-([0-9a-f.]+)-([0-9a-f]{16})")

_log = structlog.get_logger("headrace.snapshots")


class SnapshotName(NamedTuple):
    """The name of a snapshot: the record after which it was taken, the number of facts folded, and the schema."""

    sequence: int
    facts: int
    schema: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> SnapshotName | None:
        """The name in a text; None if it is malformed."""
        found = _NAME.fullmatch(text)
        return None if found is None else cls(int(found[1]), int(found[2]), found[3], found[4])

    def __str__(self) -> str:
        return f"fold-{self.sequence:016d}-{self.facts:016d}-{self.schema}-{self.digest}"


class Unusable(Exception):
    """The snapshot cannot be trusted or read; the text says why."""


class Snapshots:
    """The snapshots of one ledger."""

    def __init__(self, objects: Objects, log: Log) -> None:
        self.objects = objects
        self._log = log

    @classmethod
    def over(cls, connection: Connection, log: Log) -> Snapshots:
        """The snapshots of the installation, verified against `log`."""
        return cls(JetStreamObjects(connection, SNAPSHOT_BUCKET), log)

    async def names(self) -> list[SnapshotName]:
        """All snapshots, by sequence. Raises LogError."""
        return sorted(name for text in await self.objects.names() if (name := SnapshotName.parse(text)) is not None)

    async def facts_until(self, sequence: int) -> int:
        """Number of facts up to the record after which a snapshot was taken; 0 for 0, without a request. Raises LogError."""
        return next((name.facts for name in await self.names() if name.sequence == sequence), 0) if sequence else 0

    async def ledger_is_there(self) -> bool:
        """True if the ledger answers. Raises LogRefused."""
        try:
            await self._log.tip()
        except LogUnavailable:
            return False
        return True

    async def newest(self, before: int | None = None) -> State | None:
        """The state of the newest usable snapshot, taken at the record `before` or earlier; None without one.

        Raises LogUnavailable.
        """
        names = [name for name in await self.names() if before is None or name.sequence <= before]
        return await self.first_usable(reversed(names))

    async def first_usable(self, names: Iterable[SnapshotName]) -> State | None:
        """The first usable snapshot; unusable ones before it are logged. Raises LogUnavailable."""
        strange: dict[str, int] = {}
        found = None
        for name in names:
            if not snapshot.readable(name.schema):
                strange[name.schema] = strange.get(name.schema, 0) + 1
                continue
            try:
                found = await self.read(name)
                break
            except Unusable as error:
                _log.error(
                    "snapshot_unusable", name=str(name), reason=str(error), help="an older one, or the whole ledger, is read"
                )
        for schema, count in strange.items():
            _log.info("snapshots_of_another_release", schema=schema, count=count, own=snapshot.SCHEMA)
        return found

    async def read(self, name: SnapshotName) -> State:
        """The state of a snapshot. Raises Unusable, LogUnavailable."""
        fact = await self.stated(name)
        if fact is None:
            raise Unusable("the ledger has no fact about it")
        try:
            data = await self.objects.get(str(name))
            if sha256(data).hexdigest() != fact.digest:
                raise Unusable("its digest differs from the one in the ledger")
            state = await asyncio.to_thread(_load, data)
        except (ObjectDamaged, snapshot.SnapshotError) as error:
            raise Unusable(str(error)) from error
        if state.sequence != fact.sequence:
            raise Unusable(f"it has the state after record {state.sequence}, and its fact says {fact.sequence}")
        if not await self.ends_as_the_ledger(state):
            raise Unusable(f"its last record, {state.sequence}, differs from the one in the ledger")
        return state

    async def ends_as_the_ledger(self, state: State) -> bool:
        """True if the last folded record is the one that the ledger has, or once had, there. Raises LogError."""
        # Not `get`: that may be answered by the server in doubt; this is answered by the leader.
        there = await self._log.following(state.sequence - 1)
        if there is None:
            raise LogUnavailable(f"the ledger does not return record {state.sequence}, which has been read")
        return there.sequence > state.sequence or (there.sequence, record_digest(there.payload)) in state.writers.values()

    async def stated(self, name: SnapshotName) -> SnapshotTakenV1 | None:
        """The fact by which *audit* has stated the snapshot; None without one."""
        after = name.sequence
        for _ in range(RECORDS_LOOKED_AT):
            message = await self._log.next(ledger(AUDIT), after)
            if message is None:
                return None
            after = message.sequence
            try:
                facts = decode_record(message.payload).facts
            except Malformed:
                continue
            for fact in facts:
                if isinstance(fact, SnapshotTakenV1) and fact.name == str(name):
                    return fact
        return None


async def beginning(snapshots: Snapshots, before: int | None = None) -> State:
    """The initial state of a fold; waits while the ledger does not answer.

    If only the snapshots do not answer, they are asked for `TRIES` times.
    """
    tries, logged = 0, ""
    while True:
        try:
            state = await snapshots.newest(before)
        except LogUnavailable as error:
            reason = str(error)
            tries += await snapshots.ledger_is_there()
            if tries < TRIES:
                if reason != logged:
                    logged = reason
                    _log.warning("snapshots_awaited", reason=reason)
                await asyncio.sleep(RETRY)
                continue
        except LogError as error:
            reason = str(error)
        else:
            if state is not None:
                _log.info("begins_with_snapshot", sequence=state.sequence)
            return state if state is not None else State()
        _log.error("snapshots_unreadable", reason=reason, help="the whole ledger is read")
        return State()


def _load(data: bytes) -> State:
    """Decode a state without garbage collection, which would find nothing."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return snapshot.load(data)
    finally:
        if collects:
            gc.enable()
