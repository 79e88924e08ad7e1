from __future__ import annotations

from headrace.accounting.books.aggregate import PeriodSum
from headrace.accounting.books.charges import ON_DEMAND, PROVIDER_LOST, RESERVED, SPOT, Charge, charges, days
from headrace.accounting.books.costs import PriceList, hour_of
from headrace.accounting.books.tariffs import PriceRow, TariffRow
from headrace.contracts.values.durations import DAY

HOUR = hour_of("gpu")
PRICES = PriceList(
    [TariffRow(1, "hq", "", 0, spot=False), TariffRow(2, "hq", "acme", 0, spot=False), TariffRow(3, "cloud", "", 0, spot=True)],
    [
        PriceRow(1, "hq", "", "gpu", 3_000_000, 2_000_000),
        PriceRow(2, "hq", "acme", "gpu", 2_500_000, 1_000_001),
        PriceRow(3, "cloud", "", "gpu", 700_000, 700_000),
    ],
)


def entry(period: int, pool: str, key: str, tariff: int, **units: int) -> PeriodSum:
    return PeriodSum(period, "acme", "p", pool, ("rnd", "any", "alice", ""), key, tariff, **units)


def test_days_are_those_of_utc_cut_at_the_ends() -> None:
    assert days(DAY // 2, 2 * DAY + 5) == [DAY // 2, DAY, 2 * DAY, 2 * DAY + 5]
    assert days(DAY, 2 * DAY) == [DAY, 2 * DAY]


def test_each_day_account_key_and_rate_is_one_charge_that_is_rounded_once() -> None:
    entries = [
        entry(0, "hq", "gpu", 2, reserved=HOUR // 2, borrowed=HOUR),
        entry(0, "hq", "gpu", 2, reserved=0, borrowed=HOUR),
        entry(1, "hq", "gpu", 2, reserved=HOUR // 2),
        entry(1, "cloud", "gpu", 3, reserved=HOUR),
        entry(1, "hq", "cpu", 2, reserved=HOUR),
        entry(1, "", "gpu", 0, waiting=5),
    ]
    found = charges(entries, PRICES, [0, DAY, 2 * DAY])
    assert [
        (
            charge.since,
            charge.account.pool,
            charge.kind,
            charge.rate,
            charge.own_rate,
            charge.list_rate,
            charge.units,
            charge.cost,
        )
        for charge in found
    ] == [
        (0, "hq", ON_DEMAND, 2_500_000, 2_500_000, 3_000_000, 2 * HOUR, 5_000_000),
        (0, "hq", RESERVED, 1_000_001, 2_500_000, 3_000_000, HOUR // 2, 500_000),
        (DAY, "cloud", SPOT, 700_000, 700_000, 700_000, HOUR, 700_000),
        (DAY, "hq", RESERVED, 1_000_001, 2_500_000, 3_000_000, HOUR // 2, 500_000),
    ]


def test_gpus_are_shown_where_they_cost_nothing_and_what_was_taken_out_again_is_not() -> None:
    entries = [
        entry(0, "lab", "gpu", 0, borrowed=7),
        entry(0, "hq", "gpu", 1, borrowed=7),
        entry(0, "hq", "gpu", 1, borrowed=-7),
    ]
    (charge,) = charges(entries, PRICES, [0, DAY])
    assert isinstance(charge, Charge)
    assert (charge.account.pool, charge.cost) == ("lab", 0)


def test_gpus_that_the_provider_lost_are_shown_and_cost_nothing_and_other_keys_are_not() -> None:  # R36
    entries = [entry(0, "hq", "gpu", 0, provider_lost=HOUR), entry(0, "hq", "cpu", 0, provider_lost=HOUR)]
    (charge,) = charges(entries, PRICES, [0, DAY])
    assert (charge.kind, charge.account.key, charge.units) == (PROVIDER_LOST, "gpu", HOUR)
    assert (charge.rate, charge.own_rate, charge.list_rate, charge.cost) == (0, 0, 0, 0)


H100 = "gpu:H100-80GB"
HELD = [
    entry(0, "hq", "gpu", 1, reserved=2 * HOUR, borrowed=HOUR, provider_lost=HOUR),
    entry(0, "hq", H100, 1, reserved=HOUR, provider_lost=HOUR),
]
"""Two GPU-hours inside the reservation and one borrowed; one of the first two was on an H100, as was the one that the provider lost."""


def priced(**millionths: int) -> PriceList:
    """Prices of pool hq: of all GPUs, and of an H100."""
    rows = [PriceRow(1, "hq", "", {"h100": H100}.get(name, name), rate, rate) for name, rate in millionths.items()]
    return PriceList([TariffRow(1, "hq", "", 0, spot=False)], rows)


def charged(prices: PriceList) -> list[tuple[str, str, int, int, int]]:
    found = charges(HELD, prices, [0, DAY])
    return [(charge.account.key, charge.kind, charge.rate, charge.units, charge.cost) for charge in found]


def test_a_price_of_a_model_is_added_to_that_of_a_gpu_for_the_hours_on_the_model_alone() -> None:  # R43
    assert charged(priced(gpu=3_000_000, h100=1_500_000)) == [
        ("gpu", PROVIDER_LOST, 0, HOUR, 0),
        ("gpu", ON_DEMAND, 3_000_000, HOUR, 3_000_000),
        ("gpu", RESERVED, 3_000_000, 2 * HOUR, 6_000_000),
        (H100, RESERVED, 1_500_000, HOUR, 1_500_000),
    ]


def test_a_model_without_a_price_has_no_charge_beside_that_of_its_gpus() -> None:  # R43
    assert [(key, cost) for key, _, _, _, cost in charged(priced(gpu=3_000_000))] == [
        ("gpu", 0),
        ("gpu", 3_000_000),
        ("gpu", 6_000_000),
    ]


def test_where_only_a_model_has_a_price_its_hours_cost_that_and_all_gpus_nothing() -> None:  # R43
    assert [(key, cost) for key, _, _, _, cost in charged(priced(h100=4_000_000)) if cost] == [(H100, 4_000_000)]
