"""How services stand that run elsewhere: as they say of themselves."""

from __future__ import annotations

import json

import pytest

from headrace.cli.arguments import Failed
from headrace.cli.output.service_status import count_in, found, show_services, status_row, troubles
from headrace.contracts.messages.installation import InstallationView
from headrace.contracts.messages.queries import ServiceView


def view(**detail):
    return ServiceView(service="x", folded=17, now=1, engine="headrace/0", detail=detail)


def test_what_one_says_of_itself():
    assert status_row("feed", view(jobs=3, other=1), 20) == {
        "name": "feed",
        "state": "running",
        "folded": 17,
        "lag": 3,
        "engine": "headrace/0",
        "reads": 1,
        "jobs": 3,
    }
    assert status_row("allocator-standby", view(decides=0), 17)["state"] == "standby"
    assert status_row("callout", view(), 20) == {"name": "callout", "state": "running", "engine": "headrace/0", "reads": 1}
    assert status_row("audit", None, 20) == {"name": "audit", "state": "silent"}


def test_what_is_wrong_with_one_that_works_is_told_once_for_all():
    troubled = ServiceView(service="audit", folded=17, now=1, engine="e", trouble="no room")
    assert status_row("audit", troubled, 17)["trouble"] == "no room"
    rows = [{"name": "audit", "trouble": "no room"}, {"name": "feed", "trouble": ""}, {"name": "nats", "trouble": "no room"}]
    assert troubles([*rows, {"name": "x"}]) == ["audit, nats: no room"]


def test_findings_are_loud():
    assert found([{"findings": 0}, {}]) == []
    assert found([{"findings": 2}, {"findings": 1}])[0].startswith("THE LEDGER IS NOT AS IT WAS WRITTEN OR DECIDED: 3 findings")
    assert found([{"findings": 1}])[0].endswith("1 finding; `headrace audit verify` says what and where")
    assert (count_in("x"), count_in(3)) == (0, 3)


def test_a_standby_that_does_not_answer_is_ignored_and_any_other_is_missing(capsys):
    here = {"directory": "/d"}
    views = {"feed": view(jobs=3), "allocator": view(decides=1), "allocator-standby": None}
    assert show_services(here, InstallationView(tip=17, services=views), "", json=False) == 0
    out = capsys.readouterr().out
    assert [line.split()[:4] for line in out.splitlines()[3:]] == [
        ["feed", "running", "17", "0"],
        ["allocator", "running", "17", "0"],
    ]
    with pytest.raises(Failed, match="^feed: no answer$"):
        show_services(here, InstallationView(tip=17, services={"feed": None}), "", json=True)
    assert json.loads(capsys.readouterr().out)["parts"] == [{"name": "feed", "state": "silent"}]
    with pytest.raises(Failed, match="^NATS is away$"):
        show_services(here, InstallationView(tip=0, services={"feed": None}), "NATS is away", json=False)
