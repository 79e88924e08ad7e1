"""`headrace statement`: the text of the books, whole, or as a table."""

from __future__ import annotations

import json
import os
import re

import pytest

from headrace.contracts.messages.usage import StatementRequest

DOCUMENT = {
    "tenant": "acme",
    "month": "2026-10",
    "timezone": "UTC",
    "final": True,
    "currency": "EUR",
    "lines": [
        {
            **dict.fromkeys(("group", "policy"), "rnd"),
            "profile": "half",
            "user": "alice",
            "pool": "hq",
            "kind": "on demand",
            "unit": "GPU-Hours",
            "quantity": "1.333333",
            "rate": "2.500000",
            "cost": "3.333333",
        }
    ],
    "by_kind": {"on demand": "3.333333"},
    "lost_to_preemption": "0.000000",
    "total": "3.333333",
}


def test_people_get_a_table_and_the_total(headrace):
    ran = headrace("statement --tenant acme --month 2026-10", statement=(json.dumps(DOCUMENT), True))
    assert ran.calls == [("statement", (StatementRequest(month="2026-10"),), {"of_instances": False})]
    assert ran.out.splitlines()[-2:] == [
        "GROUP  POLICY  PROFILE  USER   POOL  KIND       UNIT       QUANTITY    RATE  COST EUR",
        "rnd    rnd     half     alice  hq    on demand  GPU-Hours    1.3333  2.5000      3.33",
    ]
    assert "total               3.333333 EUR" in ran.out
    assert ran.err == ""


@pytest.mark.parametrize(("flag", "form"), [("--csv", "csv"), ("--focus", "focus"), ("--json", "json")])
def test_programs_get_the_bytes_of_the_books(headrace, flag, form):
    ran = headrace(f"statement --month 2026-10 {flag}", statement=("ab\nc\n", True))
    assert ran.out == "ab\nc\n"
    assert ran.calls == [("statement", (StatementRequest(month="2026-10", form=form),), {"of_instances": False})]


def test_without_a_month_it_is_this_one_and_an_invalid_zone_is_refused(headrace):
    ran = headrace("statement --csv", statement=("x\n", True))
    assert re.fullmatch("20[0-9]{2}-[01][0-9]", ran.calls[0][1][0].month)
    assert headrace("statement --timezone Mars").err.startswith("headrace: --timezone: unknown zone 'Mars'")


def test_what_is_not_final_is_said_beside_it(headrace):
    document = DOCUMENT | {"final": False, "reaches": "2026-10-05T00:00:00.000Z", "lines": []}
    ran = headrace("statement --month 2026-10", statement=(json.dumps(document), False))
    assert "so far, to 2026-10-05" in ran.out
    assert ran.out.endswith("Nothing was charged.\n")
    assert ran.err.startswith("headrace: 2026-10 is not final yet")


def test_it_is_written_into_a_file_or_the_complaint_names_that(headrace, tmp_path):
    headrace(f"statement --month 2026-10 --csv --output {tmp_path}/a.csv", statement=("x\n", True))
    assert (tmp_path / "a.csv").read_text() == "x\n"
    ran = headrace(f"statement --month 2026-10 --csv --output {tmp_path}/no/a.csv", statement=("x\n", True))
    assert (ran.code, ran.err.startswith("headrace: --output: ")) == (1, True)


def test_a_full_disk_leaves_what_was_there_and_says_what_to_do(headrace, tmp_path, monkeypatch):
    file = tmp_path / "a.csv"
    file.write_text("of yesterday\n")

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ran = headrace(f"statement --month 2026-10 --csv --output {file}", statement=("x\n", True))
    message = f"headrace: --output: {file} cannot be written: No space left on device; make room there, then try again\n"
    assert (ran.code, ran.err, file.read_text(), [*tmp_path.iterdir()]) == (1, message, "of yesterday\n", [file])


@pytest.mark.parametrize("flag", ["--csv", "--focus"])
def test_a_statement_has_one_form(headrace, flag):
    ran = headrace(f"statement --json {flag}")
    assert (ran.code, ran.err) == (1, "headrace: --json: use one of --json, --csv and --focus\n")


def test_what_instances_cost_is_shown_by_offer_and_by_what_it_was_for(headrace):
    line = {"pool": "cloud", "offer": "spot", "market": "spot", "instance": "cloud-1", "what": "booting", "tenant": ""}
    document = {
        "month": "2026-10",
        "timezone": "UTC",
        "final": True,
        "currency": "EUR",
        "overhead": "0.200000",
        "total": "1.500000",
        "lines": [line | {"hours": "0.100000", "cost": "0.200000"}],
        "by_offer": {"cloud/spot": "1.500000"},
        "by_what": {"booting": "0.200000", "used": "1.300000"},
    }
    ran = headrace("statement --instances --month 2026-10", statement=(json.dumps(document), True))
    assert ran.calls == [("statement", (StatementRequest(month="2026-10"),), {"of_instances": True})]
    assert ran.out.splitlines() == [
        "month             2026-10 (UTC)",
        "state             final",
        "offer cloud/spot  1.500000 EUR",
        "booting           0.200000 EUR",
        "used              1.300000 EUR",
        "overhead          0.200000 EUR: booting and idle",
        "total             1.500000 EUR",
        "",
        "POOL   OFFER  MARKET  INSTANCE  WHAT      HOURS  COST EUR",
        "cloud  spot   spot    cloud-1   booting  0.1000      0.20",
    ]
