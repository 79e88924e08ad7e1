"""The wheels that `make release` has made."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WHEELS = sorted((ROOT / "dist").glob("*.whl"))


@pytest.mark.parametrize("wheel", WHEELS, ids=lambda wheel: wheel.name)
def test_no_file_names_the_directory_in_which_it_was_made(wheel):
    """Else the same commit would give other bytes in another directory."""
    with zipfile.ZipFile(wheel) as made:
        assert [name for name in made.namelist() if str(ROOT).encode() in made.read(name)] == []
