"""What an archive has: its files in the order of the ledger, each with its records and its digest. What is not listed is not there.

DIRECTORY/manifest.json      this list, with its own digest, so that it is believed or refused as a whole
DIRECTORY/ledger/month=2026-11/000000000001-000000004096.parquet      records 1 to 4096; the month is that in which they were stored
"""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import msgspec

from headrace.archive import atomic_files
from headrace.bus.log import LogBroken

FILE = "manifest.json"
FORMAT = 1


class ArchiveBroken(LogBroken):
    """The archive is damaged or incomplete; one line that names the file, the problem, and the way out."""


class ArchiveBusy(ArchiveBroken):
    """The archive is intact, but another process writes it now."""


class ArchiveFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file: records `first` to `last`, `size` bytes with SHA-256 `digest`; `last_digest` is the digest of its last record."""

    month: str
    first: int
    last: int
    size: int
    digest: str
    last_digest: str

    @property
    def path(self) -> str:
        """Path of the file below the archive's directory."""
        return f"ledger/month={self.month}/{self.first:012}-{self.last:012}.parquet"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The files, without a gap from record 1 on. `purged`: the last record that has been purged from the stream."""

    format: int = FORMAT
    purged: int = 0
    pieces: tuple[ArchiveFile, ...] = ()

    @property
    def through(self) -> int:
        """The last record in the archive; 0 if it is empty."""
        return self.pieces[-1].last if self.pieces else 0


class _Sealed(msgspec.Struct):
    digest: str
    manifest: msgspec.Raw


def read(directory: Path) -> Manifest:
    """The manifest of an archive; an empty one if nothing has been archived. Raises `ArchiveBroken` if damaged."""
    path = directory / FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if next((directory / "ledger").glob("*/*.parquet"), None) is not None:
            raise ArchiveBroken(
                f"{path} is missing, but {directory} has files of an archive: bring it back from a backup"
            ) from None
        return Manifest()
    except OSError as error:
        raise ArchiveBroken(f"{path} cannot be read: {error.strerror or error}") from None
    try:
        sealed = msgspec.json.decode(data, type=_Sealed)
        if sha256(sealed.manifest).hexdigest() != sealed.digest:
            raise ArchiveBroken(f"{path} has been changed: its digest is not that of its content; bring it back from a backup")
        manifest = msgspec.json.decode(sealed.manifest, type=Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ArchiveBroken(f"{path} is damaged or cut short: {error}; bring it back from a backup") from None
    _check(manifest, path)
    return manifest


def write(directory: Path, manifest: Manifest) -> None:
    """Replace the manifest of an archive."""
    body = msgspec.json.encode(manifest)
    atomic_files.write(directory / FILE, msgspec.json.encode(_Sealed(sha256(body).hexdigest(), msgspec.Raw(body))) + b"\n")


def _check(manifest: Manifest, path: Path) -> None:
    if manifest.format != FORMAT:
        raise ArchiveBroken(f"{path} is of format {manifest.format}, this release reads format {FORMAT}: use the newer one")
    last = 0
    for piece in manifest.pieces:
        if piece.first != last + 1:
            what = f"has a gap: records {last + 1} to {piece.first - 1} are missing" if piece.first > last else "has an overlap"
            raise ArchiveBroken(f"{path} {what} before {piece.path}")
        last = piece.last
    if manifest.purged > last:
        raise ArchiveBroken(f"{path} says that records up to {manifest.purged} were purged, but it ends at {last}")
