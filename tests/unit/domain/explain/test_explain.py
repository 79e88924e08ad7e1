"""R22: the whole answer: who is in the way, the place in line, the earliest start."""

from headrace.domain.explain.explain import explain
from tests.unit.domain.hall import Hall


def test_other_tenants_are_one_line_and_never_a_name():
    hall = Hall(devices=2)
    hall.policy("theirs", tenant="rival", reservation=2, size=2)
    hall.run("theirs", "v", ("n1", 0, 2), tenant="rival")
    hall.policy("mine", size=1)
    why = explain(hall.state, hall.admit("mine", "j"), hall.now)
    assert why.blockers == ("other tenants: 2 GPUs",)


def test_the_whole_answer_names_the_earliest_start_by_the_time_limits_of_those_who_run():
    hall = Hall(devices=1)
    hall.policy("p", limit=1)
    first = hall.run("p", "first", ("n1", 0, 1), time_limit=60_000_000)
    why = explain(hall.state, hall.admit("p", "j"), hall.now)
    assert (why.state, why.reason, why.position, why.expected_start) == (
        "pending",
        "AT_POLICY_LIMIT",
        1,
        first.started_at + 60_000_000,
    )


def test_a_job_that_does_not_wait_says_so():
    hall = Hall()
    hall.policy("p")
    why = explain(hall.state, hall.run("p", "j", ("n1", 0, 1)), hall.now)
    assert (why.reason, why.message) == ("", "it is not waiting: it is running on n1")
