"""The answer to *why* as people read it."""

from __future__ import annotations

import time
from pathlib import Path

from headrace.cli.main import main
from headrace.cli.output.explain_view import because
from headrace.cli.output.formatting import local
from headrace.contracts.messages.explanation import (
    ChangeView,
    Holder,
    KeyNeed,
    PoolNeed,
    ReclaimView,
    UnusableView,
    Waiter,
    WhyView,
)

ROOT = Path(__file__).parents[4]
ID = "01jd3v8k5w2m4x6z8b0c2e4g6h"
KEY = f"acme.alice.{ID}"
NOW = 1_800_000_000_000_000
LATER = NOW + 3_600_000_000


def test_what_is_not_known_is_left_out():
    view = WhyView(job=KEY, state="running", reason="", message="it is not waiting: it is running on n1")
    assert because(view).splitlines() == ["state    running", "because  it is not waiting: it is running on n1"]


def test_a_budget_that_may_bite_later_is_noted():
    """R33."""
    view = WhyView(
        job=KEY, state="pending", reason="NO_FREE_CAPACITY", message="m", notes=("budget gpu per day of policy p: soon",)
    )
    assert because(view).splitlines()[-1] == "note     budget gpu per day of policy p: soon"


def test_the_whole_answer_is_a_few_lines_and_a_table_each_of_pools_holders_and_those_before_it():
    view = WhyView(
        job=KEY,
        state="pending",
        reason="NO_FREE_CAPACITY",
        message="not enough is free",
        blockers=(KEY, "and 4 more", "other tenants: 2 GPUs"),
        position=3,
        expected_start=LATER,
        assumption="running jobs end at their time limits",
        pools=(
            PoolNeed(
                pool="hall",
                reason="NO_FREE_CAPACITY",
                fit="sum",
                keys=(KeyNeed(key="gpu", asked=252_000, free=0, missing=252_000),),
                scope="policy acme/p",
            ),
        ),
        behind=(Waiter(job=KEY, request={"gpu": 126_000}), Waiter(request={"gpu": 504_000})),
        behind_more=1,
        holders=(
            Holder(job=KEY, request={"gpu": 252_000}, pool="hall", nodes=("n1",), until=LATER),
            Holder(request={"gpu": 252_000}),
        ),
        holders_more=4,
        reclaim=ReclaimView(could=False, why="no policy in pool hall holds more than its reservation"),
        cheapest=ChangeView(kind="wait", text=f"wait for job {KEY} to end", start=LATER, job=KEY),
        sequence=7,
        now=NOW,
    )
    then = local(LATER)
    assert because(view).splitlines() == [
        "state            pending",
        "reason           NO_FREE_CAPACITY",
        "because          not enough is free",
        "position         3",
        "could reclaim    no: no policy in pool hall holds more than its reservation",
        f"expected start   {then}, if running jobs end at their time limits",
        f"cheapest change  wait for job {ID} to end: it would start {then}",
        f"as of            record 7, {local(NOW)}",
        "",
        "POOL  REASON            FITS  ASKS   FREE     MISSING  IN THE WAY",
        "hall  NO_FREE_CAPACITY  no    gpu 2  nothing  gpu 2    policy acme/p",
        "",
        "HELD BY                     HOLDS   NODES  PREEMPTIBLE  GONE BY",
        f"{ID}  gpu 2   n1     yes          {then}",
        "other tenants               2 GPUs",
        "and 4 more",
        "",
        "BEHIND                      ASKS",
        f"{ID}  gpu 1",
        "other tenants               4 GPUs",
        "and 1 more",
    ]


def test_what_is_unusable_for_it_has_a_table_with_the_cause_and_who_caused_it():
    causes = (
        UnusableView(key="gpu", node="n2", cause="cordoned", amount=252_000, by="acme.olga", since=NOW),
        UnusableView(key="gpu", node="n3", cause="model", amount=63_000, detail="A100"),
    )
    need = PoolNeed(pool="hall", reason="NO_FREE_CAPACITY", fit="sum", unusable=causes)
    view = WhyView(job=KEY, state="pending", reason="NO_FREE_CAPACITY", message="m", pools=(need,), now=NOW)
    assert because(view).splitlines()[-3:] == [
        "UNUSABLE  POOL  NODE  BECAUSE      BY         SINCE",
        f"gpu 2     hall  n2    cordoned     acme.olga  {local(NOW)}",
        "gpu 0.5   hall  n3    model: A100",
    ]


def test_a_change_that_starts_it_at_once_says_where():
    cheapest = ChangeView(kind="request", text="ask for 3 gpu instead of 4", start=NOW, pool="hall")
    view = WhyView(job=KEY, state="pending", reason="NO_FREE_CAPACITY", message="m", cheapest=cheapest, now=NOW)
    assert because(view).splitlines()[-1] == "cheapest change  ask for 3 gpu instead of 4: it would start now in pool hall"


def test_what_it_could_take_back_is_told_with_when():
    reclaim = ReclaimView(could=True, why="enough is borrowed in pool hall", at=LATER)
    view = WhyView(job=KEY, state="pending", reason="NO_FREE_CAPACITY", message="m", assumption="a", reclaim=reclaim, now=NOW)
    assert because(view).splitlines()[-2:] == [
        f"could reclaim   yes by {local(LATER)}: enough is borrowed in pool hall",
        "expected start  unknown: a",
    ]


def test_the_answer_in_the_readme_is_what_is_answered(monkeypatch, capsys):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    monkeypatch.chdir(ROOT)
    block = (ROOT / "docs/guide.md").read_text(encoding="utf-8").partition("```\n$ headrace simulate")[2].partition("```")[0]
    command, _, answer = block.partition("\n")
    assert main(["simulate", *command.split()]) == 0
    assert capsys.readouterr().out == answer
    monkeypatch.undo()
    time.tzset()
