"""The software that writes a record: `audit verify` recomputes decisions of its own version only."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def _installed() -> str:
    try:
        return version("headrace-services")
    except PackageNotFoundError:  # a checkout that is not installed
        return "0"


ENGINE = f"headrace/{_installed()}"
