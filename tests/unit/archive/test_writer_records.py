"""What one writer has written is found from its first record on, whatever has been purged."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headrace.archive import manifest
from headrace.archive.writer_records import BySubject
from headrace.contracts.transport.subjects import ledger

GOVERNANCE = ledger("governance")


@pytest.mark.parametrize("purged", range(7))
async def test_its_records_come_one_after_the_other(stream, archived, purged):
    manifest.write(archived, replace(manifest.read(archived), purged=purged))
    await stream.purge(purged)
    source = BySubject(stream, archived)
    for _ in range(2):  # and once more from the beginning
        found, after = [], 0
        while (message := await source.next(GOVERNANCE, after)) is not None:
            found.append(message)
            after = message.sequence
        assert found == [stream.stored[place].message for place in (0, 1, 5)]
