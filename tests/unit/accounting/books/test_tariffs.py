"""A new price never changes the past."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.accounting.books.tariffs import NO_TARIFF, PriceRow, Rates, TariffRow, Tariffs, rates_of
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Burst, BurstNode, Pool, Share, Tenant
from headrace.contracts.values.money import millionths
from headrace.domain.state.state import State

if TYPE_CHECKING:
    from tests.unit.accounting.conftest import Story, Tables

SECOND = 1_000_000
BURST = Burst(provider="ec2", node=BurstNode(gpus=8, gpu_model="H100"), spot=True)


@pytest.mark.parametrize(
    ("text", "amount"), [("2.50", 2_500_000), ("0", 0), ("0.000001", 1), ("999999999.999999", 10**15 - 1), ("4", 4_000_000)]
)
def test_a_price_is_an_integer_of_millionths(text: str, amount: int) -> None:
    assert millionths(text) == amount


def test_own_rates_go_before_the_pools_and_reserved_is_on_demand_where_nothing_is_said() -> None:
    pool = Pool(name="hq", selector={}, price={"gpu": "2.5", "cpu": "0.1"}, reserved_price={"gpu": "2"}, burst=BURST)
    assert rates_of(pool) == Rates(True, (("cpu", 100_000, 100_000), ("gpu", 2_500_000, 2_000_000)))
    share = Share(pool="hq", price={"gpu": "3"}, reserved_price={"memory": "1"})
    assert rates_of(pool, share).by_key == (("cpu", 100_000, 100_000), ("gpu", 3_000_000, 3_000_000), ("memory", 0, 1_000_000))


def price(story: Story, at: float, **prices: str) -> int:
    pool = Pool(name="hq", selector={"site": "hq"}, price=prices)
    return story.append_facts(at, "governance", f.PoolAppliedV1(author="a.b", pool=pool)) * 1_000


def test_use_keeps_the_price_of_its_time_and_is_split_where_that_changes(story: Story, tables: Tables) -> None:
    first = price(story, 1, gpu="2")
    story.policy(2, "p", 0)
    story.run(10, None, 1, "p", 1)
    second = price(story, 15, gpu="3")
    assert price(story, 16, gpu="3")
    story.end(20, story.ledger.state.jobs.copy().popitem()[0])
    tables.settle(story.books)
    gpu = {place[9]: sums[1] for place, sums in tables.days.items() if place[8] == "gpu" and sums[1]}
    assert gpu == {first: 5 * SECOND * 126_000, second: 5 * SECOND * 126_000}
    assert [(row.tariff, row.since) for row in tables.tariffs] == [(first, SECOND), (second, 15 * SECOND)]
    assert [(row.tariff, row.on_demand) for row in tables.prices] == [(first, 2_000_000), (second, 3_000_000)]


def test_a_tenant_gets_rates_of_its_own_from_when_they_are_stated_on(story: Story, tables: Tables) -> None:
    price(story, 1, gpu="2")
    share = Share(pool="hq", price={"gpu": "1"})
    own = (
        story.append_facts(5, "governance", f.TenantAppliedV1(author="a.b", tenant=Tenant(name="acme", shares=(share,))))
        * 1_000
    )
    gone = story.append_facts(9, "governance", f.TenantAppliedV1(author="a.b", tenant=Tenant(name="acme"))) * 1_000
    tables.settle(story.books)
    assert [(row.tariff, row.tenant, row.since) for row in tables.tariffs][1:] == [
        (own, "acme", 5 * SECOND),
        (gone, "acme", 9 * SECOND),
    ]
    assert [(row.tenant, row.on_demand) for row in tables.prices] == [("", 2_000_000), ("acme", 1_000_000), ("acme", 2_000_000)]


def test_stored_tariffs_are_gone_on_from() -> None:
    tariffs = Tariffs(State())
    tariffs.restore(
        [TariffRow(1, "hq", "", 10, spot=False), TariffRow(2, "hq", "", 20, spot=False)], [PriceRow(1, "hq", "", "gpu", 1, 1)]
    )
    assert [tariffs.at("hq", "acme", moment) for moment in (9, 10, 19, 20)] == [NO_TARIFF, 1, 1, 2]
    assert list(tariffs.pieces("hq", "acme", 5, 25)) == [(5, 10, NO_TARIFF), (10, 20, 1), (20, 25, 2)]
    assert tariffs.only("hq", "acme", 15) is None
    assert tariffs.only("elsewhere", "acme", 15) == NO_TARIFF


def test_a_pool_with_one_tariff_is_known_to_have_no_other_only_since_that_began() -> None:
    tariffs = Tariffs(State())
    tariffs.restore([TariffRow(1, "hq", "", 10, spot=False)], [])
    assert (tariffs.only("hq", "acme", 9), tariffs.only("hq", "acme", 10)) == (None, 1)
