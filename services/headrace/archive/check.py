"""Verifies a whole archive and reports everything that is wrong with it, not only the first error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headrace.archive import manifest as manifests
from headrace.archive.archive_reader import read_piece
from headrace.archive.manifest import ArchiveBroken, Manifest

Progress = Callable[[int, int], None]


def check(directory: Path, progress: Progress = lambda _record, _last: None) -> tuple[Manifest, list[str]]:
    """The manifest, and a line for each file that is missing, cut short, changed, or not listed.

    Raises `ArchiveBroken` if the manifest itself is damaged: then the files cannot be judged.
    """
    manifest = manifests.read(directory)
    troubles: list[str] = []
    for piece in manifest.pieces:
        try:
            read_piece(directory, piece)
        except ArchiveBroken as error:
            troubles.append(str(error))
        progress(piece.last, manifest.through)
    listed = {directory / piece.path for piece in manifest.pieces}
    strange = sorted(set((directory / "ledger").glob("*/*.parquet")) - listed)
    troubles += [f"{path} is not in {manifests.FILE}: queries over all files would read it; move it away" for path in strange]
    return manifest, troubles
