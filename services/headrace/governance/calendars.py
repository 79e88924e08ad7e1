"""Time zone calendars that the ledger needs (R33, R41): those that documents name, for more than a year. Pure; gets the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Document, Policy, Pool
from headrace.contracts.facts import AnyFact
from headrace.contracts.values.durations import DAY, SECOND
from headrace.domain.state.state import State
from headrace.governance.objects import PlacedDocument
from headrace.governance.validation.diagnostics import Diagnostics, unknown

UTC = "UTC"
BEHIND = 400 * DAY
"""A calendar begins this long in the past, so that it covers the start of the current year's period."""
AHEAD = 400 * DAY
RENEWED = 100 * DAY
"""A calendar is stated again this long before it ends."""


class TimeZones(NamedTuple):
    """A time zone database. `offsets`: the offsets of a zone between two moments, None for an unknown zone; `names`: all zones."""

    offsets: Callable[[str, int, int], tuple[tuple[int, int], ...] | None]
    names: Callable[[], Iterable[str]]


def zones_of(documents: Iterable[Document]) -> set[str]:
    """The zones, except UTC, that the policies and pools among the documents name."""
    return {zone for document in documents for _, zone in _named(document)} - {UTC}


def _named(document: Document) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(document, Policy):
        yield from ((("windows", index, "timezone"), window.timezone) for index, window in enumerate(document.windows))
        yield from ((("budgets", index, "timezone"), budget.timezone) for index, budget in enumerate(document.budgets))
    if isinstance(document, Pool):
        yield from ((("maintenance", index, "timezone"), one.timezone) for index, one in enumerate(document.maintenance))


def calendars_for(
    state: State, changed: Iterable[PlacedDocument], zones: TimeZones, now: int, findings: Diagnostics
) -> list[AnyFact]:
    """Calendars that documents need and the ledger lacks. An unknown zone is reported as an error."""
    found: dict[str, AnyFact] = {}
    for name, document, _ in changed:
        for part, zone in _named(document):
            if zone in found or zone == UTC or _is_known(state, zone, now):
                continue
            stated = _state(zone, zones, now)
            if stated is None:
                findings.error(findings.where(name, *part), unknown("time zone", zone, zones.names(), _NO_DATABASE))
            else:
                found[zone] = stated
    return [found[zone] for zone in sorted(found)]


_NO_DATABASE = "this machine has no time zone database: install the package tzdata, or write UTC"


def _is_known(state: State, zone: str, now: int) -> bool:
    known = state.terms.calendars.get(zone)
    return known is not None and known.until > now + RENEWED


def _state(zone: str, zones: TimeZones, now: int) -> AnyFact | None:
    begins, until = (now - BEHIND) // SECOND * SECOND, (now + AHEAD) // SECOND * SECOND
    offsets = zones.offsets(zone, begins, until)
    return None if offsets is None else f.CalendarStatedV1(zone=zone, offsets=offsets, until=until)


def renewed(state: State, zones: TimeZones, now: int) -> list[AnyFact]:
    """Calendars in use that end soon, extended."""
    due = [zone for zone in _in_use(state) if state.terms.calendars[zone].until - RENEWED <= now]
    stated = (_state(zone, zones, now) for zone in due)
    return [fact for fact in stated if fact is not None]


def next_renewal(state: State) -> int | None:
    """Time at which the first calendar has to be stated again."""
    return min((state.terms.calendars[zone].until - RENEWED for zone in _in_use(state)), default=None)


def _in_use(state: State) -> list[str]:
    if not state.terms.calendars:
        return []
    pools = (state.pools[name].document for name in state.maintenance.planned)
    named = zones_of((*(policy.document for policy in state.terms.timed.values()), *pools))
    return sorted(named & state.terms.calendars.keys())
