from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.accounting.books.meter import ALWAYS, PREEMPTIBLE, LeaseUse, PastUse, Reservation, UsageMeter, UseKey, order_of
from tests.properties.campaign import examples
from tests.unit.size import size

FIRM = False


@dataclass
class Kept:
    """A meter and what has been stored of it."""

    meter: UsageMeter = field(default_factory=lambda: UsageMeter("gpu"))
    stored: dict[UseKey, LeaseUse] = field(default_factory=dict)

    def settle(self) -> dict[UseKey, LeaseUse | None]:
        changes: dict[UseKey, LeaseUse | None] = {}
        self.meter.settle(changes)
        for key, use in changes.items():
            if use is None:
                self.stored.pop(key, None)
            else:
                self.stored[key] = use
        return changes

    def begin(self, at: int, lease: int, amount: int, *, preemptible: bool = True) -> None:
        self.meter.begin(at, order_of(lease, preemptible=preemptible), amount)

    def end(self, at: int, lease: int, *, preemptible: bool = True) -> None:
        self.meter.end(at, order_of(lease, preemptible=preemptible))

    def reserve(self, at: int, amount: int, number: int = 0) -> None:
        self.meter.reserve(Reservation(at, number, amount))

    def restore(self, horizon: int, orders: dict[int, int], reservations: list[Reservation]) -> None:
        past = [PastUse(orders[lease], since, *use) for (lease, _, since), use in self.stored.items()]
        lasting = [use for use in past if use.until is None or use.until >= horizon]
        self.meter = self.meter.restored(horizon, lasting, sorted(reservations))


@pytest.fixture
def kept() -> Kept:
    return Kept()


def test_the_oldest_leases_are_reserved_and_the_newest_borrowed_one_partly_both(kept: Kept) -> None:
    kept.reserve(0, 5)
    for lease in (1, 2, 3):
        kept.begin(10, lease, 3)
    kept.settle()
    assert kept.stored == {
        (1, "gpu", 10): LeaseUse(None, 3, 0),
        (2, "gpu", 10): LeaseUse(None, 2, 1),
        (3, "gpu", 10): LeaseUse(None, 0, 3),
    }


def test_a_non_preemptible_lease_is_reserved_before_older_preemptible_ones(kept: Kept) -> None:
    kept.reserve(0, 3)
    kept.begin(1, 1, 2)
    kept.begin(5, 2, 2, preemptible=FIRM)
    kept.settle()
    assert kept.stored == {
        (1, "gpu", 1): LeaseUse(5, 2, 0),
        (1, "gpu", 5): LeaseUse(None, 1, 1),
        (2, "gpu", 5): LeaseUse(None, 2, 0),
    }


def test_what_a_lease_leaves_goes_to_the_next_in_order(kept: Kept) -> None:
    kept.reserve(0, 5)
    for lease in (1, 2, 3):
        kept.begin(0, lease, 3)
    kept.settle()
    kept.end(4, 1)
    changes = kept.settle()
    assert changes == {
        (1, "gpu", 0): LeaseUse(4, 3, 0),
        (2, "gpu", 0): LeaseUse(4, 2, 1),
        (2, "gpu", 4): LeaseUse(None, 3, 0),
        (3, "gpu", 0): LeaseUse(4, 0, 3),
        (3, "gpu", 4): LeaseUse(None, 2, 1),
    }


def test_a_lease_that_borrows_changes_nothing_for_others_when_it_ends(kept: Kept) -> None:
    kept.reserve(0, 3)
    kept.begin(0, 1, 3)
    kept.begin(0, 2, 3)
    kept.settle()
    kept.end(7, 2)
    assert kept.settle() == {(2, "gpu", 0): LeaseUse(7, 0, 3)}


def test_a_reservation_that_changes_moves_the_edge_for_those_that_run(kept: Kept) -> None:
    kept.begin(0, 1, 2)
    kept.begin(0, 2, 2)
    kept.settle()
    kept.reserve(3, 3)
    kept.settle()
    kept.reserve(6, 1)
    kept.settle()
    assert kept.stored == {
        (1, "gpu", 0): LeaseUse(3, 0, 2),
        (1, "gpu", 3): LeaseUse(6, 2, 0),
        (1, "gpu", 6): LeaseUse(None, 1, 1),
        (2, "gpu", 0): LeaseUse(3, 0, 2),
        (2, "gpu", 3): LeaseUse(6, 1, 1),
        (2, "gpu", 6): LeaseUse(None, 0, 2),
    }


def test_of_two_reservations_at_one_moment_the_later_one_holds(kept: Kept) -> None:
    kept.reserve(0, 1, number=2)
    kept.reserve(0, 9, number=1)
    kept.begin(0, 1, 4)
    kept.settle()
    assert kept.stored == {(1, "gpu", 0): LeaseUse(None, 1, 3)}


def test_a_lease_that_ends_when_it_begins_was_never_there(kept: Kept) -> None:
    kept.begin(5, 1, 4)
    kept.end(5, 1)
    assert kept.settle() == {}


def test_a_release_that_becomes_known_late_changes_what_was_noted_since(kept: Kept) -> None:
    kept.reserve(0, 3)
    kept.begin(0, 1, 3)
    kept.begin(2, 2, 3)
    kept.settle()
    kept.begin(8, 3, 3)
    kept.end(9, 2)
    kept.settle()
    kept.end(5, 1)
    changes = kept.settle()
    assert changes == {
        (1, "gpu", 0): LeaseUse(5, 3, 0),
        (2, "gpu", 2): LeaseUse(5, 0, 3),
        (2, "gpu", 5): LeaseUse(9, 3, 0),
        (3, "gpu", 8): LeaseUse(9, 0, 3),
        (3, "gpu", 9): LeaseUse(None, 3, 0),
    }


def test_an_interval_that_turns_out_not_to_be_is_taken_back(kept: Kept) -> None:
    kept.reserve(0, 2)
    kept.begin(0, 1, 2)
    kept.begin(0, 2, 2)
    kept.settle()
    kept.end(6, 1)
    kept.settle()
    assert (2, "gpu", 6) in kept.stored
    kept.end(5, 2)
    assert kept.settle()[2, "gpu", 6] is None
    assert kept.stored == {(1, "gpu", 0): LeaseUse(6, 2, 0), (2, "gpu", 0): LeaseUse(5, 0, 2)}


def test_a_meter_says_when_it_would_have_to_remember_more(kept: Kept) -> None:
    kept.begin(0, 1, 2)
    kept.settle()
    kept.meter.forget(10)
    assert kept.meter.unknown_past is None
    kept.end(4, 1)
    assert (kept.meter.horizon, kept.meter.unknown_past) == (10, 4)
    kept.restore(4, {1: order_of(1, preemptible=True)}, [])
    assert kept.meter.unknown_past is None
    kept.settle()
    assert kept.stored == {(1, "gpu", 0): LeaseUse(4, 0, 2)}


def test_many_short_leases_beside_a_long_one_leave_nothing_behind(kept: Kept) -> None:
    kept.begin(0, 1, 2)
    sizes = []
    for lease in range(2, 2_000):
        kept.begin(lease, lease, 1)
        kept.end(lease + 1, lease)
        kept.settle()
        kept.meter.forget(lease)
        sizes.append(size(kept.meter) if lease % 100 < 10 else 0)
    assert max(sizes[1_000:]) < max(sizes[:1_000]) + 100


@dataclass(frozen=True)
class Event:
    """One thing that becomes known: `late` before now."""

    kind: str
    late: int
    amount: int
    preemptible: bool
    pick: int
    passed: int
    settle: bool
    forget: int | None


EVENTS = st.lists(
    st.builds(
        Event,
        st.sampled_from(["begin", "begin", "end", "end", "reserve"]),
        st.integers(0, 12),
        st.integers(1, 5),
        st.booleans(),
        st.integers(0, 99),
        st.integers(0, 3),
        st.booleans(),
        st.none() | st.integers(0, 15),
    ),
    max_size=40,
)


def the_slow_way(leases: dict[int, tuple[int, int | None, int]], reservations: list[Reservation]) -> dict[UseKey, LeaseUse]:
    """At every moment at which anything changes: all in order, until the reservation is used up."""
    moments = {moment for begun, ended, _ in leases.values() for moment in (begun, ended) if moment is not None}
    usage: dict[UseKey, LeaseUse] = {}
    now: dict[int, tuple[int, int, int]] = {}
    for moment in sorted(moments | {change.since for change in reservations}):
        left = next((change.amount for change in sorted(reservations, reverse=True) if change.since <= moment), 0)
        split = {}
        for order in sorted(leases):
            begun, ended, amount = leases[order]
            if begun <= moment and (ended is None or moment < ended):
                split[order] = (min(left, amount), amount - min(left, amount))
                left -= split[order][0]
        for order in [order for order in now if split.get(order) != now[order][1:]]:
            since, reserved, borrowed = now.pop(order)
            usage[order % PREEMPTIBLE, "gpu", since] = LeaseUse(moment, reserved, borrowed)
        for order, units in split.items():
            now.setdefault(order, (moment, *units))
    return usage | {(order % PREEMPTIBLE, "gpu", since): LeaseUse(None, *units) for order, (since, *units) in now.items()}


@settings(max_examples=examples(300), deadline=None)
@given(EVENTS)
def test_however_things_become_known_the_split_is_that_of_every_instant_and_adds_up(events: list[Event]) -> None:
    kept = Kept()
    leases: dict[int, tuple[int, int | None, int]] = {}
    reservations: list[Reservation] = []
    written = 0
    now = 20
    for number, thing in enumerate(events, 1):
        now += thing.passed
        open_orders = sorted(order for order, (_, ended, _) in leases.items() if ended is None)
        if thing.kind == "begin":
            order = order_of(number, preemptible=thing.preemptible)
            leases[order] = (now, None, thing.amount)
            kept.meter.begin(now, order, thing.amount)
        elif thing.kind == "end" and open_orders:
            order = open_orders[thing.pick % len(open_orders)]
            begun, _, amount = leases[order]
            leases[order] = (begun, max(begun, now - thing.late), amount)
            kept.meter.end(max(begun, now - thing.late), order)
        elif thing.kind == "reserve":
            reservations.append(Reservation(now, number, thing.amount))
            kept.meter.reserve(reservations[-1])
        if thing.settle:
            if kept.meter.unknown_past is not None:
                orders = {order % PREEMPTIBLE: order for order in leases}
                kept.restore(kept.meter.unknown_past, orders, reservations[:written])
            kept.settle()
            written = len(reservations)
            if thing.forget is not None:
                kept.meter.forget(now - thing.forget)
            assert kept.stored == the_slow_way(leases, reservations)
    for (lease, _, _), use in kept.stored.items():
        amount = next(amount for order, (_, _, amount) in leases.items() if order % PREEMPTIBLE == lease)
        assert use.reserved + use.borrowed == amount


def test_a_new_meter_remembers_everything() -> None:
    assert UsageMeter("gpu").horizon == ALWAYS
    assert UsageMeter("gpu").unknown_past is None
