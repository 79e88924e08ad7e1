from __future__ import annotations

import json

import pytest

from headrace.contracts.values.durations import SECOND
from headrace.simulate import command, virtual_system

HOLDS = """\
policies: [{name: q, group: all, profiles: [one]}]
timeline:
  - {at: 0s, submit: {name: j, queue: q/one, count: 3, duration: 10s}}
  - {at: 5s, expect: {jobs: {j-1: running, j-3: pending}}}
  - {at: 2h, expect: {jobs: {j-1: succeeded, j-3: succeeded}}}
"""


@pytest.fixture
def write(tmp_path, monkeypatch, site):
    """`write(name, text)`: a file of the site and more, in the directory where the command runs."""
    monkeypatch.chdir(tmp_path)

    def written(name, text):
        (tmp_path / name).write_text(site + text, encoding="utf-8")
        return name

    return written


def test_a_file_that_holds_is_one_line_and_exit_code_0(write, capsys):
    assert command.main([write("a.yaml", HOLDS)]) == 0
    out, err = capsys.readouterr()
    assert (out.split(" (")[0], err) == ("a.yaml: holds", "")
    assert out.endswith(" facts, 2h of virtual time)\n")
    assert "(2 moments checked, 3 jobs, " in out


def test_each_difference_is_a_line_of_standard_error_and_exit_code_1(write, capsys):
    text = HOLDS.replace("j-3: pending", "j-3: running").replace("j-1: succeeded", "j-1: failed")
    assert command.main([write("a.yaml", text)]) == 1
    out, err = capsys.readouterr()
    assert out.split(" (")[0] == "a.yaml: 2 differences"
    assert err == ("a.yaml: 5s: job j-3: expected running, is pending\na.yaml: 2h: job j-1: expected failed, is succeeded\n")


def test_all_files_are_played_and_one_that_fails_fails_all(write, capsys):
    files = [
        write("bad.yaml", "timeline: [{at: 0s, cancel: j}]\n"),
        "gone.yaml",
        write("good.yaml", HOLDS),
    ]
    assert command.main(files) == 1
    out, err = capsys.readouterr()
    assert out.split(" (")[0] == "good.yaml: holds"
    assert err.splitlines() == [
        "bad.yaml: line 5: timeline[0].cancel: no job j has been submitted by then; with a count they are NAME-1 ...",
        "gone.yaml: it cannot be read: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "the file is empty; write a mapping such as policies: [...]"),
        (b"- a\n", "line 1: write a mapping such as policies: [...] at the top of the file"),
        (b"nodes: &a [*a]\n", "line 1: nodes: the alias *a contains itself"),
        (b"nodes: []\nnodes: []\n", "line 2: nodes: this key is on line 1 already"),
        (b"nodes: [\n", "line 2: malformed YAML: "),
        (b"\xff\xfe\xfa", "line 1: this is not UTF-8; save the file as UTF-8 text"),
    ],
)
def test_what_is_not_a_scenario_is_one_line(tmp_path, capsys, content, complaint):
    path = tmp_path / "a.yaml"
    path.write_bytes(content)
    assert command.main([str(path)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{path}: {complaint}")
    assert err.count("\n") == 1


def test_deciders_that_never_come_to_rest_are_a_difference(write, capsys, monkeypatch):
    monkeypatch.setattr(virtual_system, "ROUNDS_MAX", 1)
    assert command.main([write("a.yaml", HOLDS)]) == 1
    assert capsys.readouterr().err == "a.yaml: no rest after 1 rounds at 0s\n"


def test_the_report_tells_every_fact_the_end_of_every_job_and_how_long_they_waited(write, capsys):
    late = "  - {at: 2h, submit: {name: k, queue: q/one}}\n"  # by then the fold has forgotten the others
    assert command.main([write("a.yaml", HOLDS + late)], as_json=True) == 0
    report = json.loads(capsys.readouterr().out)
    assert list(report) == ["failed", "facts", "jobs", "metrics"]
    assert (report["failed"], report["jobs"]) == (
        [],
        {"j-1": "succeeded", "j-2": "succeeded", "j-3": "succeeded", "k": "running"},
    )
    assert [record["sequence"] for record in report["facts"]] == list(range(1, len(report["facts"]) + 1))
    ends = [
        (record["at"], record["by"], fact["exit_code"])
        for record in report["facts"]
        for fact in record["facts"]
        if fact["type"] == "lease.ended.v1"
    ]
    assert ends == [(10 * SECOND, "node.n", 0), (10 * SECOND, "node.n", 0), (20 * SECOND, "node.n", 0)]
    assert report["metrics"] == {"preemptions": 0, "started": 4, "wait_mean_s": 2, "wait_max_s": 10}


def test_the_report_of_a_file_that_fails_names_the_differences(write, capsys):
    assert command.main([write("a.yaml", HOLDS.replace("j-3: pending", "j-3: running"))], as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == ["5s: job j-3: expected running, is pending"]


CHANGES = """\
policies: [{name: q, group: all, profiles: [one], limit: {gpu: 1}}]
submit: [{name: extra, queue: q/one, duration: 10s}]
"""


@pytest.fixture
def changes(write, tmp_path):
    """`changes(text)`: a file of changes beside the scenario `a.yaml`."""
    write("a.yaml", HOLDS)

    def written(text=CHANGES):
        (tmp_path / "c.yaml").write_text(text, encoding="utf-8")
        return "c.yaml"

    return written


def test_what_if_prints_both_runs_side_by_side(changes, capsys):
    assert command.what_if("a.yaml", changes()) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert (
        out
        == """\
a.yaml at 0s, with c.yaml, played 2h on. Each as it is -> with the changes.

GROUP  STARTS  WAITING  REFUSED  MEAN WAIT  95 % WAIT   MAX WAIT    PREEMPTED  LOST GPU-H
all    3 -> 4  0        0        3s -> 15s  10s -> 30s  10s -> 30s  0          0.00

GROUP  USED GPU-H    RESERVED  BORROWED      COST
all    0.00 -> 0.01  0.00      0.00 -> 0.01  0.00

POOL  HAS GPU-H  USED GPU-H    USED %  COST
hall  4.00       0.00 -> 0.01  0.2     0.00

JOB    QUEUE  STARTS     WITH THE CHANGES
extra  q/one  not there  after 0s
j-2    q/one  after 0s   after 20s
j-3    q/one  after 10s  after 30s
j-1    q/one  after 0s   after 10s
"""
    )


def test_what_if_at_a_moment_and_as_json(changes, capsys):
    assert command.what_if("a.yaml", changes(), at=5 * SECOND, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["at"], found["total"]["before"]["starts"], found["total"]["after"]["starts"]) == (5 * SECOND, 1, 2)
    assert {row["job"]: (row["before"], row["after"]) for row in found["moved"]} == {"extra": (None, 15 * SECOND)}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("pool: []", "c.yaml: line 1: pool: unknown key 'pool'; did you mean 'pools'?", id="an unknown key"),
        pytest.param(
            "submit: [{name: j, queue: q/one, count: 3}]", "c.yaml: job j-1: there is one of that name already", id="a name"
        ),
        pytest.param("delete: [{kind: profile, name: one}]", "c.yaml: ", id="what governance refuses"),
    ],
)
def test_changes_that_cannot_be_are_told_by_file(changes, capsys, text, complaint):
    assert command.what_if("a.yaml", changes(text)) == 1
    out, err = capsys.readouterr()
    assert (out, err.startswith(complaint)) == ("", True)


def test_a_scenario_or_changes_that_cannot_be_read_are_told(changes, capsys):
    assert (command.what_if("gone.yaml", changes()), command.what_if("a.yaml", "gone.yaml")) == (1, 1)
    assert capsys.readouterr().err.splitlines() == ["gone.yaml: it cannot be read: No such file or directory"] * 2


def test_why_a_job_waits_is_asked_at_a_moment_by_its_name_in_the_file(write, capsys):
    seen = []
    assert command.why(write("a.yaml", HOLDS), "j-3", lambda view: seen.append(view) or "shown", at=5 * SECOND) == 0
    (view,) = seen
    assert capsys.readouterr() == ("shown\n", "")
    assert (view.job, view.reason, view.holders[0].job) == ("j-3", "NO_FREE_CAPACITY", "j-1")
    assert view.now == virtual_system.START + 5 * SECOND


def test_a_job_that_is_unknown_then_is_a_line_of_standard_error(write, capsys):
    assert command.why(write("a.yaml", HOLDS), "other", str) == 1
    assert capsys.readouterr().err == "a.yaml: nothing is known of job other at 2h: never submitted\n"


def test_what_governance_says_of_a_document_is_told_with_the_line_where_it_stands(write, capsys):
    unknown = "profiles: [{name: two, request: {gpu: 1}, pools: [nowhere]}]"
    files = [
        write("first.yaml", "policies: [{name: q, profiles: [none]}]\n"),
        write("later.yaml", f"policies: []\ntimeline:\n  - at: 0s\n    apply: {{{unknown}}}\n"),
    ]
    assert command.main(files) == 1
    first, later = capsys.readouterr().err.splitlines()
    assert first.startswith("first.yaml: line 5: policies[0].profiles[0]: there is no profile none")
    assert later.startswith("later.yaml: line 8: timeline[0].apply.profiles[0].pools[0]: there is no pool nowhere")


def test_reservations_that_the_nodes_of_a_scenario_cannot_honour_are_refused_as_governance_would(write, capsys):
    assert command.main([write("more.yaml", "policies: [{name: q, profiles: [one], reservation: {gpu: 50}}]\n")]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(
        "more.yaml: line 5: policies[0].reservation.gpu: policy default/q (50) cannot be honoured together"
    )


def test_a_limit_of_an_ungoverned_key_is_refused_in_a_scenario_too(write, capsys):
    assert command.main([write("cpu.yaml", "policies: [{name: q, profiles: [one], limit: {cpu: 4}}]\n")]) == 1
    assert "policies[0].limit.cpu: pool" in capsys.readouterr().err
