"""A stream made by hand, and an archive of it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from headrace.archive.export import export
from headrace.archive.manifest import Manifest
from headrace.bus.log import LogBroken, Message, StoredMessage
from headrace.bus.memory import MemoryLog
from headrace.contracts import facts as f
from headrace.contracts.facts.records import Record
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import ledger
from headrace.contracts.values.ids import job_key, make_job_id

JOB = job_key("acme", "alice", make_job_id(1, bytes(10)))


def at(text: str) -> int:
    """Nanoseconds of a moment."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000_000 + 123


class Stream(MemoryLog):
    """A log in memory that also hands out messages whole; the messages in `purged` are gone."""

    def __init__(self) -> None:
        super().__init__(lambda: 0)
        self.stored: list[StoredMessage] = []
        self.purged = 0

    def store(self, time: str, by: str, payload: bytes, headers: bytes = b"") -> None:
        stored = StoredMessage(len(self.stored) + 1, ledger(by), at(time), headers, payload)
        self.stored.append(stored)
        self._clock = lambda: stored.time // 1_000
        self.append_now(stored.subject, payload, None)

    def state(self, time: str, by: str, *facts: f.AnyFact) -> None:
        self.store(time, by, encode(Record(by=by, now=1, engine="test", as_of=0, facts=facts)), b"NATS/1.0\r\nA: b\r\n\r\n")

    async def read_stored(self, after: int):
        if after < self.purged:
            raise LogBroken("a gap")
        return Whole(self.stored[after:])

    async def next(self, subject: str, after: int) -> Message | None:
        return next((each.message for each in self.stored[max(after, self.purged) :] if each.subject == subject), None)

    def lose_last(self) -> None:
        """The last message was never written to the disk."""
        del self._messages[-1]

    async def purge(self, through: int) -> None:
        """Records up to there are gone."""
        self.purged = through
        await self.purge_through(through)


async def archive_of_two_months(directory: Path) -> Path:
    """An archive with a record in each of two files."""
    stream = Stream()
    stream.state("2026-10-01T00:00:00", "allocator")
    stream.state("2026-11-01T00:00:00", "allocator")
    await export(stream, directory)
    return directory


class Whole:
    """A reader of what is left."""

    def __init__(self, left: list[StoredMessage]) -> None:
        self.left = left

    async def batch(self, limit: int = 1_000, wait: float | None = None) -> list[StoredMessage]:
        batch, self.left = self.left[:limit], self.left[limit:]
        return batch

    async def close(self) -> None:
        return


@pytest.fixture
def stream() -> Stream:
    """Six records of three months; the fourth is void."""
    made = Stream()
    made.state("2026-09-30T23:59:59", "governance", f.TenantDeletedV1(author="a.b", name="old"))
    made.state("2026-10-01T00:00:00", "governance", f.UserDeletedV1(author="a.b", tenant="acme", handle="bob"))
    made.state("2026-10-01T00:00:00", "allocator", f.JobEndedV1(job=JOB, attempt=0, state="cancelled", cause="cancelled"))
    made.store("2026-10-31T00:00:00", "node.gpu01", b"\xffnothing")
    made.state("2026-11-01T00:00:00", "allocator")
    made.state("2026-11-02T00:00:00", "governance", f.TenantDeletedV1(author="a.b", name="older"))
    return made


@pytest.fixture
async def archived(stream: Stream, tmp_path: Path) -> Path:
    """The directory of an archive of it, of three files."""
    await export(stream, tmp_path / "archive")
    return tmp_path / "archive"


def longer(manifest: Manifest) -> list[tuple[str, int, int]]:
    """What pieces a manifest has."""
    return [(piece.month, piece.first, piece.last) for piece in manifest.pieces]
