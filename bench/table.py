"""All figures as one table, beside goals and peers; and what has slipped below the last that were accepted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.calibrate import Speed
from bench.goals import FIGURES, Figure
from bench.results import COMPILED, Result

ACCEPTED = Path(__file__).parent / "accepted.json"
FLOOR = 0.8
"""A figure may fall to so much of the last accepted mean."""
NOT_MEASURED = "not measured"
HEAD = f"{'':<5}{'figure':<52}{'median':>10} {'least - greatest':>21} {'goal':>10}  {'':<6} beside, and where from"


class Accepted(msgspec.Struct, kw_only=True):
    """A figure as it was accepted. `ratio`: to the machine's speed then (`bench.calibrate`); 0: not known."""

    mean: float
    ratio: float = 0.0
    commit: str = ""
    on: str = ""
    load: float = 0.0


class Row(NamedTuple):
    """A line of the table; `values` are empty if it was not measured."""

    figure: Figure
    values: list[float]
    result: Result | None
    is_fresh: bool

    @property
    def name(self) -> str:
        """What it is accepted as: like is held against like, so the rules as they are written and as machine code are two figures."""
        return name_of(self.figure) + (COMPILED if self.result is not None and self.result.commit.endswith(COMPILED) else "")

    @property
    def median(self) -> float:
        """Of its values."""
        return statistics.median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the goal is met; None without a goal, or with nothing to hold against it."""
        return self.figure.met(self.median) if self.values and self.figure.goal is not None else None


def rows(results: Mapping[str, Result], fresh: Sequence[str]) -> list[Row]:
    """Every figure there is, with what was found of it; `fresh` are the groups measured just now."""
    found = []
    for figure in FIGURES:
        result = results.get(figure.group)
        values = result.figures.get(figure.key, []) if result is not None else []
        found.append(Row(figure, values, result, figure.group in fresh))
    return found


def line(row: Row) -> str:
    """One line for people."""
    figure = row.figure
    goal = "" if figure.goal is None else f"{'>=' if figure.more else '<='} {number(figure.goal)}"
    start = f"{figure.number:<5}{figure.what:<52}"
    if not row.values:
        return f"{start}{NOT_MEASURED:>32} {goal:>10}  {'':<6} make bench WHAT={figure.group}"
    met = {True: "met", False: "MISSED", None: ""}[row.met]
    spread = f"{number(min(row.values))} - {number(max(row.values))}" if len(row.values) > 1 else "once"
    beside = [
        f"{name} {number(value)} ({figure.ratio(row.median, value):,.1f}x)" for name, value in figure.beside if row.median
    ]
    where = [*beside, *([] if row.is_fresh else [recorded_as(row.result)])]
    unit = f" {figure.unit}" if figure.unit else ""
    return f"{start}{number(row.median) + unit:>14} {spread:>17} {goal:>10}  {met:<6} {'; '.join(where)}"


def recorded_as(result: Result | None) -> str:
    """Where a figure comes from that was not measured just now."""
    if result is None:
        return ""
    quick = ", quick" if result.is_quick else ""
    return f"recorded {day(result.at)} at {result.commit or 'no commit'}, load {result.load[0]:.1f}{quick}"


def day(at: float) -> str:
    """A date, as people write it."""
    return time.strftime("%Y-%m-%d", time.gmtime(at))


def number(value: float) -> str:
    """As many digits as say something."""
    if value == int(value) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def foot(results: Mapping[str, Result], fresh: Sequence[str]) -> list[str]:
    """How each group was measured just now."""
    return [
        f"{name:<12} {result.command:<44} seeds {result.seed or '-':<6} load {result.load[0]:.1f} to {result.load[1]:.1f},"
        f" {result.seconds:,.0f} s, {result.cpu_seconds:,.0f} s of CPU, at {result.commit or 'no commit'}"
        for name, result in results.items()
        if name in fresh
    ]


def show(found: Sequence[Row], results: Mapping[str, Result], fresh: Sequence[str], machine: Mapping[str, Any]) -> str:
    """The whole of it."""
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    counts = [sum(row.met is met for row in found) for met in (True, False)]
    missing = sum(not row.values for row in found)
    where = (
        f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB, Linux {machine['kernel']}, "
        f"Python {machine['python']}; load {machine['load_before']:.1f} before"
    )
    return "\n".join(
        [
            where,
            f"calibration: {Speed(**machine['speed'])}",
            versions,
            "",
            HEAD,
            *(line(row) for row in found),
            "",
            f"{counts[0]} goals met, {counts[1]} missed, {missing} figures not measured",
            *foot(results, fresh),
        ]
    )


def as_json(found: Sequence[Row], machine: Mapping[str, Any]) -> bytes:
    """The same for programs."""
    table = [
        {
            "number": row.figure.number,
            "what": row.figure.what,
            "unit": row.figure.unit,
            "goal": row.figure.goal,
            "more_is_better": row.figure.more,
            "median": row.median if row.values else None,
            "values": row.values,
            "met": row.met,
            "beside": {name: {"value": value} for name, value in row.figure.beside},
            "measured_now": row.is_fresh,
            "from": None if row.result is None else msgspec.to_builtins(row.result) | {"figures": None},
        }
        for row in found
    ]
    return msgspec.json.format(msgspec.json.encode({"machine": machine, "figures": table})) + b"\n"


def name_of(figure: Figure) -> str:
    """A figure's name among the accepted ones."""
    return f"{figure.group}: {figure.key}"


def read_accepted(path: Path = ACCEPTED) -> dict[str, Accepted]:
    """The figures that were accepted the last time; empty without any."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Accepted])
    except FileNotFoundError:
        return {}


def accept(found: Sequence[Row], known: Mapping[str, Accepted]) -> dict[str, Accepted]:
    """What is accepted from now on: what was measured just now, and for the rest what was accepted before."""
    new = {
        row.name: Accepted(
            mean=statistics.fmean(row.values),
            ratio=ratio_of(row),
            commit=row.result.commit,
            on=day(row.result.at),
            load=round(row.result.load[0], 1),
        )
        for row in found
        if row.values and row.is_fresh and row.result is not None
    }
    return dict(sorted({**known, **new}.items()))


def slipped(found: Sequence[Row], known: Mapping[str, Accepted]) -> list[str]:
    """A line for each figure measured just now that is worse than the floor allows."""
    worse = []
    for row in found:
        was = known.get(row.name)
        if was is None or not row.values or not row.is_fresh:
            continue
        mean, speed = statistics.fmean(row.values), speed_of(row)
        accepted = row.figure.of_ratio(was.ratio, speed) if was.ratio and speed else was.mean
        if not holds(row.figure, mean, accepted):
            at_this_speed = f", which is {number(accepted)} at the speed of this machine now" if accepted != was.mean else ""
            worse.append(
                f"{row.figure.what}: {number(mean)} {row.figure.unit}, accepted were {number(was.mean)}{at_this_speed}"
                f" on {was.on or 'no date'} at {was.commit or 'no commit'}, load {was.load:.1f}"
            )
    return worse


def speed_of(row: Row) -> float:
    """What the machine did of the figure's piece of calibration when the figure was measured; 0: not known, or it does not matter."""
    speed: Mapping[str, float] = row.result.machine.get("speed", {}) if row.result is not None else {}
    return speed.get(row.figure.bound_by, 0.0)


def ratio_of(row: Row) -> float:
    """The mean as a ratio to that; 0 without one."""
    speed = speed_of(row)
    return row.figure.at_speed(statistics.fmean(row.values), speed) if speed else 0.0


def holds(figure: Figure, mean: float, accepted: float) -> bool:
    """Whether a mean is at least the floor's part as good as the accepted one; of what is to be none, none may come."""
    return mean >= FLOOR * accepted if figure.more else mean <= accepted / FLOOR
