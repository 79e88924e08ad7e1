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
    """The archive is not what was written, or not all of it is there; one line that says what is where, and the way out."""


class ArchiveBusy(ArchiveBroken):
    """Nothing is wrong with it: another process writes it just now."""


class ArchiveFile(msgspec.Struct, frozen=True, kw_only=True):
    """One file: records `first` to `last`, `size` bytes with SHA-256 `digest`; of the last record also its own digest."""

    month: str
    first: int
    last: int
    size: int
    digest: str
    last_digest: str

    @property
    def path(self) -> str:
        """Where it lies, below the archive's directory."""
        return f"ledger/month={self.month}/{self.first:012}-{self.last:012}.parquet"


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The pieces, without a gap from record 1 on. `purged`: up to there the stream has been let go of."""

    format: int = FORMAT
    purged: int = 0
    pieces: tuple[ArchiveFile, ...] = ()

    @property
    def through(self) -> int:
        """The last record that the archive has; 0 where it has none."""
        return self.pieces[-1].last if self.pieces else 0


class _Sealed(msgspec.Struct):
    digest: str
    manifest: msgspec.Raw


def read(directory: Path) -> Manifest:
    """The manifest of an archive; an empty one where nothing has been archived. `ArchiveBroken` where it is not what was written."""
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
    """From now on the archive has these pieces."""
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
