"""The SQL of the books, in `sql/`: migrations by number, and named statements, each after a line `-- name: <name>`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from importlib.resources import files
from typing import NamedTuple

_NAME = re.compile(r"^-- name: ([a-z_]+)\n", re.MULTILINE)
_MIGRATION = re.compile(r"([0-9]{4})_([a-z0-9_]+)\.sql")
_FOLDER = files(__package__) / "sql"


class Migration(NamedTuple):
    """One step of the schema. `digest` shows whether the applied step is the same as this one."""

    version: int
    name: str
    text: str

    @property
    def digest(self) -> str:
        """128 bits of BLAKE2b over the text."""
        return blake2b(self.text.encode(), digest_size=16).hexdigest()


def migrations() -> list[Migration]:
    """All migrations in order of version."""
    return sorted(_migrations())


def _migrations() -> Iterator[Migration]:
    for file in _FOLDER.iterdir():
        match = _MIGRATION.fullmatch(file.name)
        if match is not None:
            yield Migration(int(match[1]), match[2], file.read_text("utf-8"))


def statements(file: str) -> dict[str, str]:
    """The named statements of `sql/<file>.sql`."""
    parts = _NAME.split((_FOLDER / f"{file}.sql").read_text("utf-8"))
    return {name: text.strip() for name, text in zip(parts[1::2], parts[2::2], strict=True)}
