"""Compares two runs from the same moment, one unchanged and one with changes: as values, and as text. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.accounting.books.costs import decimal
from headrace.contracts.messages.whatif import Difference, Moved, OutcomeNumbers, PoolNumbers, PoolSides, Sides
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import HOUR, SECOND, format_duration
from headrace.contracts.values.ids import DEFAULT_TENANT
from headrace.simulate.usage_cost import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from headrace.simulate.outcome import JobOutcome
    from headrace.simulate.usage_cost import Used

    _Part = tuple[list[JobOutcome], list[Used]]
    """The jobs of a group or policy, and what was used on its name."""

MOVED_MAX = 1_000
"""Maximum number of jobs listed whose start moved; the rest are counted."""
SHOWN_MAX = 20
"""Maximum number of those in the text."""
_GPU_SECOND = GPU_UNITS * SECOND


class Side(NamedTuple):
    """One of the two runs: its outcome, its use, and the name of each job, by its key."""

    job_outcomes: Mapping[str, JobOutcome]
    tally: Tally
    names: Mapping[str, str]

    def of(self, tenant: str) -> Side:
        """Return the part that a tenant may see: its own jobs, and the pools that they used. All of it if `tenant` is empty."""
        if not tenant:
            return self
        job_outcomes = {key: job_outcome for key, job_outcome in self.job_outcomes.items() if job_outcome.queue[0] == tenant}
        used = {place: used for place, used in self.tally.used.items() if place.tenant == tenant}
        pools = {place.pool for place in used}
        return Side(job_outcomes, Tally(used, {name: had for name, had in self.tally.had.items() if name in pools}), self.names)


def difference(before: Side, after: Side, moment: tuple[int, int], at: int) -> Difference:
    """Return the effect of the changes. `moment`: log times of the beginning and the end."""
    old, new = (_by_name(side) for side in (before, after))
    moved = [row for name in {**old, **new} if (row := _moved(name, old.get(name), new.get(name), moment[0])) is not None]
    moved.sort(key=lambda row: (-_distance(row, moment[1] - moment[0]), row.job))
    return Difference(
        at=at,
        span=moment[1] - moment[0],
        assumptions=(),
        total=Sides(before=numbers_of(before), after=numbers_of(after)),
        groups=_each(before, after, _group_of),
        policies=_each(before, after, _policy_of),
        pools=_pools(before.tally, after.tally),
        moved=tuple(moved[:MOVED_MAX]),
        moved_in_all=len(moved),
    )


def _by_name(side: Side) -> dict[str, JobOutcome]:
    return {side.names.get(key, key): job_outcome for key, job_outcome in side.job_outcomes.items()}


def _group_of(tenant: str, policy: str, group: str) -> str:
    """Return the policy's group, or its own name if it has no group, as in a scenario."""
    return _shown_name(tenant, group or policy)


def _policy_of(tenant: str, policy: str, _group: str) -> str:
    return _shown_name(tenant, policy)


def _shown_name(tenant: str, name: str) -> str:
    return name if tenant == DEFAULT_TENANT else f"{tenant}/{name}"


def _each(before: Side, after: Side, name_of: Callable[[str, str, str], str]) -> dict[str, Sides]:
    """Yield both sides of each group or policy, sorted by name."""
    there = [_parted(side, name_of) for side in (before, after)]
    nothing: _Part = ([], [])
    return {
        name: Sides(before=_numbers(*there[0].get(name, nothing)), after=_numbers(*there[1].get(name, nothing)))
        for name in sorted({**there[0], **there[1]})
    }


def _parted(side: Side, name_of: Callable[[str, str, str], str]) -> dict[str, _Part]:
    parts: dict[str, _Part] = {}
    for job_outcome in side.job_outcomes.values():
        parts.setdefault(name_of(*job_outcome.queue[:2], job_outcome.group), ([], []))[0].append(job_outcome)
    for place, used in side.tally.used.items():
        parts.setdefault(name_of(place.tenant, place.policy, place.group), ([], []))[1].append(used)
    return parts


def _pools(before: Tally, after: Tally) -> dict[str, PoolSides]:
    return {
        name: PoolSides(before=_pool(name, before), after=_pool(name, after)) for name in sorted({**before.had, **after.had})
    }


def _pool(name: str, tally: Tally) -> PoolNumbers:
    had, here = tally.had.get(name, 0), [used for place, used in tally.used.items() if place.pool == name]
    used = sum(one.reserved + one.borrowed for one in here)
    per_mille = 1_000 * used // had if had else 0
    return PoolNumbers(
        had=had // _GPU_SECOND,
        used=used // _GPU_SECOND,
        percent=f"{per_mille // 10}.{per_mille % 10}",
        cost=decimal(sum(one.cost for one in here)),
    )


def numbers_of(side: Side) -> OutcomeNumbers:
    """Return the totals over all jobs of one side."""
    return _numbers(list(side.job_outcomes.values()), list(side.tally.used.values()))


def _numbers(outcomes: list[JobOutcome], used: list[Used]) -> OutcomeNumbers:
    waits = sorted(
        job_outcome.started_at - job_outcome.admitted_at for job_outcome in outcomes if job_outcome.started_at is not None
    )
    return OutcomeNumbers(
        starts=sum(job_outcome.starts for job_outcome in outcomes),
        waiting=sum(_is_waiting(job_outcome) for job_outcome in outcomes),
        refused=sum(bool(job_outcome.refused) for job_outcome in outcomes),
        wait_mean=sum(waits) // max(1, len(waits)) // SECOND,
        wait_p95=waits[len(waits) * 95 // 100] // SECOND if waits else 0,
        wait_max=waits[-1] // SECOND if waits else 0,
        preemptions=sum(job_outcome.preemptions for job_outcome in outcomes),
        lost=sum(job_outcome.lost for job_outcome in outcomes) // _GPU_SECOND,
        used=sum(job_outcome.used for job_outcome in outcomes) // _GPU_SECOND,
        reserved=sum(one.reserved for one in used) // _GPU_SECOND,
        borrowed=sum(one.borrowed for one in used) // _GPU_SECOND,
        cost=decimal(sum(one.cost for one in used)),
    )


def _is_waiting(job_outcome: JobOutcome) -> bool:
    return job_outcome.started_at is None and not job_outcome.had_started and not job_outcome.over


def _moved(name: str, old: JobOutcome | None, new: JobOutcome | None, at: int) -> Moved | None:
    job_outcome = old or new
    if job_outcome is None or (old is not None and old.had_started):
        return None
    before, after = _start(old, at), _start(new, at)
    before_is, after_is = _instead(old), _instead(new)
    if (before, before_is) == (after, after_is):
        return None
    return Moved(
        job=name, queue="/".join(job_outcome.queue[1:]), before=before, after=after, before_is=before_is, after_is=after_is
    )


def _start(job_outcome: JobOutcome | None, at: int) -> int | None:
    return None if job_outcome is None or job_outcome.started_at is None else job_outcome.started_at - at


def _instead(job_outcome: JobOutcome | None) -> str:
    if job_outcome is None:
        return "not there"
    if job_outcome.started_at is not None:
        return "started"
    return job_outcome.refused or ("cancelled" if job_outcome.over else "waiting")


def _distance(row: Moved, span: int) -> int:
    """Return by how much a start moved; to or from never counts as the length of the run."""
    before = span if row.before is None else row.before
    after = span if row.after is None else row.after
    return abs(after - before)


def as_text(found: Difference, title: str) -> str:
    """Format the tables of groups and pools, the jobs that moved most, and the assumptions."""
    rows = {**found.groups, **({"in all": found.total} if len(found.groups) > 1 else {})}
    blocks = [
        f"{title}, played {_rough(found.span)} on. Each as it is -> with the changes.",
        _table(_WAIT_HEADS, [[name, *_wait_cells(sides)] for name, sides in rows.items()]),
        _table(_USE_HEADS, [[name, *_use_cells(sides)] for name, sides in rows.items()]),
        _table(_POOL_HEADS, [[name, *_pool_cells(sides)] for name, sides in found.pools.items()]),
    ]
    shown = found.moved[:SHOWN_MAX]
    if shown:
        jobs = [[row.job, row.queue, _shown(row.before, row.before_is), _shown(row.after, row.after_is)] for row in shown]
        rest = found.moved_in_all - len(shown)
        more = f"\nand {rest} more; --json names the first {MOVED_MAX}" if rest else ""
        blocks.append(_table(("JOB", "QUEUE", "STARTS", "WITH THE CHANGES"), jobs) + more)
    else:
        blocks.append("No start moves.")
    blocks += [_recorded(found.recorded, found.total.before)] if found.recorded is not None else []
    blocks += [f"Assumed: {'; '.join(found.assumptions)}."] if found.assumptions else []
    return "\n\n".join(blocks)


def _recorded(real: OutcomeNumbers, played: OutcomeNumbers) -> str:
    """Return how close the unchanged run comes to what really happened."""
    pairs = (
        ("starts", str(real.starts), str(played.starts)),
        ("mean wait", _rough(real.wait_mean * SECOND), _rough(played.wait_mean * SECOND)),
        ("preempted", str(real.preemptions), str(played.preemptions)),
        ("used GPU-h", _hours(real.used), _hours(played.used)),
    )
    numbers = ", ".join(f"{name} {was} ({again})" for name, was, again in pairs)
    return f"The ledger's figures for that time, and in brackets those of its unchanged replay: {numbers}."


_WAIT_HEADS = ("GROUP", "STARTS", "WAITING", "REFUSED", "MEAN WAIT", "95 % WAIT", "MAX WAIT", "PREEMPTED", "LOST GPU-H")
_USE_HEADS = ("GROUP", "USED GPU-H", "RESERVED", "BORROWED", "COST")
_POOL_HEADS = ("POOL", "HAS GPU-H", "USED GPU-H", "USED %", "COST")


def _wait_cells(sides: Sides) -> list[str]:
    before, after = sides.before, sides.after
    return [
        _cell(str(before.starts), str(after.starts)),
        _cell(str(before.waiting), str(after.waiting)),
        _cell(str(before.refused), str(after.refused)),
        _cell(_rough(before.wait_mean * SECOND), _rough(after.wait_mean * SECOND)),
        _cell(_rough(before.wait_p95 * SECOND), _rough(after.wait_p95 * SECOND)),
        _cell(_rough(before.wait_max * SECOND), _rough(after.wait_max * SECOND)),
        _cell(str(before.preemptions), str(after.preemptions)),
        _cell(_hours(before.lost), _hours(after.lost)),
    ]


def _use_cells(sides: Sides) -> list[str]:
    before, after = sides.before, sides.after
    return [
        _cell(_hours(before.used), _hours(after.used)),
        _cell(_hours(before.reserved), _hours(after.reserved)),
        _cell(_hours(before.borrowed), _hours(after.borrowed)),
        _cell(_money(before.cost), _money(after.cost)),
    ]


def _pool_cells(sides: PoolSides) -> list[str]:
    before, after = sides.before, sides.after
    return [
        _cell(_hours(before.had), _hours(after.had)),
        _cell(_hours(before.used), _hours(after.used)),
        _cell(before.percent, after.percent),
        _cell(_money(before.cost), _money(after.cost)),
    ]


def _money(cost: str) -> str:
    """Cut to hundredths; the exact value is in the JSON."""
    return cost[:-4]


def _cell(before: str, after: str) -> str:
    return before if before == after else f"{before} -> {after}"


def _hours(gpu_seconds: int) -> str:
    """Format with two decimals, by whole numbers."""
    hundredths = gpu_seconds * 100 * SECOND // HOUR
    return f"{hundredths // 100}.{hundredths % 100:02}"


def _shown(start: int | None, instead: str) -> str:
    return instead if start is None else f"after {_rough(start)}"


def _rough(span: int) -> str:
    """Format a span, rounded to the second."""
    return format_duration(span - span % SECOND) if span >= SECOND else "0s"


def _table(heads: tuple[str, ...], rows: list[list[str]]) -> str:
    lines = [list(heads), *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(heads))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines)


def called(key: str) -> str:
    """Return the name of a job without one in a file: `user.id`, with its tenant unless that is the default one."""
    return key.removeprefix(f"{DEFAULT_TENANT}.")
