"""`REWRITE=1 make scenarios`: values that differ are replaced where they stand, and the rest of the file remains."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.rewriting import CannotRewriteError, main, rewritten

SCENARIO = """# One GPU, two jobs.
nodes: [{name: n, labels: {site: a}, gpus: 1}]
pools: [{name: a, selector: {site: a}}]
profiles: [{name: one, request: {gpu: 1}, pools: [a]}]
policies: [{name: q, profiles: [one]}]
timeline:
  - {at: 0s, submit: {name: first, queue: q/one, duration: 10s}}
  # The order of the lines and the comments stay.
  - {at: 1s, submit: {name: second, queue: q/one}}
  - at: 1s
    expect:
      reasons: {second: %(reason)s}     # why it waits
      jobs: {"first":   running, second: '%(second)s'}
      pools:
        a: {gpu: {used: %(used)s, free: 0.0}}
      preemptions: %(preemptions)s
  - {at: 11s, expect: {jobs: {second: %(later)s}, job_pools: {second: %(pool)s}, policies: {q: {gpu: {borrowed: 1/1}}}}}
"""
WRONG = {"reason": "FROZEN", "second": "running", "used": "1/7", "preemptions": 3, "later": "pending", "pool": "none"}
RIGHT = {"reason": "NO_FREE_CAPACITY", "second": "pending", "used": "1", "preemptions": 0, "later": "running", "pool": "a"}


def test_values_that_differ_are_replaced_and_everything_else_stays():
    expected = (SCENARIO % RIGHT).replace("'pending'", "pending")
    assert rewritten(SCENARIO % WRONG) == expected


def test_a_scenario_that_holds_stays_as_it_is_also_where_it_writes_a_value_in_another_way():
    assert rewritten(SCENARIO % RIGHT) == SCENARIO % RIGHT


def test_what_does_not_exist_is_left_to_its_author():
    with pytest.raises(CannotRewriteError, match="job third: never submitted"):
        rewritten((SCENARIO % RIGHT).replace('"first":   running', "third: running"))


def test_the_files_that_changed_are_named(tmp_path: Path, capsys):
    for name, text in (
        ("holds.yaml", SCENARIO % RIGHT),
        ("differs.yaml", SCENARIO % WRONG),
        ("broken.yaml", (SCENARIO % WRONG).replace('"first":   running', "third: running")),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")

    code = main(tmp_path)

    output = capsys.readouterr()
    assert code == 1
    assert output.out == "rewritten: differs.yaml\n"
    assert output.err == "broken.yaml: cannot be rewritten: job third: never submitted\n"
    assert (tmp_path / "differs.yaml").read_text(encoding="utf-8") == (SCENARIO % RIGHT).replace("'pending'", "pending")
    assert (tmp_path / "holds.yaml").read_text(encoding="utf-8") == SCENARIO % RIGHT
