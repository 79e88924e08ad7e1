"""The books of random histories are the sum of the bytes of the records alone (R17, R25, R29, R33, R37)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.accounting.books.aggregate import AggregateKey, AggregateLine, lines
from headrace.accounting.books.costs import PriceList
from headrace.accounting.books.rollups import SumRow
from headrace.contracts.documents.model import Group
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.values.durations import DAY, HOUR
from headrace.contracts.values.mig import FAMILIES
from headrace.simulate.scenario import Scenario, read_scenario
from headrace.simulate.world import World
from tests.properties.arrays import arrays
from tests.properties.bookkeeper import Bookkeeper, memory_slices
from tests.properties.by_model import by_model
from tests.properties.campaign import histories
from tests.properties.checked_histories import play
from tests.properties.histories import scenarios
from tests.properties.kept_books import EXACT, FIELDS, differences, entries, kept

SCENARIOS = Path(__file__).parents[1] / "scenarios"


def priced(scenario: Scenario) -> Scenario:
    """The same with groups and prices; where the history writes a pool or a tenant anew, its prices change."""
    documents = scenario.documents
    policies = tuple(replace(policy, group=policy.group or f"g-{policy.name}") for policy in documents.policies)
    groups = tuple(
        Group(tenant=policy.tenant, name=policy.group, members=("ann",), service_accounts=("bob",)) for policy in policies
    )
    pools = tuple(
        replace(pool, price={"gpu": "2.50", "cpu": "0.017"}, reserved_price={"gpu": f"1.{place}00001"})
        for place, pool in enumerate(documents.pools)
    )
    tenants = tuple(
        replace(tenant, shares=tuple(replace(share, price={"gpu": "3"}) for share in tenant.shares))
        for tenant in documents.tenants
    )
    return replace(
        scenario,
        documents=replace(documents, groups=(*documents.groups, *groups), policies=policies, pools=pools, tenants=tenants),
    )


def check(scenario: Scenario, bundle: int, reopened: frozenset[int]) -> dict[AggregateKey, AggregateLine]:
    """The lines of the books, which are those of the bookkeeper."""
    messages = play(World(priced(scenario), judged=False)).log.messages_after(0)
    keeper = Bookkeeper().read_all(messages)
    tables, ledger = kept(messages, bundle, reopened)
    days = range(keeper.first // DAY, keeper.until // DAY + 1)
    bounds = [*(day * DAY for day in days), keeper.until]
    prices = PriceList(tables.tariffs, tables.prices)

    found = lines(entries(tables, prices, days, keeper.until), prices, tables.reservations, FIELDS, bounds)

    assert differences(found, keeper.account(bounds, FIELDS)) == {}
    assert (ledger.state.now, tables.position.now) == (keeper.now, keeper.until)
    held = sum(
        units * ((lease.ended or keeper.until) - lease.charged)
        for lease in keeper.leases.values()
        if lease.charged is not None
        for units in lease.amounts.values()
    )
    away = sum(
        units * ((until or keeper.until) - since)
        for lease in keeper.leases.values()
        for since, until in lease.away
        for key, units in lease.amounts.items()
        if key == "gpu" or key.startswith("gpu:")
    )
    assert sum(line.reserved + line.borrowed for line in found.values()) == held - away, "the parts are not the whole"
    by_day = _summed((row[0] * DAY, *row[1:10], *sums) for row, sums in tables.days.items())
    assert _summed((row[0] * HOUR // DAY * DAY, *row[1:10], *sums) for row, sums in tables.hours.items()) == by_day
    by_node = _summed((row[0] * HOUR // DAY * DAY, row[1], row[2], *row[4:6], *sums) for row, sums in tables.node_hours.items())
    placed = ((row[0] * DAY, row[1], row[7], *row[8:10], *sums[:3], *sums[4:]) for row, sums in tables.days.items() if row[7])
    assert by_node == _summed(placed)
    return found


def _summed(rows: Iterator[tuple[Any, ...]]) -> dict[tuple[Any, ...], tuple[int, ...]]:
    """Sums by all columns that are not sums: those before the tariff, and the tariff."""
    found: dict[tuple[Any, ...], tuple[int, ...]] = {}
    for row in rows:
        names = 10 if len(row) == len(SumRow._fields) else 5
        place, sums = row[:names], row[names:]
        found[place] = tuple(map(sum, zip(found.get(place, (0,) * len(sums)), sums, strict=True)))
    return {place: sums for place, sums in found.items() if any(sums)}


@histories()
@given(scenarios(), st.integers(1, 40), st.frozensets(st.integers(1, 120), max_size=4))
def test_the_books_are_what_the_facts_add_up_to_and_the_parts_are_the_whole(scenario, bundle, reopened) -> None:
    check(scenario, bundle, reopened)


@histories(one_in=4)
@given(arrays(), st.integers(1, 40), st.frozensets(st.integers(1, 120), max_size=4))
def test_the_books_of_arrays_are_what_the_facts_of_their_elements_add_up_to(scenario, bundle, reopened) -> None:
    check(scenario, bundle, reopened)


@histories(one_in=4)
@given(by_model(), st.integers(1, 40), st.frozensets(st.integers(1, 120), max_size=4))
def test_the_books_of_governed_models_are_what_the_facts_add_up_to(scenario, bundle, reopened) -> None:
    check(scenario, bundle, reopened)


def test_every_part_is_met_in_the_scenarios_and_is_what_the_facts_add_up_to() -> None:
    met = dict.fromkeys((*EXACT, "cost", "lost_cost"), 0)
    for path in sorted(SCENARIOS.glob("*.yaml")):
        scenario = read_scenario(read_tree(path.read_text("utf-8")))
        if any(moment.refused for moment in scenario.timeline):
            continue  # it shows what governance says, which is not asked here
        for line in check(scenario, 7, frozenset({20, 40})).values():
            for name in met:
                met[name] += getattr(line, name) > 0
    assert all(met.values()), met


@pytest.mark.parametrize("model", FAMILIES)
def test_the_bookkeepers_slices_are_as_long_as_they_are(model) -> None:
    slices = FAMILIES[model].slices
    assert {name: memory_slices(name, model) for name in slices} == {name: kind.memory for name, kind in slices.items()}
