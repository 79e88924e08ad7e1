from __future__ import annotations

from headrace.accounting.books.aggregate import AggregateKey, AggregateLine, PeriodSum, lines
from headrace.accounting.books.costs import PriceList, hour_of
from headrace.accounting.books.rows import ReservationRow
from headrace.accounting.books.tariffs import PriceRow, TariffRow

PRICES = PriceList([TariffRow(1, "hq", "", 0, spot=False)], [PriceRow(1, "hq", "", "gpu", 3_000_000, 2_000_000)])
HOUR = hour_of("gpu")


def test_reserved_and_idle_are_the_whole_reservation_under_whichever_names() -> None:
    reservations = [
        ReservationRow("acme", "p", "gpu", 1, 2, 10, "old"),
        ReservationRow("acme", "p", "gpu", 2, 8, 20, "new"),
    ]
    entries = [
        PeriodSum(0, "acme", "p", "hq", ("rnd", "alice"), "gpu", 1, reserved=30),
        PeriodSum(1, "acme", "p", "hq", ("rnd", "bob"), "gpu", 1, reserved=40),
    ]
    assert lines(entries, PRICES, reservations, ("group", "user"), [0, 5, 10]) == {
        AggregateKey(0, ("rnd", "alice"), "gpu"): AggregateLine(reserved=30, cost=30 * 2_000_000),
        AggregateKey(1, ("new", ""), "gpu"): AggregateLine(idle=3 * 10 + 2 * 20 - 40),
        AggregateKey(1, ("rnd", "bob"), "gpu"): AggregateLine(reserved=40, cost=40 * 2_000_000),
    }


def test_each_part_has_its_own_rate_and_is_rounded_once() -> None:
    entries = [
        PeriodSum(0, "acme", "p", "hq", (), "gpu", 1, reserved=HOUR, borrowed=HOUR),
        PeriodSum(0, "acme", "p", "hq", (), "gpu", 1, lost_reserved=0, lost_borrowed=HOUR // 3, suspended=5),
        PeriodSum(0, "acme", "p", "", (), "gpu", 0, waiting=7),
    ]
    ((place, line),) = lines(entries, PRICES, [], (), [0, 10]).items()
    assert place == AggregateKey(0, (), "gpu")
    assert (line.reserved, line.borrowed, line.suspended, line.waiting, line.lost) == (HOUR, HOUR, 5, 7, HOUR // 3)
    assert line.priced("gpu") == (5_000_000, 1_000_000)
