"""How leases ended, and what that makes of the attempt."""

import pytest

from headrace.domain.model.attempts import new_attempt, new_ending


def ending(exit_code=0, outcome="exited", rank=0):
    return new_ending(rank, outcome, exit_code, node="n1")


@pytest.mark.parametrize(
    ("exit_code", "outcome", "good"), [(0, "exited", True), (1, "exited", False), (None, "lost", False), (0, "killed", False)]
)
def test_only_a_process_that_left_by_itself_with_zero_ended_well(exit_code, outcome, good):
    assert ending(exit_code, outcome).is_success is good


@pytest.mark.parametrize(("codes", "code"), [([0, 3, 143], 3), ([0, 0], 0), ([None, 7], 7), ([None, 0], None), ([], None)])
def test_the_first_exit_code_that_tells_of_a_failure_is_that_of_the_attempt(codes, code):
    attempt = new_attempt(1, "hall", 5, 2, "")
    attempt.close([ending(each, rank=rank) for rank, each in enumerate(codes)], "failed", 9)
    assert (attempt.ended_at, attempt.cause, attempt.exit_code) == (9, "failed", code)
