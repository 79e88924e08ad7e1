"""Lines in which each group stands with its next job, ranked anew when accounts change."""

from __future__ import annotations

from headrace.domain.queueing.queue_projection import QueueProjection
from tests.unit.domain.hall import Hall


def line_of(hall, job):
    return QueueProjection(hall.state, job, {"hall": hall.pool})


def first(line, job):
    entry = line.first("hall", job.request)
    return entry and entry.job.key.rpartition(".")[2]


def test_each_group_stands_with_its_next_job_until_that_leaves():
    hall = Hall(devices=1)
    hall.policy("p")
    hall.policy("q", priority=5)
    for policy, name in (("p", "a"), ("p", "b"), ("q", "x")):
        hall.admit(policy, name)
    job = hall.admit("p", "c")
    line, seen = line_of(hall, job), []
    while entry := line.first("hall", job.request):
        seen.append(entry.job.key.rpartition(".")[2])
        line.leave(entry)
    assert seen == ["x", "a", "b", "c"]


def test_those_who_ask_for_something_else_stand_in_another_line():
    hall = Hall(devices=4)
    hall.policy("p")
    hall.policy("q", size=2)
    one, two = hall.admit("p", "a"), hall.admit("q", "x")
    line = line_of(hall, one)
    assert (line.requests, first(line, one), first(line, two)) == ([two.request, one.request], "a", "x")


def test_a_group_is_ranked_anew_when_its_policys_accounts_have_changed():
    hall = Hall(devices=2)
    hall.policy("p", reservation=1)
    hall.policy("q", priority=5)
    job = hall.admit("p", "a")
    hall.admit("q", "x")
    line = line_of(hall, job)
    seen = [first(line, job)]
    hall.run("p", "runs", ("n1", 0, 1))
    line.mark(job.policy)
    assert [*seen, first(line, job)] == ["a", "x"]


def test_one_that_something_but_room_keeps_out_stands_in_no_line_but_is_known_where_it_would():
    hall = Hall(devices=2)
    hall.policy("p", limit=1)
    hall.policy("q")
    hall.run("p", "runs", ("n1", 0, 1))
    job, other = hall.admit("p", "a"), hall.admit("q", "x")
    line = line_of(hall, job)
    assert (line.is_open("hall"), first(line, job)) == (False, "x")
    entry = line.first("hall", other.request)
    assert line.standing("hall", job) > entry.rank


def test_those_still_before_the_one_who_asks_are_counted_by_request():
    hall = Hall(devices=1)
    hall.policy("p")
    hall.policy("q", size=2, priority=5)
    for policy, name in (("p", "a"), ("p", "b"), ("q", "x"), ("q", "y")):
        hall.admit(policy, name)
    job = hall.admit("p", "c")
    hall.admit("p", "d")
    line, seen = line_of(hall, job), []
    for _ in range(3):
        seen.append(sorted((request.total["gpu"] // 126_000, count) for request, count in line.ahead("hall", job)))
        line.leave(line.first("hall", job.request))
    assert seen == [[(1, 2), (2, 2)], [(1, 1), (2, 2)], [(2, 2)]]


def test_one_that_stands_aside_joins_when_its_time_has_come():
    hall = Hall(devices=1)
    hall.policy("p")
    job = hall.admit("p", "a")
    hall.state.pending.remove(job)
    line = line_of(hall, job)
    seen = [first(line, job), line.rank("hall", job)]
    line.join(job)
    assert (seen, first(line, job)) == ([None, None], "a")


def test_all_who_ask_for_the_same_stand_in_one_line_and_each_has_a_rank():
    hall = Hall(devices=1)
    hall.policy("p")
    hall.policy("q", priority=5)
    jobs = {name: hall.admit(name, name) for name in ("p", "q")}
    line = line_of(hall, jobs["p"])
    heads = line.heads("hall", jobs["p"].request)
    assert [entry.job for entry in heads] == [jobs["q"], jobs["p"]]
    assert [line.rank("hall", entry.job) for entry in heads] == [entry.rank for entry in heads]
    assert line.oldest == jobs["p"].pending_since
