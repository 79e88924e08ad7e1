from __future__ import annotations

import pytest

from headrace.node_executor.devices.health import OF_PROGRAMS, OF_THE_GPU, QUIET, Condition, Look, Trouble, trouble_of_xid

FINE = Look(recovery=0)
OFF = Trouble("xid", 79, "XID 79: it has fallen off the bus")


@pytest.mark.parametrize("number", sorted(OF_PROGRAMS))
def test_what_a_program_did_wrong_drains_nothing(number: int) -> None:
    assert trouble_of_xid(number) is None


def test_what_says_that_the_gpu_is_broken_drains_it_and_an_unknown_number_does_not() -> None:
    assert [trouble_of_xid(number) for number in (79, 999)] == [OFF, None]
    assert not OF_PROGRAMS & OF_THE_GPU.keys()


@pytest.mark.parametrize(
    ("look", "cause", "code"),
    [
        (Look(lost=True), "lost", 0),
        (Look(recovery=1), "recovery_action", 1),
        (Look(recovery=99), "recovery_action", 99),
        (Look(recovery=0, rows_pending=True), "row_remap", 0),
        (Look(recovery=0, rows_failed=True), "row_remap", 0),
    ],
)
def test_what_is_wrong_drains_it_once_and_it_returns_when_all_has_been_well_for_a_while(
    look: Look, cause: str, code: int
) -> None:
    condition = Condition()
    assert not condition.seen(FINE, 0)
    assert [condition.seen(look, at) for at in (10, 20)] == [True, False]
    assert condition.trouble is not None
    assert condition.trouble[:2] == (cause, code)
    assert [condition.seen(FINE, at) for at in (30, 20 + QUIET - 1)] == [False, False]
    assert condition.seen(FINE, 20 + QUIET)
    assert condition.trouble is None


def test_an_event_counts_until_nothing_has_been_wrong_for_a_while() -> None:
    condition = Condition()
    assert condition.happened(OFF, 5)
    assert not condition.happened(OFF, 10)
    assert [condition.seen(FINE, at) for at in (11, 10 + QUIET - 1, 10 + QUIET)] == [False, False, True]


def test_where_the_driver_gives_no_advice_an_event_counts_for_ever() -> None:
    condition = Condition()
    condition.happened(OFF, 0)
    assert [condition.seen(Look(recovery=None), at) for at in (QUIET, 100 * QUIET)] == [False, False]
    assert condition.trouble == OFF


def test_new_errors_in_memory_drain_it_and_old_ones_do_not() -> None:
    condition = Condition()
    assert not condition.seen(Look(recovery=0, uncorrected=7), 0)
    assert condition.seen(Look(recovery=0, uncorrected=9), 1)
    assert condition.trouble == Trouble("ecc", 2, "2 uncorrectable errors in its memory")
    assert condition.seen(Look(recovery=0, uncorrected=9), 1 + QUIET)
