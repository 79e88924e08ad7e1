from __future__ import annotations

import pytest

from headrace.node_executor.devices.health import (
    BY_RESET,
    OF_PROGRAMS,
    OF_THE_GPU,
    QUIET,
    Condition,
    HealthReading,
    Trouble,
    trouble_of_xid,
)

FINE = HealthReading(recovery=0)
NVLINK = Trouble("xid", 74, "XID 74: an error of NVLink")
OFF = Trouble("xid", 79, "XID 79: it has fallen off the bus")


@pytest.mark.parametrize("number", sorted(OF_PROGRAMS))
def test_what_a_program_did_wrong_drains_nothing(number: int) -> None:
    assert trouble_of_xid(number) is None


def test_what_says_that_the_gpu_is_broken_drains_it_and_an_unknown_number_does_not() -> None:
    assert [trouble_of_xid(number) for number in (79, 999)] == [OFF, None]
    assert not OF_PROGRAMS & OF_THE_GPU.keys()


@pytest.mark.parametrize(
    ("reading", "cause", "code"),
    [
        (HealthReading(lost=True), "lost", 0),
        (HealthReading(recovery=1), "recovery_action", 1),
        (HealthReading(recovery=99), "recovery_action", 99),
        (HealthReading(recovery=0, rows_pending=True), "row_remap", 0),
        (HealthReading(recovery=0, rows_failed=True), "row_remap", 0),
    ],
)
def test_what_is_wrong_drains_it_once_and_it_returns_when_all_has_been_well_for_a_while(
    reading: HealthReading, cause: str, code: int
) -> None:
    condition = Condition()
    assert not condition.seen(FINE, 0)
    assert [condition.seen(reading, at) for at in (10, 20)] == [True, False]
    assert condition.trouble is not None
    assert condition.trouble[:2] == (cause, code)
    assert [condition.seen(FINE, at) for at in (30, 20 + QUIET - 1)] == [False, False]
    assert condition.seen(FINE, 20 + QUIET)
    assert condition.trouble is None


def test_an_event_counts_until_nothing_has_been_wrong_for_a_while() -> None:
    condition = Condition()
    assert condition.happened(NVLINK, 5)
    assert not condition.happened(NVLINK, 10)
    assert [condition.seen(FINE, at) for at in (11, 10 + QUIET - 1, 10 + QUIET)] == [False, False, True]


@pytest.mark.parametrize("number", sorted(BY_RESET))
@pytest.mark.parametrize("sign", [HealthReading(lost=True), HealthReading(recovery=1)])
def test_what_only_a_reset_mends_counts_until_one_was_seen(number: int, sign: HealthReading) -> None:
    condition, trouble = Condition(), trouble_of_xid(number)
    assert trouble is not None
    condition.seen(FINE, 0)
    condition.happened(trouble, 5)
    assert [condition.seen(FINE, at) for at in (10, QUIET + 5, 1_000 * QUIET)] == [False, False, False]
    assert [condition.seen(reading, 1_000 * QUIET + at) for at, reading in enumerate((sign, FINE), start=1)] == [False, False]
    assert condition.seen(FINE, 1_001 * QUIET + 2)
    assert condition.trouble is None


def test_a_count_of_errors_that_begins_again_tells_of_a_reset() -> None:
    condition = Condition()
    condition.seen(HealthReading(recovery=0, uncorrected=7), 0)
    condition.happened(OFF, 5)
    assert not condition.seen(HealthReading(recovery=0, uncorrected=7), 2 * QUIET)
    assert condition.seen(HealthReading(recovery=0, uncorrected=0), 3 * QUIET)


def test_a_lesser_event_does_not_make_one_forgotten_that_only_a_reset_mends() -> None:
    condition = Condition()
    condition.happened(OFF, 5)
    condition.happened(NVLINK, 6)
    assert not condition.seen(FINE, 100 * QUIET)


def test_where_the_driver_gives_no_advice_an_event_counts_for_ever() -> None:
    condition = Condition()
    condition.happened(OFF, 0)
    assert [condition.seen(HealthReading(recovery=None), at) for at in (QUIET, 100 * QUIET)] == [False, False]
    assert condition.trouble == OFF


def test_new_errors_in_memory_drain_it_and_old_ones_do_not() -> None:
    condition = Condition()
    assert not condition.seen(HealthReading(recovery=0, uncorrected=7), 0)
    assert condition.seen(HealthReading(recovery=0, uncorrected=9), 1)
    assert condition.trouble == Trouble("ecc", 2, "2 uncorrectable errors in its memory")
    assert condition.seen(HealthReading(recovery=0, uncorrected=9), 1 + QUIET)
