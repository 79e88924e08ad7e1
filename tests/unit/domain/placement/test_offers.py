from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.contracts.values.money import MILLION
from headrace.domain.model.instances import OfferState
from headrace.domain.placement.offers import (
    closed,
    closed_for,
    estimate,
    is_provided,
    living,
    offers_of,
    open_offers,
    price_of,
    reopens_at,
)
from tests.unit.provisioner.cloud import OFFERS, Cloud, burst


def names(site: Cloud, **fields: bool) -> list[str]:
    return [offer.name for offer in open_offers(site.state, site.pool, site.now, **fields)]


def test_the_cheapest_offer_is_asked_first_or_the_first_as_written():
    assert names(Cloud(offers=OFFERS)) == ["spot", "cheap", "dear"]
    assert names(Cloud(offers=OFFERS, order="as_written")) == ["dear", "cheap", "spot"]
    assert names(Cloud(offers=OFFERS), spot=False) == ["cheap", "dear"]


def test_a_pool_without_offers_has_one():
    assert [(one.name, one.market) for one in offers_of(burst(spot=True))] == [("default", "spot")]
    assert [(one.name, one.market) for one in offers_of(burst())] == [("default", "on_demand")]


def test_an_observed_price_counts_and_above_its_highest_price_an_offer_is_closed():
    offer = d.Offer(name="spot", price="1", max_price="1.50")
    site = Cloud(offers=(offer,))
    assert (price_of(site.state, "cloud", offer), closed(site.state, "cloud", offer, site.now)) == (MILLION, "")
    site.append_facts(f.PriceObservedV1(pool="cloud", offer="spot", price=2 * MILLION, source="x"), by="provisioner")
    assert (price_of(site.state, "cloud", offer), closed(site.state, "cloud", offer, site.now)) == (2 * MILLION, "PRICE")
    assert (names(site), reopens_at(site.state, site.pool, site.now)) == ([], None)


def test_a_refused_offer_is_closed_until_its_time():
    site = Cloud(offers=OFFERS)
    (name,) = site.ordered()
    site.refused(name, "CAPACITY", MINUTE)
    assert (names(site), reopens_at(site.state, site.pool, site.now)) == (["cheap", "dear"], site.now + MINUTE)
    site.wait(MINUTE)
    assert (names(site), reopens_at(site.state, site.pool, site.now)) == (["spot", "cheap", "dear"], None)


@pytest.mark.parametrize(
    ("failures", "span"), [(0, MINUTE), (1, 2 * MINUTE), (3, 8 * MINUTE), (6, 64 * MINUTE), (99, 64 * MINUTE)]
)
def test_an_offer_is_closed_twice_as_long_each_time(failures, span):
    assert closed_for(OfferState(failures=failures)) == span


def test_an_estimate_covers_boot_and_idle_time_or_the_least_life():
    assert estimate(burst(boot=20 * MINUTE, idle=10 * MINUTE), 2 * MILLION) == MILLION
    assert estimate(burst(min_life=2 * HOUR), 2 * MILLION) == 4 * MILLION


def test_instances_count_from_their_order_to_their_end():
    site = Cloud()
    first, second = site.ordered(2)
    site.made(first)
    site.join(first)
    site.refused(second)
    site.node("own", pool="cloud")
    assert living(site.state.instances.values(), site.pool) == {first, "own"}


@pytest.mark.parametrize(
    ("provider", "level", "is_one"), [("local", 3, True), ("local", 2, False), ("none", 3, False), ("x", 3, False)]
)
def test_only_providers_that_there_are_create_nodes_from_level_3_on(provider, level, is_one):
    site = Cloud()
    site.state.terms.level = level
    assert is_provided(site.state, burst(provider=provider)) is is_one
    assert is_provided(site.state, None) is False
