"""How far the books are behind the ledger, and how fast they go on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CatchUpRate:
    """The lag of the books in records, and their speed; updated every few seconds."""

    behind: int = 0
    facts_per_s: int = 0
    facts: int = 0
    """Facts entered since the last update."""
    taken: int = 0
    """Facts entered until the last update."""

    @property
    def so_far(self) -> int:
        """Facts entered since the start."""
        return self.taken + self.facts

    def update(self, behind: int, seconds: float) -> None:
        """Update with the lag in records and the seconds since the last update."""
        self.taken += self.facts
        self.behind, self.facts_per_s, self.facts = behind, round(self.facts / seconds), 0
