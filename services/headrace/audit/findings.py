"""Findings of a verification: each is recorded once, and of very many the first are kept. Pure."""

from __future__ import annotations

from headrace.contracts.messages.audit import Finding

KEPT = 100
"""Maximum number of findings that are kept; further ones are counted."""


class AuditFindings:
    """List of findings without duplicates of place and kind."""

    def __init__(self) -> None:
        self.kept: list[Finding] = []
        self.count = 0
        self.damages = 0
        """Number of findings of damaged records; wrong decisions do not count."""
        self._places: set[tuple[str, int]] = set()

    def add(self, finding: Finding) -> None:
        """Add a finding; adjacent ranges of removed sealed records are merged."""
        place = (finding.kind, finding.sequence)
        if place in self._places:
            return
        last = self.kept[-1] if self.kept else None
        if (
            last is not None
            and last == gone_records(last.sequence, last.through)
            and finding == gone_records(last.through + 1, finding.through)
        ):
            self.kept[-1] = gone_records(last.sequence, finding.through)
            return
        self.count += 1
        self.damages += finding.kind != "decision"
        if len(self.kept) < KEPT:
            self._places.add(place)
            self.kept.append(finding)

    def touches(self, sequence: int) -> bool:
        """True if there is a finding about this record, or the place before it."""
        return any(finding.sequence <= sequence <= finding.through + 1 for finding in self.kept)

    def in_order(self) -> tuple[Finding, ...]:
        """Findings ordered by place."""
        return tuple(sorted(self.kept, key=lambda finding: (finding.sequence, finding.through)))


def at(kind: str, sequence: int, text: str, through: int = 0) -> Finding:
    """A finding about one record, or the records up to `through`."""
    return Finding(kind=kind, sequence=sequence, through=max(sequence, through), text=text)


def gone_records(first: int, last: int) -> Finding:
    """Finding that sealed records are missing."""
    records = f"record {first}, which was sealed, is" if first == last else f"records {first} to {last}, which were sealed, are"
    return at("removed", first, f"{records} gone", last)
