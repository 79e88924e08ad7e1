"""What commands say of a data directory, apart from what reads it, so that a command that reads none starts sooner."""

from __future__ import annotations


class InstallationError(Exception):
    """The data directory cannot be used; one line with the way out."""
