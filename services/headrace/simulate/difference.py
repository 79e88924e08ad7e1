"""Two runs from the same moment, one as it is and one with changes, side by side: as values, and as text. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.contracts.amounts import GPU_UNITS
from headrace.contracts.documents import DEFAULT_TENANT
from headrace.contracts.durations import HOUR, SECOND, format_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from headrace.simulate.outcome import Outcome, Tale

MOVED_MAX = 1_000
"""Jobs told of those whose start moved; the rest are counted."""
SHOWN_MAX = 20
"""Of those, jobs in the text."""
_GPU_SECOND = GPU_UNITS * SECOND


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """What came of some jobs. Waits, in whole seconds, are from admission to the first start of those that started for the first time.

    `waiting`: not started by the end, nor refused. GPU time in whole GPU-seconds.
    """

    starts: int = 0
    waiting: int = 0
    refused: int = 0
    wait_mean: int = 0
    wait_max: int = 0
    preemptions: int = 0
    lost: int = 0
    used: int = 0


class Sides(msgspec.Struct, frozen=True, kw_only=True):
    """The same jobs as it is, and changed."""

    before: Numbers
    after: Numbers


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A job whose first start moved. Starts in microseconds after the moment of the change; None: `..._is` says what it is instead."""

    job: str
    queue: str
    before: int | None
    after: int | None
    before_is: str
    after_is: str


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """The answer. `at`: where the two part, `span`: how long they were played from there, microseconds. `moved`: those that moved most."""

    at: int
    span: int
    assumptions: tuple[str, ...]
    total: Sides
    policies: dict[str, Sides]
    moved: tuple[Moved, ...]
    moved_in_all: int


def difference(
    before: Outcome, after: Outcome, names: tuple[Mapping[str, str], Mapping[str, str]], moment: tuple[int, int], at: int
) -> Difference:
    """What the changes make. `names`: job key to the name it is called by, on each side; `moment`: log times of parting and end."""
    here, there = names
    old = {here.get(key, key): tale for key, tale in before.tales.items()}
    new = {there.get(key, key): tale for key, tale in after.tales.items()}
    policies = sorted({tale.queue[:2] for tale in (*old.values(), *new.values())})
    moved = [row for name in {**old, **new} if (row := _moved(name, old.get(name), new.get(name), moment[0])) is not None]
    moved.sort(key=lambda row: (-_distance(row, moment[1] - moment[0]), row.job))
    return Difference(
        at=at,
        span=moment[1] - moment[0],
        assumptions=(),
        total=Sides(before=_numbers(old.values()), after=_numbers(new.values())),
        policies={
            _policy_name(policy): Sides(before=_numbers(_of(policy, old)), after=_numbers(_of(policy, new)))
            for policy in policies
        },
        moved=tuple(moved[:MOVED_MAX]),
        moved_in_all=len(moved),
    )


def _of(policy: tuple[str, str], tales: Mapping[str, Tale]) -> list[Tale]:
    return [tale for tale in tales.values() if tale.queue[:2] == policy]


def _policy_name(policy: tuple[str, str]) -> str:
    return policy[1] if policy[0] == DEFAULT_TENANT else "/".join(policy)


def _numbers(tales: Iterable[Tale]) -> Numbers:
    told = list(tales)
    waits = [tale.started_at - tale.admitted_at for tale in told if tale.started_at is not None]
    return Numbers(
        starts=sum(tale.starts for tale in told),
        waiting=sum(_is_waiting(tale) for tale in told),
        refused=sum(bool(tale.refused) for tale in told),
        wait_mean=sum(waits) // max(1, len(waits)) // SECOND,
        wait_max=max(waits, default=0) // SECOND,
        preemptions=sum(tale.preemptions for tale in told),
        lost=sum(tale.lost for tale in told) // _GPU_SECOND,
        used=sum(tale.used for tale in told) // _GPU_SECOND,
    )


def _is_waiting(tale: Tale) -> bool:
    return tale.started_at is None and not tale.had_started and not tale.over


def _moved(name: str, old: Tale | None, new: Tale | None, at: int) -> Moved | None:
    tale = old or new
    if tale is None or (old is not None and old.had_started):
        return None
    before, after = _start(old, at), _start(new, at)
    before_is, after_is = _instead(old), _instead(new)
    if (before, before_is) == (after, after_is):
        return None
    return Moved(job=name, queue="/".join(tale.queue[1:]), before=before, after=after, before_is=before_is, after_is=after_is)


def _start(tale: Tale | None, at: int) -> int | None:
    return None if tale is None or tale.started_at is None else tale.started_at - at


def _instead(tale: Tale | None) -> str:
    if tale is None:
        return "not there"
    if tale.started_at is not None:
        return "started"
    return tale.refused or ("cancelled" if tale.over else "waiting")


def _distance(row: Moved, span: int) -> int:
    """How far a start moved; to or from never is as far as the run was long."""
    before = span if row.before is None else row.before
    after = span if row.after is None else row.after
    return abs(after - before)


def as_text(found: Difference, title: str) -> str:
    """The table of policies, the jobs that moved most, and what was assumed."""
    heads = ("POLICY", "STARTS", "WAITING", "REFUSED", "MEAN WAIT", "MAX WAIT", "PREEMPTED", "LOST GPU-H", "USED GPU-H")
    rows = [[name, *_cells(sides)] for name, sides in found.policies.items()]
    rows += [["in all", *_cells(found.total)]] if len(rows) > 1 else []
    blocks = [f"{title}, played {_rough(found.span)} on. Each as it is -> with the changes.", _table(heads, rows)]
    shown = found.moved[:SHOWN_MAX]
    if shown:
        jobs = [[row.job, row.queue, _shown(row.before, row.before_is), _shown(row.after, row.after_is)] for row in shown]
        rest = found.moved_in_all - len(shown)
        more = f"\nand {rest} more; --json names the first {MOVED_MAX}" if rest else ""
        blocks.append(_table(("JOB", "QUEUE", "STARTS", "WITH THE CHANGES"), jobs) + more)
    else:
        blocks.append("No start moves.")
    blocks += [f"Assumed: {'; '.join(found.assumptions)}."] if found.assumptions else []
    return "\n\n".join(blocks)


def _cells(sides: Sides) -> list[str]:
    before, after = sides.before, sides.after
    return [
        _cell(str(before.starts), str(after.starts)),
        _cell(str(before.waiting), str(after.waiting)),
        _cell(str(before.refused), str(after.refused)),
        _cell(_rough(before.wait_mean * SECOND), _rough(after.wait_mean * SECOND)),
        _cell(_rough(before.wait_max * SECOND), _rough(after.wait_max * SECOND)),
        _cell(str(before.preemptions), str(after.preemptions)),
        _cell(_hours(before.lost), _hours(after.lost)),
        _cell(_hours(before.used), _hours(after.used)),
    ]


def _cell(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _hours(gpu_seconds: int) -> str:
    """With two decimals, by whole numbers."""
    hundredths = gpu_seconds * 100 * SECOND // HOUR
    return f"{hundredths // 100}.{hundredths % 100:02}"


def _shown(start: int | None, instead: str) -> str:
    return instead if start is None else f"after {_rough(start)}"


def _rough(span: int) -> str:
    """To the second."""
    return format_duration(span - span % SECOND) if span >= SECOND else "0s"


def _table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [list(heads), *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def called(key: str) -> str:
    """How a job is shown that has no name in a file: `user.id`, with its tenant where that is not the default one."""
    return key.removeprefix(f"{DEFAULT_TENANT}.")
