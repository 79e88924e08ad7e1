"""What is done to the files of a real NATS server is found, and where; whether or not anything else runs on them."""

from __future__ import annotations

import asyncio
import shutil
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from headrace.audit.verify import LedgerVerifier
from headrace.audit.verify_reading import stored_messages
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.cli.main import main
from headrace.contracts.facts import LedgerSealedV1
from headrace.contracts.messages.audit import VerifyReport
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation
from headrace.supervisor.nats.store import open_store
from tests.integration.ledgers import busy
from tests.unit.audit.seals_made import seals_over

JOBS = 20
BLOCK = "jetstream/CORE/streams/LEDGER/msgs/1.blk"
HEAD = struct.Struct("<IQQH")
"""Of a message in a block: its length, its sequence, its time, the length of its subject; then the subject, headers, payload, a sum."""


class Lies(NamedTuple):
    """Where a message lies in its block."""

    begins: int
    ends: int
    subject: int


def places(block: bytes) -> list[Lies]:
    """Of every message, by its sequence from 1 on."""
    found, at = [], 0
    while at < len(block):
        length, _, _, subject = HEAD.unpack_from(block, at)
        found.append(Lies(at, at + (length & 0x7FFFFFFF), subject))
        at = found[-1].ends
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An installation that has nothing but a ledger."""
    installation = Installation(tmp_path_factory.mktemp("whole") / "data")
    installation.prepare()
    (installation.nats_store / "jetstream").mkdir()

    async def fill() -> None:
        async with open_store(installation) as connection:
            await ensure_streams(connection)
            log, lasts = JetStreamLog(connection, LEDGER_STREAM), dict[str, int]()
            for subject, payload in busy(1, JOBS).records:
                lasts[subject] = await log.append(subject, payload, lasts.get(subject, 0))

    asyncio.run(fill())
    return installation


def copied(whole: Installation, tmp_path: Path) -> Installation:
    shutil.copytree(whole.directory, tmp_path / "data")
    return Installation(tmp_path / "data")


def harmed(installation: Installation, harm: Callable[[bytearray, list[Lies]], object]) -> None:
    path = installation.nats_store / BLOCK
    block = bytearray(path.read_bytes())
    harm(block, places(bytes(block)))
    path.write_bytes(block)


async def looked_at(installation: Installation, kept: Sequence[LedgerSealedV1] = ()) -> VerifyReport:
    verifier = LedgerVerifier(None, kept=kept)
    async with open_store(installation) as connection:
        log = JetStreamLog(connection, LEDGER_STREAM)
        async for batch in stored_messages(log, 0, await log.tip()):
            verifier.take(batch)
    verifier.finish()
    return verifier.report()


async def test_every_kind_of_byte_that_is_flipped_on_the_disk_is_found_where_it_is(whole, tmp_path):
    def flip(block: bytearray, lies: list[Lies]) -> None:
        flipped = {
            6: lies[5].begins + 13,  # the time
            11: lies[10].begins + 20,  # the length of the subject
            16: lies[15].begins + HEAD.size + 2,  # the subject
            21: lies[20].begins + HEAD.size + lies[20].subject + 10,  # a header
            26: lies[25].ends - 40,  # the payload
            31: lies[30].ends - 3,  # the server's own sum
        }
        for at in flipped.values():
            block[at] ^= 1

    installation = copied(whole, tmp_path)
    harmed(installation, flip)
    report = await looked_at(installation)
    removed = [(finding.sequence, finding.through) for finding in report.findings if finding.kind == "removed"]
    assert removed == [(sequence, sequence) for sequence in (6, 11, 16, 21, 26, 31)]


async def test_what_is_cut_out_or_exchanged_on_the_disk_is_found(whole, tmp_path):
    def turn(block: bytearray, lies: list[Lies]) -> None:
        first, second = lies[30], lies[31]
        block[first.begins : second.ends] = block[second.begins : second.ends] + block[first.begins : first.ends]
        del block[lies[9].begins : lies[11].ends]

    installation = copied(whole, tmp_path)
    harmed(installation, turn)
    report = await looked_at(installation)
    assert [(finding.sequence, finding.through) for finding in report.findings if finding.kind == "removed"] == [
        (10, 12),
        (31, 31),
    ]


async def test_an_end_that_the_server_gave_up_for_one_flipped_bit_is_found_by_seals_kept_apart(whole, tmp_path):
    async with open_store(whole) as connection:
        log = JetStreamLog(connection, LEDGER_STREAM)
        messages = [message async for batch in stored_messages(log, 0, await log.tip()) for message in batch]
    seals = seals_over(messages, 10)

    def flip(block: bytearray, lies: list[Lies]) -> None:
        block[lies[32].begins + 1] ^= 1  # a length: the server takes it for the end of its file, and cuts off what is behind

    installation = copied(whole, tmp_path)
    harmed(installation, flip)
    report = await looked_at(installation, seals)
    assert [(found.kind, found.sequence, found.through) for found in report.findings] == [("removed", 33, seals[-1].last)]
    assert (await looked_at(whole, seals)).found == 0


def test_the_command_reads_the_files_where_nothing_runs(whole, capsys, monkeypatch):
    monkeypatch.setenv("HEADRACE_DATA", str(whole.directory))
    code = main(["audit", "verify", "--chains"])
    assert (code, capsys.readouterr().out.splitlines()[-1]) == (0, "Nothing found.")


async def test_where_there_is_no_ledger_nothing_is_started(tmp_path):
    installation = Installation(tmp_path / "nothing")
    with pytest.raises(InstallationError, match=".*nothing has no ledger; name the installation with --data"):
        async with open_store(installation):
            pass
