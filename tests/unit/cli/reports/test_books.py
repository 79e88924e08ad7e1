"""`headrace usage`: exact integers of the books as hours."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

from headrace.cli.reports.books import hours
from headrace.client import Refused
from headrace.client.utilization import DeviceLoad, utilization
from headrace.contracts.messages.usage import UsageAnswer, UsageRequest, UsageRow
from headrace.contracts.values.durations import HOUR, parse_time

GPU_HOUR = 126_000 * HOUR
ROW = UsageRow(
    group={"group": "rnd", "user": "alice"},
    key="gpu",
    total=str(3 * GPU_HOUR // 2),
    reserved=str(GPU_HOUR),
    borrowed=str(GPU_HOUR // 2),
    lost="0",
    jobs=2,
    idle=str(GPU_HOUR // 4),
    cost="3.125000",
    measured=str(GPU_HOUR),
    busy=str(GPU_HOUR // 2),
    idle_held=str(GPU_HOUR // 8),
)
NOW = parse_time("2026-11-21")


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
    answer = UsageAnswer(through=9, rows=(ROW,), now=NOW, lines=1, currency="EUR")
    ran = headrace("usage --by group,user --from 2026-11-01 --to 2026-12-01", usage=answer)
    since, until = parse_time("2026-11-01"), parse_time("2026-12-01")
    request = UsageRequest(since=since, until=until, by=("group", "user"))
    assert ran.calls == [("usage", (request,), {"all_tenants": False})]
    assert ran.out.splitlines() == [
        "GROUP  USER   UNIT        TOTAL  RESERVED  BORROWED    IDLE    BUSY  IDLE_HELD  UNKNOWN  COST EUR  JOBS",
        "rnd    alice  GPU-hours  1.5000    1.0000    0.5000  0.2500  0.5000     0.1250   0.5000      3.12     2",
    ]
    assert ran.err == "headrace: this is the usage so far, until 2026-11-21T00:00:00.000Z\n"


def test_days_and_moments_are_those_of_the_zone_that_is_asked_for(headrace):
    answer = UsageAnswer(through=9, rows=(), now=NOW)
    ran = headrace("usage --from 2026-10 --to 2026-11-01T08:00 --timezone Europe/Berlin --per day --all-tenants", usage=answer)
    since, until = parse_time("2026-09-30T22:00:00Z"), parse_time("2026-11-01T07:00:00Z")
    request = UsageRequest(since=since, until=until, by=("group",), per="day", timezone="Europe/Berlin")
    assert ran.calls == [("usage", (request,), {"all_tenants": True})]


def test_the_pages_of_the_books_are_one_table_as_of_the_first(headrace):
    first = UsageAnswer(through=9, rows=(ROW,), now=NOW, more="2")
    second = UsageAnswer(through=11, rows=(ROW, ROW), now=NOW + 5)
    ran = headrace("usage --by group,user --csv", usage=[first, second])
    assert len(ran.out.splitlines()) == 4
    assert json.loads(headrace("usage --by group,user --json", usage=[first, second]).out)["through"] == 9


def test_books_that_change_between_two_pages_are_told(headrace):
    first = UsageAnswer(through=9, rows=(ROW,), now=NOW, more="2")
    ran = headrace(
        "usage --by group,user", usage=[first, Refused("STALE", "the books of that time have just changed; ask again")]
    )
    assert ran[:3] == (1, "", "headrace: the books of that time have just changed; ask again\n")


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("usage --from 2026-11-02 --to 2026-11-01", "--from 2026-11-02 is not before --to 2026-11-01"),
        ("usage --from 2999-01", "--from 2999-01 is in the future"),
        ("usage --from yesterday", "--from: invalid time 'yesterday': write 2026-11, 2026-11-21,"),
        ("usage --to 2026-13", "--to: invalid time '2026-13'"),
        ("usage --timezone Mars", "--timezone: unknown zone 'Mars'; write one such as Europe/Berlin"),
    ],
)
def test_times_that_make_no_sense_are_refused_by_the_name_of_their_flag(headrace, line, complaint):
    ran = headrace(line)
    assert ran.code == 1
    assert ran.err.startswith(f"headrace: {complaint}")


def test_a_name_that_a_spreadsheet_would_calculate_is_not_a_formula(headrace):
    answer = UsageAnswer(through=9, rows=(structs.replace(ROW, group={"user": "=HYPERLINK(1)"}),))
    (_, line) = headrace("usage --by user --csv", usage=answer).out.splitlines()
    assert line.split(",")[0] == "'=HYPERLINK(1)"


def test_programs_get_csv_or_json(headrace):
    answer = UsageAnswer(through=9, rows=(ROW,))
    assert headrace("usage --by user --csv", usage=answer).out.splitlines() == [
        "user,unit,total,reserved,borrowed,idle,suspended,lost,waiting,kept,provider_lost,busy,idle_held,unknown,cost,jobs",
        "alice,GPU-hours,1.5000,1.0000,0.5000,0.2500,0.0000,0.0000,0.0000,0.0000,0.0000,0.5000,0.1250,0.5000,3.125000,2",
    ]
    printed = json.loads(headrace("usage --by user --json", usage=answer).out)
    assert (printed["through"], printed["rows"][0]["user"], printed["rows"][0]["total"]) == (9, "alice", "1.5000")
    assert printed["rows"][0]["exact"]["idle"] == str(GPU_HOUR // 4)


def test_empty_books_say_so(headrace):
    assert headrace("usage", usage=UsageAnswer(through=0, rows=())).out == "Nothing was used.\n"


def test_the_books_come_in_one_form(headrace):
    assert headrace("usage --json --csv").err == "headrace: --json: use either --json or --csv\n"


IDLE = utilization(
    {
        "holders": [
            {
                "job": "tenants/acme/jobs/x",
                "display_name": "notebook",
                "user": "alice",
                "queue": "rnd/any",
                "node": "n1",
                "gpus": "2",
                "held": "5400",
                "average": 1,
            }
        ],
        "idle_nodes": [{"node": "n2", "pool": "hq", "gpus": "8"}],
        "unknown": 3,
    }
)


def test_what_is_idle_now_is_listed_by_job_and_node(headrace):
    ran = headrace("usage --idle", utilization=IDLE)
    assert ran.out.splitlines() == [
        "These jobs hold GPUs that computed nearly nothing in the last ten minutes:",
        "JOB                  NAME      USER   QUEUE    NODE  GPUS  HELD   BUSY",
        "tenants/acme/jobs/x  notebook  alice  rnd/any  n1       2  1h30m  1 %",
        "The load of 3 held GPUs is unknown.",
        "No job runs on these nodes:",
        "NODE  POOL  GPUS",
        "n2    hq       8",
    ]
    printed = json.loads(headrace("usage --idle --json", utilization=IDLE).out)
    assert (printed["holders"][0]["held"], printed["idle_nodes"], printed["unknown"]) == (
        5_400,
        [{"node": "n2", "pool": "hq", "gpus": "8"}],
        3,
    )


def test_without_idle_jobs_that_is_said(headrace):
    assert headrace("usage --idle", utilization=utilization({})).out == "No job holds GPUs that are known to be idle.\n"


@pytest.mark.parametrize("flag", ["--csv", "--from 24h", "--per day", "--all-tenants"])
def test_what_is_idle_is_about_now_and_takes_no_period(headrace, flag):
    complaint = f"headrace: --idle: it shows the present and all that you may see, so it takes no {flag.split()[0]}\n"
    assert headrace(f"usage --idle {flag}").err == complaint


def test_the_load_of_devices_is_unknown_where_they_cannot_tell():
    columns = {
        "node": ["n1", "n1"],
        "name": ["gpu0", "gpu1"],
        "busy": [-1, 7],
        "average": [-1, 5],
        "memory": [0, 9],
        "held": [0, 8],
        "idle": [0, 1],
    }
    assert utilization({"devices": columns}).devices == (
        DeviceLoad(node="n1", device="gpu0", busy=None, average=None, memory=0, held=0, idle=False),
        DeviceLoad(node="n1", device="gpu1", busy=7, average=5, memory=9, held=8, idle=True),
    )
