"""What new nodes would cost, before they are ordered."""

from __future__ import annotations

from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.domain.explain.growth_cost import growth_costs
from headrace.domain.model.requests import make_request
from tests.unit.domain.site import profile
from tests.unit.provisioner.cloud import OFFERS, Cloud, burst

ONE = profile("one", pools=("hall", "cloud"))


def lines(site: Cloud, jobs: int, limit: int | None = None, *, steady: bool = False, gpus: int = 1) -> list[str]:
    request = make_request({GPU: gpus * GPU_UNITS}, 1, ONE, steady=steady)
    return list(growth_costs(site.state, ONE, request, jobs, limit, site.now))


def test_the_least_is_given_while_no_time_limit_says_how_long_jobs_take() -> None:
    assert lines(Cloud(offers=OFFERS), 3) == ["2 new nodes of pool cloud by offer spot, at 1.00 an hour each: 0.40 at least"]


def test_with_a_time_limit_all_nodes_count_to_its_end_and_their_boot() -> None:
    assert lines(Cloud(offers=OFFERS), 1, 8 * HOUR) == [
        "1 new node of pool cloud by offer spot, at 1.00 an hour each: 8.033333 to the time limit of 8h"
    ]


def test_jobs_that_may_not_run_on_spot_instances_cost_what_the_others_do() -> None:
    assert lines(Cloud(offers=OFFERS), 1, 2 * HOUR, steady=True) == [
        "1 new node of pool cloud by offer cheap, at 2.50 an hour each: 5.083333 to the time limit of 2h"
    ]


def test_no_more_nodes_count_than_the_pool_may_have() -> None:
    assert lines(Cloud(offers=OFFERS), 99)[0].startswith("3 new nodes")


def test_an_offer_that_is_closed_is_not_counted_with() -> None:
    site = Cloud(offers=OFFERS)
    (name,) = site.ordered()
    site.refused(name, for_=MINUTE)
    assert "by offer cheap" in lines(site, 1)[0]
    for _ in range(2):
        site.wait(1)
        site.refused(*(fact.instance for fact in site.decide()))
    assert lines(site, 1) == ["pool cloud cannot create nodes now: none of its offers is open"]


def test_pools_that_could_not_hold_it_and_offers_without_a_price_say_nothing() -> None:
    assert lines(Cloud(offers=OFFERS), 1, gpus=3) == []
    assert lines(Cloud(), 1) == []
    assert burst().offers == ()
