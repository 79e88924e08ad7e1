"""Random histories in which some of the jobs that are submitted together are an array, and the same histories with single jobs."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st
from msgspec import structs

from headrace.simulate.scenario import Moment, Scenario
from tests.properties.histories import Chance, scenarios

MANY = 9


@st.composite
def pairs(draw: Callable[[st.SearchStrategy[int]], int]) -> tuple[Scenario, Scenario]:
    """A history with arrays that have no bound, and the same with as many single jobs."""
    scenario, chance = draw(scenarios()), Chance(draw)
    arrays, singles = [], []
    for moment in scenario.timeline:
        array, single = _as_array(moment, chance.number(2, MANY), 0) if chance.coin() else (moment, moment)
        arrays.append(array)
        singles.append(single)
    return _with(scenario, arrays), _with(scenario, singles)


@st.composite
def arrays(draw: Callable[[st.SearchStrategy[int]], int]) -> Scenario:
    """A history with arrays, most of them with a bound; parts of some are cancelled or requeued."""
    scenario, chance = draw(scenarios()), Chance(draw)
    timeline: list[Moment] = []
    for moment in scenario.timeline:
        count, bound = chance.number(2, MANY), chance.among([0, 1, 2, 3])
        array, _ = _as_array(moment, count, bound) if chance.coin() else (moment, moment)
        timeline.append(array)
        if array is not moment and array.submit is not None and chance.coin():
            first = chance.number(0, count - 1)
            what, later = chance.among(["cancel", "requeue"]), moment.at + chance.number(0, 300) * 1_000_000
            part = chance.among(["", f"{first}", f"{first}-{count}"])
            timeline.append(Moment(at=later, elements=part, **{what: array.submit.name}))
    return _with(scenario, timeline, whole=True)


EVENTS = ("cancel", "requeue", "finish", "fail", "force")


def _with(scenario: Scenario, timeline: list[Moment], *, whole: bool = False) -> Scenario:
    """The same with another timeline, in the order of its moments, without events of jobs that are now one of many.

    `whole`: arrays may be cancelled and requeued by their names.
    """
    rows = [moment.submit for moment in timeline if moment.submit is not None]
    many = {row.name for row in rows if row.count > 1 or row.array}
    kept = [moment for moment in timeline if not any(_is_of_many(moment, what, many, whole=whole) for what in EVENTS)]
    return structs.replace(scenario, timeline=tuple(sorted(kept, key=lambda moment: moment.at)))


def _is_of_many(moment: Moment, what: str, many: set[str], *, whole: bool) -> bool:
    name = getattr(moment, what)
    return name.rpartition("-")[0] in many or (name in many and not (whole and what in ("cancel", "requeue")))


def _as_array(moment: Moment, count: int, bound: int) -> tuple[Moment, Moment]:
    if moment.submit is None:
        return moment, moment
    array = structs.replace(moment.submit, count=1, array=f"0-{count - 1}" + (f"%{bound}" if bound else ""))
    return structs.replace(moment, submit=array), structs.replace(moment, submit=structs.replace(moment.submit, count=count))
