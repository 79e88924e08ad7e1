"""The ledger's end beside that of its archive and its copy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from headrace.accounting.storage import ledger_copy
from headrace.accounting.storage.database import Database, DatabaseUnavailable
from headrace.archive import manifest as manifests
from headrace.archive.manifest import ArchiveBroken, ArchiveFile, Manifest
from headrace.bus.log import LogRefused
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.contracts.transport.subjects import SNAPSHOT_STREAM
from headrace.nats_client.connection import Connection
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation
from headrace.supervisor.nats.ledger_extent import check_archive, check_copy, snapshots_gone

PIECE = ArchiveFile(month="2026-01", first=1, last=90, size=1, digest="", last_digest="")


@pytest.mark.parametrize(("tip", "ends"), [(80, "ends at record 80"), (0, "is empty")])
def test_an_archive_that_has_more_than_the_stream_is_told(tmp_path, monkeypatch, tip, ends) -> None:
    monkeypatch.setattr(manifests, "read", lambda _directory: Manifest(pieces=(PIECE,)))
    with pytest.raises(InstallationError) as error:
        check_archive(Installation(tmp_path), tip)
    assert str(error.value) == (
        f"the ledger {ends}, and its archive goes to record 90: the end of the stream LEDGER was lost; "
        "`headrace repair` puts it back"
    )
    check_archive(Installation(tmp_path), 90)


def test_an_archive_that_cannot_be_read_does_not_matter_here(tmp_path, monkeypatch) -> None:
    def read(_directory: object) -> Manifest:
        raise ArchiveBroken("it is not what was written")

    monkeypatch.setattr(manifests, "read", read)
    check_archive(Installation(tmp_path), 0)


async def test_a_copy_that_has_more_than_the_stream_is_told_and_one_that_is_away_does_not_matter_here(monkeypatch) -> None:
    async def last(_connection: object) -> int:
        return 12

    async def once(self: Database, work):  # type: ignore[no-untyped-def]
        return await work(cast("object", SimpleNamespace()))

    async def away(self: Database, work):  # type: ignore[no-untyped-def]
        raise DatabaseUnavailable("not now")

    monkeypatch.setattr(ledger_copy, "last", last)
    monkeypatch.setattr(Database, "once", once)
    await check_copy("postgresql://nowhere", 12)
    with pytest.raises(InstallationError, match="ends at record 11, and the books' copy of it goes to record 12"):
        await check_copy("postgresql://nowhere", 11)
    monkeypatch.setattr(Database, "once", away)
    await check_copy("postgresql://nowhere", 0)


@pytest.mark.parametrize(
    ("ledger", "snapshots", "message"),
    [
        (True, True, ""),
        (False, False, ""),
        (True, False, f"the stream {SNAPSHOT_STREAM} is gone: every service reads the ledger from its first"),
    ],
)
async def test_snapshots_that_are_gone_beside_a_ledger_are_told(monkeypatch, ledger, snapshots, message) -> None:
    async def tip(self: JetStreamLog) -> int:
        if not (ledger if self._stream == "LEDGER" else snapshots):
            raise LogRefused("stream not found (10059)")
        return 1

    monkeypatch.setattr(JetStreamLog, "tip", tip)
    found = await snapshots_gone(cast("Connection", None))
    assert (found.startswith(message), bool(found)) == (True, bool(message))
