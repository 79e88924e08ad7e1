"""The installed release: `audit verify` recomputes decisions of its own version only."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec


def installed_version() -> str:
    try:
        return version("headrace")
    except PackageNotFoundError:  # a checkout that is not installed
        return "0"


RELEASE = installed_version()
ENGINE = f"headrace/{RELEASE}"
"""The software that writes a record."""


def has_compiled_rules() -> bool:
    """Whether the rules run as machine code; otherwise they run as plain Python, with the same decisions at about half the speed."""
    found = find_spec("headrace.domain.fold.apply")
    return found is not None and str(found.origin).endswith(tuple(EXTENSION_SUFFIXES))
