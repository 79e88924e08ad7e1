"""Money is rounded once, half to even, and whatever is added up adds up."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.accounting.books.costs import PriceList, decimal, hour_of, rounded
from headrace.accounting.books.tariffs import PriceRow, TariffRow


@pytest.mark.parametrize(
    ("numerator", "whole"), [(0, 0), (1, 0), (2, 0), (3, 1), (5, 1), (6, 2), (7, 2), (10, 2), (-2, 0), (-6, -2)]
)
def test_of_two_that_are_as_near_the_even_one_is_taken(numerator: int, whole: int) -> None:
    assert rounded(numerator, 4) == whole


@given(st.integers(-(10**30), 10**30), st.integers(1, 10**18))
def test_rounding_is_that_of_fractions(numerator: int, denominator: int) -> None:
    assert rounded(numerator, denominator) == round(Fraction(numerator, denominator))


@pytest.mark.parametrize(
    ("millionths", "text"), [(0, "0.000000"), (2_500_000, "2.500000"), (-1, "-0.000001"), (10**15, "1000000000.000000")]
)
def test_an_amount_of_money_is_written_with_six_decimals(millionths: int, text: str) -> None:
    assert decimal(millionths) == text


@pytest.mark.parametrize(
    ("key", "hour"), [("gpu", 126_000 * 3_600_000_000), ("memory", 1_024 * 3_600_000_000), ("job", 3_600_000_000)]
)
def test_a_price_is_for_an_hour_of_a_gpu_a_core_a_gib_and_of_other_keys_of_one(key: str, hour: int) -> None:
    assert hour_of(key) == hour


def test_a_tenant_without_rates_of_its_own_pays_the_pools_and_what_has_no_price_costs_nothing() -> None:
    tariffs = [TariffRow(1, "hq", "", 10, spot=True), TariffRow(2, "hq", "acme", 20, spot=True)]
    prices = PriceList(tariffs, [PriceRow(1, "hq", "", "gpu", 5, 4), PriceRow(2, "hq", "acme", "gpu", 3, 2)])
    assert [prices.at("hq", "acme", moment) for moment in (9, 10, 20)] == [0, 1, 2]
    assert [prices.at("hq", "other", moment) for moment in (9, 10, 20)] == [0, 1, 1]
    assert prices.at("", "acme", 20) == 0
    assert prices.rates(2, "hq", "acme", "gpu") == (3, 2)
    assert prices.rates(1, "hq", "acme", "gpu") == (5, 4)
    assert prices.rates(1, "hq", "acme", "cpu") == (0, 0)
    assert (prices.is_spot(1, "hq"), prices.is_spot(7, "hq")) == (True, False)
    assert prices.moments == [10, 20]
