"""`headrace usage`: exact integers of the books as hours."""

from __future__ import annotations

import json

import pytest

from headrace.cli.books import hours
from headrace.contracts.durations import HOUR, parse_time
from headrace.contracts.queries import UsageAnswer, UsageRequest, UsageRow

GPU_HOUR = 126_000 * HOUR
ROW = UsageRow(
    group={"group": "rnd", "user": "alice"},
    key="gpu",
    total=str(3 * GPU_HOUR // 2),
    reserved=str(GPU_HOUR),
    borrowed=str(GPU_HOUR // 2),
    lost="0",
    jobs=2,
)


@pytest.mark.parametrize(
    ("key", "amount", "shown"),
    [
        ("gpu", GPU_HOUR, "1.0000"),
        ("gpu", GPU_HOUR // 7, "0.1429"),
        ("gpu", 10**12 * GPU_HOUR, "1000000000000.0000"),
        ("cpu", 1_000 * HOUR, "1.0000"),
        ("memory", 512 * HOUR, "0.5000"),
        ("license/abaqus", 2 * HOUR, "2.0000"),
        ("gpu", 0, "0.0000"),
    ],
)
def test_unit_microseconds_become_hours(key, amount, shown):
    assert hours(key, str(amount)) == shown


def test_the_books_are_asked_for_as_typed_and_shown_by_their_groups(headrace):
    answer = UsageAnswer(through=9, rows=(ROW,))
    ran = headrace("usage --by group,user --from 2026-11-01 --to 2026-12-01", query=answer)
    since, until = parse_time("2026-11-01"), parse_time("2026-12-01")
    request = UsageRequest(since=since, until=until, by=("group", "user"))
    assert ran.said == [("query", ("accounting", "usage", request, UsageAnswer), {})]
    assert ran.out.splitlines() == [
        "GROUP  USER   UNIT        TOTAL  RESERVED  BORROWED    LOST  JOBS",
        "rnd    alice  GPU-hours  1.5000    1.0000    0.5000  0.0000     2",
    ]


def test_programs_get_csv_or_json(headrace):
    answer = UsageAnswer(through=9, rows=(ROW,))
    assert headrace("usage --by user --csv", query=answer).out.splitlines() == [
        "user,unit,total,reserved,borrowed,lost,jobs",
        "alice,GPU-hours,1.5000,1.0000,0.5000,0.0000,2",
    ]
    told = json.loads(headrace("usage --by user --json", query=answer).out)
    assert (told["through"], told["rows"][0]["user"], told["rows"][0]["total"]) == (9, "alice", "1.5000")


def test_empty_books_say_so(headrace):
    assert headrace("usage", query=UsageAnswer(through=0, rows=())).out == "Nothing was used.\n"
