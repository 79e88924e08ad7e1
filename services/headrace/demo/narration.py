"""Output of the demo: one line for each event, in the order of the ledger."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import SECOND

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.contracts.messages.queries import FactView
    from headrace.contracts.messages.usage import UsageRow

WIDTH = 100
_QUIET = frozenset({"reclaim.opened.v1", "lease.started.v1", "preemption.settled.v1"})
"""Facts that repeat what the line before or after them says."""


def headline(text: str) -> None:
    """Print the heading of an act."""
    print(f"\n── {text} {'─' * max(0, WIDTH - len(text) - 4)}", flush=True)


def remark(text: str) -> None:
    """Print an indented comment on the act."""
    print(f"   {text}", flush=True)


class Timeline:
    """Prints the facts of all jobs, each once, with names instead of ids and seconds since the beginning."""

    def __init__(self) -> None:
        self._printed: set[tuple[int, str, str]] = set()
        self._began = 0
        self.names: dict[str, str] = {}
        """Text that is too long to read (a job's id, a directory) to the text that is shown instead."""

    def print_new(self, stories: Mapping[str, Iterable[FactView]]) -> None:
        """Print the new facts of the jobs (by name), in the order of the ledger."""
        new = [
            (fact, name)
            for name, story in stories.items()
            for fact in story
            if (fact.sequence, name, fact.text) not in self._printed
        ]
        for fact, name in sorted(new, key=lambda entry: (entry[0].sequence, entry[1])):
            self._printed.add((fact.sequence, name, fact.text))
            self._began = self._began or fact.at
            if fact.type not in _QUIET:
                self._line(fact, name)

    def _line(self, fact: FactView, name: str) -> None:
        text = fact.text
        for long, short in self.names.items():
            text = text.replace(long, short)
        rule = f"({fact.rule})" if fact.rule else ""
        print(f"{(fact.at - self._began) / SECOND:7.2f}s  {fact.by:<16} {name:<4} {text}  {rule}".rstrip(), flush=True)


def gpu_seconds(amount: str) -> str:
    """Unit-microseconds as GPU-seconds with three decimals, cut off, not rounded."""
    thousandths = int(amount) * 1_000 // (GPU_UNITS * SECOND)
    return f"{thousandths // 1_000}.{thousandths % 1_000:03d}"


def books(rows: Iterable[UsageRow]) -> None:
    """Print usage as a table: GPU-seconds per group."""
    print(f"   {'group':<10}{'GPU-seconds':>14}{'reserved':>12}{'borrowed':>12}{'lost':>10}")
    for row in rows:
        amounts = (row.total, row.reserved, row.borrowed, row.lost)
        total, reserved, borrowed, lost = map(gpu_seconds, amounts)
        print(f"   {row.group['group']:<10}{total:>14}{reserved:>12}{borrowed:>12}{lost:>10}", flush=True)
