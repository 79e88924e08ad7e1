"""Errors of commands on a data directory; apart from the code that reads it, so that other commands start sooner."""

from __future__ import annotations


class InstallationError(Exception):
    """The data directory cannot be used; one line with the way out."""
