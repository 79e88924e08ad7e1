from __future__ import annotations

from headrace.accounting.books.charging import Charging
from headrace.accounting.books.meters import Meters
from headrace.accounting.books.rollups import Rollups
from headrace.accounting.books.rows import LeaseRow, SuspensionRow
from headrace.accounting.books.tariffs import Tariffs
from headrace.domain.state.state import State


class Charged:
    """One lease of two GPUs, granted at 10, and what is worked out about it."""

    def __init__(self) -> None:
        self.meters, self.sums = Meters(), Rollups(Tariffs(State()))
        self.charging = Charging(self.meters, self.sums)
        self.lease = LeaseRow(
            lease=1_000,
            job="acme.ann.a",
            attempt=1,
            rank=0,
            tenant="acme",
            user_name="ann",
            group_name="dev",
            policy="dev",
            profile="two",
            pool="hq",
            node="n1",
            devices={},
            amounts={"gpu": 2, "cpu": 4},
            preemptible=True,
            granted_at=10,
            heard_at=10,
        )

    def by_key(self) -> dict[str, tuple[int, ...]]:
        """Borrowed, suspended and lost by the provider."""
        self.meters.settle({}, self.sums, 0)
        return {row.key: (row.borrowed, row.suspended, row.provider_lost) for row in self.sums.take().days}


def test_a_lease_is_charged_from_its_start_to_its_release_but_for_gpus_while_it_is_suspended() -> None:  # R29, R37
    it = Charged()
    it.charging.begin(it.lease, 15)
    it.charging.suspend(it.lease, 20)
    assert not it.charging.is_charged_gpus(it.lease)
    assert it.charging.resume(it.lease, 30)
    assert not it.charging.resume(it.lease, 31)
    it.charging.end(it.lease, 40)
    assert it.by_key() == {"gpu": (30, 20, 10), "cpu": (100, 0, 20)}
    assert it.charging.take_rows() == [SuspensionRow(1_000, 20, None, 2), SuspensionRow(1_000, 20, 30, 2)]
    assert it.charging.take_rows() == []


def test_gpus_of_a_model_are_charged_and_suspended_as_all_gpus_are() -> None:  # R43
    it = Charged()
    it.lease.amounts["gpu:H100"] = 2
    it.charging.begin(it.lease, 15)
    it.charging.suspend(it.lease, 20)
    it.charging.resume(it.lease, 30)
    it.charging.end(it.lease, 40)
    assert it.by_key() == {"gpu": (30, 20, 10), "gpu:H100": (30, 20, 10), "cpu": (100, 0, 20)}


def test_a_lease_that_never_started_is_charged_nothing() -> None:  # R36
    it = Charged()
    assert not it.charging.is_charged_gpus(it.lease)
    it.charging.end(it.lease, 40)
    assert it.by_key() == {"gpu": (0, 0, 60), "cpu": (0, 0, 120)}


def test_a_suspension_that_was_stored_goes_on() -> None:
    it = Charged()
    it.charging.begin(it.lease, 10)
    again = Charging(it.meters, it.sums)
    again.restore([SuspensionRow(1_000, 20, None, 2)])
    it.meters.end(it.lease, ("gpu",), 20)
    again.end(it.lease, 40)
    assert it.by_key() == {"gpu": (20, 40, 0), "cpu": (120, 0, 0)}
