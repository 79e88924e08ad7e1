"""A line in which each group stands with its next job, ranked anew when accounts change."""

from __future__ import annotations

from headrace.domain.line import Line
from tests.unit.domain.hall import Hall


def names(line):
    return [entry.job.key.rpartition(".")[2] for entry in line.of("hall")]


def test_each_group_stands_with_its_next_job_until_that_leaves():
    hall = Hall(devices=1)
    hall.policy("p")
    hall.policy("q", priority=5)
    for policy, name in (("p", "a"), ("p", "b"), ("q", "x")):
        hall.admit(policy, name)
    job = hall.admit("p", "c")
    line, seen = Line(hall.state, job, {"hall": hall.pool}), []
    for _ in range(3):
        line.refresh()
        seen.append(names(line))
        line.leave(line.of("hall")[0])
    assert seen == [["x", "a"], ["a"], ["b"]]


def test_a_group_is_ranked_anew_when_its_policys_accounts_have_changed():
    hall = Hall(devices=2)
    hall.policy("p", reservation=1)
    hall.policy("q", priority=5)
    job = hall.admit("p", "a")
    hall.admit("q", "x")
    line = Line(hall.state, job, {"hall": hall.pool})
    line.refresh()
    seen = [names(line)]
    hall.run("p", "runs", ("n1", 0, 1))
    line.mark(job.policy)
    assert line.refresh() == 1
    assert [*seen, names(line)] == [["a", "x"], ["x", "a"]]


def test_the_job_itself_stands_there_even_where_it_is_closed():
    hall = Hall(devices=2)
    hall.policy("p", limit=1)
    hall.policy("q", limit=0)
    hall.run("p", "runs", ("n1", 0, 1))
    job = hall.admit("p", "a")
    hall.admit("q", "x")
    line = Line(hall.state, job, {"hall": hall.pool})
    line.refresh()
    assert [(entry.job, entry.closed) for entry in line.of("hall")] == [(job, True)]
