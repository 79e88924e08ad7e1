"""An instance ends by itself, whatever becomes of the control plane."""

from __future__ import annotations

import pytest

from headrace.contracts.values.durations import SECOND
from headrace.node_executor.self_end import Limits, Notice, SelfEnd, age_of, notice_in

THERE = {"answered": True, "connected": True, "running": 0}
LIMITS = Limits(join_within=60, orphan_after=1_800, max_life=86_400)


def test_an_instance_that_has_not_joined_in_time_ends():
    ends = SelfEnd(LIMITS, 100)
    away = {"answered": False, "connected": True, "running": 0}
    assert [ends.due(moment, **away) for moment in (100, 159, 160)] == ["", "", "it has not joined within 60 s"]


def test_an_instance_without_bus_and_without_jobs_ends_after_a_while():
    ends = SelfEnd(LIMITS, 0)
    alone = {"answered": True, "connected": False, "running": 0}
    assert ends.due(50, **THERE) == ""
    assert [ends.due(moment, **alone) for moment in (51, 1_849, 1_850)] == [
        *("", "", "it has heard nothing of the installation and run no job for 1800 s"),
    ]


@pytest.mark.parametrize("needed", [{"connected": True, "running": 0}, {"connected": False, "running": 1}])
def test_the_bus_or_a_job_keeps_it(needed):
    ends = SelfEnd(LIMITS, 0)
    assert [ends.due(moment, answered=True, **needed) for moment in (0, 1_800, 80_000)] == ["", "", ""]


def test_at_its_greatest_age_it_ends_whatever_runs():
    ends = SelfEnd(LIMITS, 0)
    assert ends.due(86_399, answered=True, connected=True, running=3) == ""
    assert ends.due(86_400, answered=True, connected=True, running=3) == "it has reached its greatest age of 86400 s"


def test_an_executor_that_is_started_again_is_as_old_as_its_instance_and_has_its_time_to_join(tmp_path, monkeypatch):
    now = [10**15]
    monkeypatch.setattr("headrace.node_executor.self_end.clock", lambda: now[0])
    assert age_of(str(tmp_path)) == 0
    now[0] += 86_000 * SECOND
    age = age_of(str(tmp_path))
    assert age == 86_000
    ends = SelfEnd(LIMITS, 5, age)
    assert [ends.due(moment, answered=False, connected=True, running=0) for moment in (5, 64)] == ["", ""]
    assert ends.due(404, **THERE) == ""
    assert ends.due(405, **THERE) == "it has reached its greatest age of 86400 s"
    (tmp_path / "began").write_text("?")
    assert age_of(str(tmp_path)) == 0


def test_a_machine_without_limits_never_ends():
    ends = SelfEnd(Limits(), 0)
    assert [ends.due(10**9, answered=answered, connected=False, running=0) for answered in (True, False)] == ["", ""]


def test_a_notice_is_read_once_it_is_whole(tmp_path):
    path = tmp_path / "notice.json"
    assert notice_in(str(path)) is None
    path.write_text('{"kind": "spot", ')
    assert notice_in(str(path)) is None
    path.write_text('{"kind": "spot", "deadline": 5, "more": 1}')
    assert notice_in(str(path)) == Notice(kind="spot", deadline=5)
