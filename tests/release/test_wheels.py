"""The wheels that `make release` has made."""

from __future__ import annotations

import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHEELS = sorted((ROOT / "dist").glob("*.whl"))


def test_no_file_of_a_wheel_names_the_directory_in_which_it_was_made():
    """Else the same commit would give other bytes in another directory."""
    found = []
    for wheel in WHEELS:
        with zipfile.ZipFile(wheel) as made:
            found += [(wheel.name, name) for name in made.namelist() if str(ROOT).encode() in made.read(name)]
    assert WHEELS
    assert found == []
