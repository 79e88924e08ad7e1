"""`headrace archive` and `headrace audit export`, as far as they need no installation that is up."""

from __future__ import annotations

import json

import pytest

from headrace.archive import manifest
from headrace.cli.history.archive import by_itself
from headrace.cli.main import main
from headrace.contracts.messages.queries import ServiceView
from headrace.contracts.values.durations import HOUR
from tests.unit.archive.conftest import archive_of_two_months


@pytest.fixture
async def archive(tmp_path):
    return await archive_of_two_months(tmp_path / "archive")


def test_its_months_are_shown(archive, capsys):
    assert main(["archive", "status", "--archive", str(archive)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:4] for line in lines[:3]] == [
        ["MONTH", "FILES", "FROM", "THROUGH"],
        ["2026-10", "1", "1", "1"],
        ["2026-11", "1", "2", "2"],
    ]
    assert lines[-1] == f"{archive}; purged from the stream: nothing"
    assert main(["archive", "status", "--archive", str(archive), "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["through"], printed["purged"], [month["month"] for month in printed["months"]]) == (
        2,
        0,
        ["2026-10", "2026-11"],
    )


def test_without_one_the_way_to_one_is_shown(tmp_path, capsys):
    assert main(["archive", "status", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"No archive in {tmp_path}/archive: `headrace audit export` makes one.\n"


def test_a_check_names_what_is_wrong(archive, capsys):
    assert main(["archive", "check", "--archive", str(archive)]) == 0
    assert capsys.readouterr().out == f"{archive}: 2 files with records 1 to 2, all as they were written\n"
    (archive / manifest.read(archive).pieces[0].path).unlink()
    assert main(["archive", "check", "--archive", str(archive)]) == 1
    assert "(month 2026-10, records 1 to 1) is missing from the archive: bring it back from a backup" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["status", "check"])
def test_a_manifest_that_is_damaged_is_one_line(archive, capsys, verb):
    (archive / "manifest.json").write_bytes(b"{")
    assert main(["archive", verb, "--archive", str(archive)]) == 1
    assert capsys.readouterr().err.startswith(f"headrace: {archive}/manifest.json is damaged or cut short")


def test_an_export_needs_an_installation(tmp_path, capsys):
    assert main(["audit", "export", "--data", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err == f"headrace: {tmp_path}/none has no ledger; name the installation with --data\n"


def test_it_is_told_when_it_is_brought_up_to_date():
    view = ServiceView(service="audit", folded=17, now=1, engine="e", detail={"archive_every": 6 * HOUR})
    assert by_itself(view, 10) == "7 records are only in the stream; they are archived once one has waited for 6h"
    never = ServiceView(service="audit", folded=17, now=1, engine="e", detail={"archive_every": 0})
    assert (
        by_itself(never, 20) == "0 records are only in the stream; nothing is archived automatically (HEADRACE_ARCHIVE_EVERY)"
    )


def test_where_there_is_no_archive_nothing_is_said_to_be_whole(tmp_path, capsys):
    assert main(["archive", "check", "--archive", str(tmp_path / "typo")]) == 1
    assert capsys.readouterr().err == f"headrace: no archive in {tmp_path}/typo: `headrace audit export` makes one\n"
