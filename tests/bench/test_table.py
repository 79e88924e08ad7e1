"""The table of figures: what a line says, what counts as reached, and what has slipped."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import structs

from bench import calibrate, fleet, goals, groups, kueue, results, table
from bench.stage import Stories, quantile
from headrace.contracts.facts import LeaseEndedV1, LeaseGrantedV1, LeaseStartedV1
from headrace.contracts.facts.levels import LEVEL

RATE = goals.Figure("P5", "jobs a second", "line", "P5", "jobs/s", 600, True, (("Slurm", 50),))
WAIT = goals.Figure("P7", "wait", "line", "P7 p50", "ms", 15, False, (("srun", 49),))


def result(commit: str = "abc1234", **figures: list[float]) -> results.Result:
    return results.Result(
        group="line",
        command="run.py line",
        at=86_400.0,
        seconds=12.0,
        cpu_seconds=3.0,
        commit=commit,
        seed="1-3",
        load=(0.5, 1.5),
        machine={},
        figures=figures,
    )


def row(figure: goals.Figure, *values: float, is_fresh: bool = True) -> table.Row:
    return table.Row(figure, list(values), result() if values else None, is_fresh)


def columns(line: str) -> list[str]:
    return line.split()


def test_a_line_shows_median_spread_goal_whether_it_is_met_and_the_ratio_to_others():
    assert columns(table.line(row(RATE, 500, 700, 900))) == columns(
        "P5 jobs a second 700 jobs/s 500 - 900 >= 600 met Slurm 50 (14.0x)"
    )


def test_where_less_is_better_the_goal_is_a_ceiling_and_the_ratio_is_turned_round():
    assert columns(table.line(row(WAIT, 24.5))) == columns("P7 wait 24.5 ms once <= 15 MISSED srun 49 (2.0x)")


def test_what_was_not_measured_just_now_says_when_where_and_under_which_load_it_was():
    assert table.line(row(WAIT, 10, is_fresh=False)).endswith("met    srun 49 (4.9x); recorded 1970-01-02 at abc1234, load 0.5")


def test_what_was_not_measured_says_so_and_how_to():
    line = table.line(row(RATE))
    assert columns(line) == columns("P5 jobs a second not measured >= 600 make bench WHAT=line")


def test_rows_take_their_values_from_the_group_that_measures_them():
    found = table.rows({"line": result(P5=[1.0, 2.0])}, ["line"])
    measured = [(one.figure.number, one.values, one.is_fresh) for one in found if one.values]
    assert measured == [("P5", [1.0, 2.0], True)]


@pytest.mark.parametrize(
    ("figure", "now", "accepted", "holds"),
    [
        (RATE, 80.0, 100.0, True),
        (RATE, 79.9, 100.0, False),
        (WAIT, 125.0, 100.0, True),
        (WAIT, 125.1, 100.0, False),
        (WAIT, 0.0, 0.0, True),
        (WAIT, 1.0, 0.0, False),
    ],
)
def test_a_figure_may_fall_to_four_fifths_of_what_was_accepted(figure, now, accepted, holds):
    assert table.holds(figure, now, accepted) is holds


def test_what_slipped_is_named_with_what_was_accepted_and_old_figures_are_left_alone():
    known = {"line: P5": table.Accepted(mean=1_000, commit="abc1234", on="2026-01-01", load=0.1)}
    known["line: P7 p50"] = table.Accepted(mean=1)
    found = [row(RATE, 500, 600), row(WAIT, 100, is_fresh=False)]
    assert table.slipped(found, known) == ["jobs a second: 550 jobs/s, accepted were 1,000 on 2026-01-01 at abc1234, load 0.1"]


def test_accepting_keeps_the_means_of_now_and_what_was_not_measured_as_it_was():
    known = {"line: P7 p50": table.Accepted(mean=1)}
    assert table.accept([row(RATE, 500, 600), row(WAIT)], known) == {
        "line: P5": table.Accepted(mean=550, commit="abc1234", on="1970-01-02", load=0.5),
        "line: P7 p50": table.Accepted(mean=1),
    }


def test_an_accepted_figure_is_a_ratio_to_the_machines_speed():
    slow, fast = ({"speed": {"execs": speed, "loops": 1.0}} for speed in (100.0, 200.0))

    def at(figure, machine, *values):
        return row(figure, *values)._replace(result=structs.replace(result(), machine=machine))

    known = table.accept([at(RATE, fast, 1_000), at(WAIT, fast, 10)], {})
    assert {name: one.ratio for name, one in known.items()} == {"line: P5": 5.0, "line: P7 p50": 2_000.0}
    assert table.slipped([at(RATE, slow, 450), at(WAIT, slow, 24)], known) == []
    assert table.slipped([at(RATE, slow, 390), at(WAIT, slow, 26)], known) == [
        "jobs a second: 390 jobs/s, accepted were 1,000, which is 500 at the speed of this machine now on 1970-01-02 at abc1234, load 0.5",
        "wait: 26 ms, accepted were 10, which is 20 at the speed of this machine now on 1970-01-02 at abc1234, load 0.5",
    ]


def test_what_does_not_hang_on_the_machine_is_held_against_the_value_itself():
    share = goals.Figure("P3", "rate with 10,000 nodes, of that with 10", "core", "P3", "%", 50, True)
    assert (share.bound_by, RATE.bound_by) == ("", "execs")


def test_every_table_carries_the_speed_of_the_machine():
    speed = calibrate.measure(seconds=0.001, runs=1)
    assert min(msgspec.structs.astuple(speed)) > 0
    machine = {"cpu": "x", "cores": 2, "memory_gib": 8, "kernel": "6", "python": "3.11", "versions": {}, "load_before": 0.0}
    shown = table.show([], {}, [], machine | {"speed": msgspec.to_builtins(speed)})
    assert shown.splitlines()[1] == f"calibration: {speed}"


def test_what_is_compiled_is_accepted_by_itself_and_held_against_its_like():
    compiled = table.Row(RATE, [900.0], result("abc1234, compiled"), is_fresh=True)
    known = table.accept([compiled], {"line: P5": table.Accepted(mean=550)})
    assert known == {
        "line: P5": table.Accepted(mean=550),
        "line: P5, compiled": table.Accepted(mean=900, commit="abc1234, compiled", on="1970-01-02", load=0.5),
    }
    assert table.slipped([row(RATE, 500)], known) == []
    assert table.slipped([compiled._replace(values=[700.0])], known) == [
        "jobs a second: 700 jobs/s, accepted were 900 on 1970-01-02 at abc1234, compiled, load 0.5"
    ]


def test_a_result_is_kept_and_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    kept = results.record("line", "run.py line", lambda: results.Found({"P5": [1.0]}, {"more": 2}, "7"))
    assert results.recorded("line") == kept
    assert (kept.figures, kept.detail, kept.seed) == ({"P5": [1.0]}, {"more": 2}, "7")
    assert results.recorded("core") is None


def test_every_figure_of_the_table_is_measured_by_a_group_and_named_once():
    assert {figure.group for figure in goals.FIGURES} == set(groups.GROUPS)
    names = [table.name_of(figure) for figure in goals.FIGURES]
    assert len(set(names)) == len(names)


def test_without_a_name_the_long_ones_are_left_out_and_all_is_everything():
    assert groups.chosen([]) == [name for name, group in groups.GROUPS.items() if not group.is_long]
    assert groups.chosen(["all"]) == list(groups.GROUPS)
    assert groups.chosen(["sim", "core"]) == ["core", "sim"]


@pytest.mark.parametrize(
    ("output", "count"),
    [
        ("..\n12 passed in 3s", {"passed": 12, "failed": 0}),
        ("1 failed, 11 passed, 2 errors in 3s", {"passed": 11, "failed": 3}),
    ],
)
def test_the_last_line_of_pytest_is_counted(output, count):
    assert groups.counted(output) == count


def test_tests_that_did_not_run_are_not_a_result():
    with pytest.raises(RuntimeError, match="no test was run"):
        groups.counted("ERROR: file or directory not found: nowhere")


@pytest.mark.parametrize("name", list(kueue.SCENARIOS))
def test_the_scenarios_of_kueue_have_the_shapes_that_are_published(name):
    scenario = kueue.SCENARIOS[name]
    workloads = kueue.due(scenario)
    assert len(workloads) == {"baseline": 15_000, "large-scale": 50_000}[name]
    assert scenario.nodes * scenario.gpus == scenario.queues * kueue.NOMINAL
    assert round(kueue.optimum(scenario)["makespan_s"], 1) == scenario.optimum["makespan_s"]


def test_a_group_of_nodes_is_read_and_an_invalid_one_is_refused():
    assert fleet.group("hq=2x8").nodes == ("hq-1", "hq-2")
    with pytest.raises(ValueError, match=r"'hq=2' is no group of nodes; write name=COUNTxGPUS, as in hq=500x8"):
        fleet.group("hq=2")


def test_a_story_has_the_first_grant_the_first_start_and_every_span():
    stories = Stories()
    key = {"job": "t.u.1", "attempt": 1}
    stories.take(LeaseGrantedV1(pool="p", node="n", amounts={}, **key), 5)
    stories.take(LeaseStartedV1(at=7, **key), 8)
    stories.take(LeaseEndedV1(outcome="exited", exited_at=9, at=10, **key), 11)
    story = stories.of("t.u.1")
    assert (story.granted, story.started, story.starts, story.spans) == (5, 7, 1, [(7, 9)])


def test_a_quantile_is_one_of_the_values():
    assert [quantile(range(1, 101), part) for part in (0.5, 0.99)] == [51, 100]


def test_a_node_of_the_fleet_reads_the_level_of_this_release_so_that_it_gets_jobs():
    assert fleet.registration("hq-1", "hq", 2).reads == LEVEL
