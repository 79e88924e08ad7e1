"""Where a fold begins: with the newest snapshot that can be trusted and read, or with nothing.

A snapshot is trusted because the ledger says its digest: *audit* has stated it; and because it ends with the record that the ledger has
there: of several servers one may have told *audit* something else. Its name says what has to be known before it is read, so that looking
for one reads one. Whatever is wrong with one is told, and the one before it is taken.
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
from headrace.domain.model.state import State
from headrace.domain.snapshots import snapshot

if TYPE_CHECKING:
    from headrace.bus.nats.connection import Connection

RECORDS_LOOKED_AT = 1_000
"""Records of *audit* behind a snapshot in which it may be stated; it is one of the first."""
RETRY = 0.5
TRIES = 30
"""How often snapshots are asked for that are away while the ledger is there. Who leads their stream is agreed on in seconds; a start
that waits for ever would hang on what it can do without."""

_NAME = re.compile(r"fold-(\d{16})-(\d{16})-([0-9a-f.]+)-([0-9a-f]{16})")

_log = structlog.get_logger("headrace.snapshots")


class SnapshotName(NamedTuple):
    """What the name of a snapshot says: the record behind which it was taken, the facts folded until then, and who can read it."""

    sequence: int
    facts: int
    schema: str
    digest: str

    @classmethod
    def parse(cls, text: str) -> SnapshotName | None:
        """None where it is no snapshot's."""
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
        """Those of the installation, which `log` vouches for."""
        return cls(JetStreamObjects(connection, SNAPSHOT_BUCKET), log)

    async def names(self) -> list[SnapshotName]:
        """All there are, by sequence. Raises `LogError`."""
        return sorted(name for text in await self.objects.names() if (name := SnapshotName.parse(text)) is not None)

    async def facts_until(self, sequence: int) -> int:
        """How many facts lie up to the record behind which one was taken; 0 for 0, without asking anybody. Raises `LogError`."""
        return next((name.facts for name in await self.names() if name.sequence == sequence), 0) if sequence else 0

    async def ledger_is_there(self) -> bool:
        """Whether the ledger answers. Raises `LogRefused`."""
        try:
            await self._log.tip()
        except LogUnavailable:
            return False
        return True

    async def newest(self, before: int | None = None) -> State | None:
        """The state of the newest one that is usable, and none behind the record `before`; None where there is none.

        Raises `LogUnavailable`.
        """
        names = [name for name in await self.names() if before is None or name.sequence <= before]
        return await self.first_usable(reversed(names))

    async def first_usable(self, names: Iterable[SnapshotName]) -> State | None:
        """The first of them that is usable; what is wrong with those before it is told. Raises `LogUnavailable`."""
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
        """The state of one. Raises `Unusable`, `LogUnavailable`."""
        fact = await self.stated(name)
        if fact is None:
            raise Unusable("the ledger says nothing of it")
        try:
            data = await self.objects.get(str(name))
            if sha256(data).hexdigest() != fact.digest:
                raise Unusable("its digest is not the one that the ledger says")
            state = await asyncio.to_thread(_load, data)
        except (ObjectDamaged, snapshot.SnapshotError) as error:
            raise Unusable(str(error)) from error
        if state.sequence != fact.sequence:
            raise Unusable(f"it holds the state behind record {state.sequence}, and says {fact.sequence}")
        if not await self.ends_as_the_ledger(state):
            raise Unusable(f"its last record, {state.sequence}, is not the one that the ledger has there")
        return state

    async def ends_as_the_ledger(self, state: State) -> bool:
        """Whether the last record that was folded is the one that the ledger has, or no longer has, there. Raises `LogError`."""
        # Not `get`: that may be answered by the server in doubt; this is answered by the leader.
        there = await self._log.following(state.sequence - 1)
        if there is None:
            raise LogUnavailable(f"the ledger does not say what stands at {state.sequence}, which has been read")
        return there.sequence > state.sequence or (there.sequence, record_digest(there.payload)) in state.writers.values()

    async def stated(self, name: SnapshotName) -> SnapshotTakenV1 | None:
        """The fact by which *audit* has stated it; None where there is none."""
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
    """What a fold begins with, however long the ledger is away meanwhile.

    Whatever keeps snapshots from being read, the ledger is there: where they alone are away they are asked for `TRIES` times.
    """
    tries, told = 0, ""
    while True:
        try:
            state = await snapshots.newest(before)
        except LogUnavailable as error:
            reason = str(error)
            tries += await snapshots.ledger_is_there()
            if tries < TRIES:
                if reason != told:
                    told = reason
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
    """Nothing becomes garbage meanwhile, so nobody looks for any."""
    collects = gc.isenabled()
    gc.disable()
    try:
        return snapshot.load(data)
    finally:
        if collects:
            gc.enable()
