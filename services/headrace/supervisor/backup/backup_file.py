"""A backup as a file: one tar, its contents first, every member with its digest."""

from __future__ import annotations

import os
import shutil
import tarfile
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from headrace.archive import atomic_files
from headrace.bus.nats.stream_copy import Copied
from headrace.supervisor.errors import InstallationError

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT = 1
CONTENTS, STREAMS, FILES, BOOKS = "backup.json", "streams", "files", "books.pgdump"

_PIECE = 1024 * 1024


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One file of a backup."""

    name: str
    size: int
    digest: str


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a backup. `through`: the last record of the ledger in it; `at` in microseconds since 1970."""

    format: int = FORMAT
    release: str
    at: int
    through: int
    streams: tuple[Copied, ...]
    members: tuple[Member, ...]

    @property
    def size(self) -> int:
        """Bytes of all members."""
        return sum(member.size for member in self.members)


def member_of(name: str, path: Path) -> Member:
    """Return a file as a member of that name."""
    digest = sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return Member(name=name, size=path.stat().st_size, digest=digest.hexdigest())


def pack(staging: Path, contents: Contents, data: Path, part: Path) -> None:
    """Write one tar, its contents first; only its owner may read it, because it has the keys."""
    table = staging / CONTENTS
    table.write_bytes(msgspec.json.format(msgspec.json.encode(contents)))
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        with tarfile.open(fileobj=file, mode="w") as tar:
            tar.add(table, CONTENTS)
            for member in contents.members:
                inside = member.name.removeprefix(f"{FILES}/")
                tar.add(data / inside if inside != member.name else staging / member.name, member.name)
        file.flush()
        os.fsync(file.fileno())


def open_backup(file: Path) -> Contents:
    """Return the contents of a backup. Raises `InstallationError` if the file is not a backup, or has another release's format."""
    try:
        with tarfile.open(file) as tar:
            first = tar.next()
            table = tar.extractfile(first) if first is not None and first.name == CONTENTS else None
            if table is None:
                raise InstallationError(f"{file} is not a backup of Headrace: it does not begin with {CONTENTS}")
            contents = msgspec.json.decode(table.read(), type=Contents)
    except OSError as error:
        raise InstallationError(f"{file} cannot be read: {error.strerror or error}") from None
    except (tarfile.TarError, msgspec.DecodeError, EOFError) as error:
        why = str(error).partition("\n")[0].rstrip(":")  # the rest of the message is how each compression failed
        raise InstallationError(f"{file} is not a backup of Headrace, or is damaged: {why}") from None
    if contents.format != FORMAT:
        raise InstallationError(
            f"{file} is of format {contents.format}; this release reads {FORMAT}: use that of {contents.release}"
        )
    return contents


def unpack(file: Path, contents: Contents, into: Path | None) -> None:
    """Write every member below `into` (None: only verify), each unchanged. Raises `InstallationError` that names what is damaged."""
    wanted = {member.name: member for member in contents.members}
    try:
        with tarfile.open(file) as tar:
            for entry in tar:
                member = wanted.pop(entry.name, None)
                if member is not None:
                    _unpack(tar, entry, member, into, file)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InstallationError(f"{file} is cut short or damaged: {error}") from None
    if wanted:
        raise InstallationError(f"{file} is cut short: {min(wanted)} and {len(wanted) - 1} more parts are missing")


def _unpack(tar: tarfile.TarFile, entry: tarfile.TarInfo, member: Member, into: Path | None, file: Path) -> None:
    digest, source = sha256(), tar.extractfile(entry)
    target = None if into is None else into / member.name
    if source is None or (target is not None and not target.resolve().is_relative_to(Path(into or "").resolve())):
        raise InstallationError(f"{file}: {member.name} is not a plain file of a backup")
    with ExitStack() as stack:
        written = None if target is None else stack.enter_context(_New(target, entry.mode & 0o777))
        while piece := source.read(_PIECE):
            digest.update(piece)
            if written is not None:
                written.write(piece)
    if digest.hexdigest() != member.digest:
        raise InstallationError(f"{file} is damaged: {member.name} is not what was written")


class _New:
    """A new file; a failure to write is an error of the disk, not of the backup."""

    def __init__(self, path: Path, mode: int) -> None:
        self._path = path
        with self._writing():
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write(self, piece: bytes) -> None:
        """Write all of it. Raises `InstallationError`."""
        with self._writing():
            while piece:
                piece = piece[self._file.write(piece) :]

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InstallationError(atomic_files.unwritten(self._path, error)) from None


def verify_file(part: Path, contents: Contents) -> None:
    """Read all of what was written. Raises `InstallationError`."""
    if open_backup(part) != contents:
        raise InstallationError(f"{part} does not hold what was written into it: look at that disk")
    unpack(part, contents, None)


def move(source: Path, target: Path) -> None:
    """Move what was unpacked into its place in the data directory."""
    for path in sorted(source.iterdir()):
        shutil.move(path, target / path.name)
