"""The scenario's author, and the error if governance refuses what it writes."""

from __future__ import annotations

AUTHOR = "default.scenario"


class Refused(Exception):
    """Governance refuses the scenario's documents, or a deletion: a line for each reason."""
