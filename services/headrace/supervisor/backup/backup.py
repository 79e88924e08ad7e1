"""A backup of a whole installation in one file, made while it runs or not: streams, books, archive, keys, logins, settings.

It is the installation at the moment at which the ledger was copied. The order ensures that: first the books, which may be behind the
ledger and never ahead; then the other streams, and the ledger last of them, so that every submission accepted before is in one or the
other; then the keys, which have to open the ledger's texts. The archive is not written meanwhile, so nothing is purged.

Not in it: a node's state of its jobs (which belongs to its machine), logs, and what is made again at every start.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from headrace.archive import atomic_files
from headrace.archive import manifest as manifests
from headrace.archive.export import alone
from headrace.archive.history import ARCHIVE
from headrace.archive.manifest import ArchiveBroken
from headrace.bus.nats.stream_copy import Copied, durable_streams, save
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.nats_client.connection import Connection
from headrace.supervisor.backup.backup_file import BOOKS, FILES, STREAMS, Contents, Member, member_of, pack, verify_file
from headrace.supervisor.backup.pg_dump import dump
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation

_MADE_AGAIN = frozenset({"nats", "postgres", "gateway", "nodes", "logs", "lock", "running.json", "endpoint.json"})
"""Entries of the data directory that are not files of a backup."""

Progress = Callable[[str, str], None]
"""`progress(part, what)`: one line of progress."""


async def back_up(installation: Installation, bus: Connection, dsn: str, file: Path, progress: Progress) -> Contents:
    """Write the backup, verify it, and only then give it its name. Raises `InstallationError`, `LogError`."""
    _see_new(file)
    try:
        with ExitStack() as stack:
            staging = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f".{file.name}.", dir=file.parent)))
            stack.enter_context(alone(installation.directory / ARCHIVE))
            contents = await _gather(installation, bus, dsn, staging, progress)
            part = staging / "whole"
            await asyncio.to_thread(pack, staging, contents, installation.directory, part)
            await asyncio.to_thread(verify_file, part, contents)
            part.replace(file)
    except OSError as error:
        raise InstallationError(atomic_files.unwritten(file, error)) from None
    progress("backup", f"{contents.size} bytes, every part read back")
    return contents


def damaged_members(contents: Contents, data: Path) -> list[str]:
    """Return a line for each file of the archive that the backup has with other content than archived, or not at all."""
    held = {member.name: member.digest for member in contents.members}
    try:
        pieces = manifests.read(data / ARCHIVE).pieces
    except ArchiveBroken as error:
        return [str(error)]
    return [
        f"{data / ARCHIVE / piece.path} is not what was archived: `headrace archive check` says how, and the way out"
        for piece in pieces
        if held.get(f"{FILES}/{ARCHIVE}/{piece.path}") != piece.digest
    ]


def _see_new(file: Path) -> None:
    if file.exists():
        raise InstallationError(f"{file} is there already; name another file")


async def _gather(installation: Installation, bus: Connection, dsn: str, staging: Path, progress: Progress) -> Contents:
    at = time.time_ns() // 1_000
    await asyncio.to_thread(dump, dsn, staging / BOOKS)
    progress("books", f"{(staging / BOOKS).stat().st_size} bytes")
    (staging / STREAMS).mkdir()
    names = await durable_streams(bus)
    if LEDGER_STREAM not in names:
        raise InstallationError(f"NATS has no stream {LEDGER_STREAM}: this installation has never been up")
    copies: list[Copied] = []
    for name in sorted(names, key=lambda name: (name == LEDGER_STREAM, name)):
        with (staging / STREAMS / name).open("wb") as stream:
            copies.append(await save(bus, name, stream))
        progress(name, f"{copies[-1].state.get('messages', 0)} messages through {copies[-1].last}")
    members = await asyncio.to_thread(lambda: tuple(_members(staging, installation.directory)))
    files = sum(member.name.startswith(f"{FILES}/") for member in members)
    progress("files", f"{files}: keys, logins, settings, archive")
    release = version("headrace")
    return Contents(release=release, at=at, through=copies[-1].last, streams=tuple(copies), members=members)


def _members(staging: Path, data: Path) -> Iterator[Member]:
    for path in (staging / BOOKS, *sorted((staging / STREAMS).iterdir())):
        yield member_of(str(path.relative_to(staging)), path)
    for top in sorted(data.iterdir()):
        if top.name not in _MADE_AGAIN and not top.name.startswith("."):
            for path in sorted(top.rglob("*")) if top.is_dir() else (top,):
                if path.is_file() and not path.is_symlink() and path.name != "lock" and path.name[0] != ".":
                    yield member_of(f"{FILES}/{path.relative_to(data)}", path)
