"""Stores of NATS servers as they lie on the disk, for whoever looks at them."""

from __future__ import annotations

from pathlib import Path

from headrace.archive.blocks import Block
from headrace.bus.log import Stored

RECORDS = tuple(Stored(number, "hr.ledger.allocator", 1_000 * number, b"", b"record %d" % number) for number in range(1, 9))


def store(folder: Path, *files: tuple[Stored, ...], stream: str = "LEDGER") -> Path:
    """A stream with these records in these files."""
    directory = folder / "jetstream" / "CORE" / "streams" / stream / "msgs"
    directory.mkdir(parents=True, exist_ok=True)
    for number, records in enumerate(files, 1):
        (directory / f"{number}.blk").write_bytes(b"".join(Block(stream, number).write(records)))
    return folder


def without(sequence: int) -> tuple[Stored, ...]:
    """What a server has that left out one of the records, and stored the next in its place; the others it copied."""
    wrong = RECORDS[sequence]._replace(sequence=sequence)
    return (*RECORDS[: sequence - 1], wrong, *RECORDS[sequence:])
