"""Waits by cluster and size, and whether a cluster had its share while it asked for the whole of it."""

from __future__ import annotations

from bench import philly, trace_baselines, trace_split
from bench.philly import Job
from bench.trace import Outcome, simple

JOBS = [
    Job(0, 0, 100, 8, "a"),
    Job(1, 0, 100, 4, "b"),
    Job(2, 10, 100, 1, "b"),
    Job(3, 200, 100, 16, "a"),
]
FOUND = Outcome(
    {0: 0, 1: 0, 2: 60, 3: 200}, {0: 100, 1: 100, 2: 160, 3: 300}, [(0, 100, 0), (0, 100, 1), (60, 160, 2), (200, 300, 3)]
)


def test_waits_are_split_by_cluster_and_size_of_the_job():
    found = trace_split.waits(JOBS, FOUND)

    assert {key: (row["jobs"], row["mean_s"], row["p95_s"]) for key, row in found.items()} == {
        ("a", "8"): (1, 0, 0),
        ("a", ">8"): (1, 0, 0),
        ("a", "all"): (2, 0, 0),
        ("all", "1"): (1, 50, 50),
        ("all", "2-7"): (1, 0, 0),
        ("all", "8"): (1, 0, 0),
        ("all", ">8"): (1, 0, 0),
        ("all", "all"): (4, 12.5, 50),
        ("b", "1"): (1, 50, 50),
        ("b", "2-7"): (1, 0, 0),
        ("b", "all"): (2, 25, 50),
    }
    assert trace_split.late_jobs(JOBS, FOUND, 49) == {("b", "1"): 1, ("b", "all"): 1, ("all", "1"): 1, ("all", "all"): 1}


def test_a_share_is_honoured_while_no_job_that_waits_would_fit_in_what_is_left_of_it():
    """Of b's 5 GPUs the whole is asked for from 10 to 100; from 10 to 60 a job of 1 GPU waits beside 4 that run."""
    assert trace_split.honoured(JOBS, {"a": 64, "b": 5}, FOUND) == {"a": None, "b": 100 * 40 / 90}


def test_a_job_that_is_larger_than_what_is_left_of_the_share_asks_for_more_than_the_share():
    jobs = [Job(0, 0, 100, 8, "a"), Job(1, 0, 100, 8, "a"), Job(2, 100, 10, 1, "a")]
    found = Outcome({0: 0, 1: 100, 2: 200}, {0: 100, 1: 200, 2: 210}, [(0, 100, 0), (100, 200, 1), (200, 210, 2)])

    assert trace_split.honoured(jobs, {"a": 12}, found) == {"a": 100.0}


def test_a_job_that_was_preempted_waits_again_for_the_share():
    jobs = [Job(0, 0, 100, 8, "a"), Job(1, 100, 10, 1, "b")]
    found = Outcome({0: 0, 1: 100}, {0: 150, 1: 110}, [(0, 50, 0), (75, 150, 0), (100, 110, 1)])

    assert trace_split.honoured(jobs, {"a": 8}, found) == {"a": 75.0}


def test_the_table_has_a_line_for_each_cluster_and_size_and_shows_who_is_late():
    shares = philly.shares(JOBS, 3)
    rows = {name: simple(JOBS, 3, choose) for name, choose in (("b", trace_baselines.borrowing), ("f", trace_baselines.fifo))}

    _, _, names, head, *lines = trace_split.lines(JOBS, shares, rows)

    assert names.split() == ["|", "b", "|", "f"]
    assert head.split("|")[1].split() == ["wait", "mean", "p95", "late", "had", "%"]
    assert [line.split("|")[0].split() for line in lines] == [
        ["a", "16", "8", "1"],
        ["a", "16", ">8", "1"],
        ["a", "16", "all", "2"],
        ["all", "1", "1"],
        ["all", "2-7", "1"],
        ["all", "8", "1"],
        ["all", ">8", "1"],
        ["all", "all", "4"],
        ["b", "8", "1", "1"],
        ["b", "8", "2-7", "1"],
        ["b", "8", "all", "2"],
    ]
