"""What was found, first things first: each is told once, and of very many the first are kept. Pure."""

from __future__ import annotations

from headrace.contracts.audit import Finding

KEPT = 100
"""Findings that are kept; the others are counted."""


class Findings:
    """A list that takes the same place and kind once, whoever finds it first."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.count = 0
        self._told: set[tuple[str, int]] = set()

    def add(self, finding: Finding) -> None:
        """One more."""
        place = (finding.kind, finding.sequence)
        if place in self._told:
            return
        self.count += 1
        if len(self.kept) < KEPT:
            self._told.add(place)
            self.kept.append(finding)

    def touches(self, sequence: int) -> bool:
        """Whether something was found about this record, or the place before it."""
        return any(finding.sequence <= sequence <= finding.through + 1 for finding in self.kept)

    def in_order(self) -> tuple[Finding, ...]:
        """By place."""
        return tuple(sorted(self.kept, key=lambda finding: (finding.sequence, finding.through)))


def at(kind: str, sequence: int, text: str, through: int = 0) -> Finding:
    """A finding about one record, or the records up to `through`."""
    return Finding(kind=kind, sequence=sequence, through=max(sequence, through), text=text)
