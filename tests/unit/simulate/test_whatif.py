"""The same moment played on twice: only the changes make a difference, and the moment itself stays as it was."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.facts.records import Record
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.domain.snapshots.snapshot import copy_of, dump
from headrace.simulate.changes import WhatIfChanges, read_changes
from headrace.simulate.recorded_inputs import RecordedInputs
from headrace.simulate.refused import Refused
from headrace.simulate.scenario import Submit, read_scenario
from headrace.simulate.whatif import AS_IT_WAS_WRITTEN, REFUSED_STAYS, compare, compare_from
from headrace.simulate.world import World
from tests.unit.domain.site import Site, gpus, place, policy


def changes(text):
    return read_changes(read_tree(text))


@pytest.fixture
def world(site):
    """Two GPUs; one job of both for a minute, two of one behind it; more comes after 30 s."""
    text = """
policies: [{name: q, group: all, profiles: [one, two]}, {name: r, group: all, profiles: [one]}]
timeline:
  - {at: 0s, submit: {name: first, queue: q/two, duration: 1m}}
  - {at: 1s, submit: {name: next, queue: q/one, count: 2, duration: 1m}}
  - {at: 30s, submit: {name: late, queue: r/one, duration: 1m}}
  - {at: 31s, expect: {}}
"""
    made = World(read_scenario(read_tree(site + text)))
    made.begin()
    for _ in made.play(5 * SECOND):
        pass
    made.pass_to(made.start + 5 * SECOND)
    return made


def starts(found):
    return {row.job: (row.before, row.after) for row in found.moved}


def test_another_job_in_front_moves_those_behind_it(world):
    found = compare(world, changes("submit: [{name: boss, queue: q/two, priority: 9, duration: 10s}]"))
    assert starts(found) == {
        "boss": (None, 55 * SECOND),
        "next-1": (55 * SECOND, 65 * SECOND),
        "late": (55 * SECOND, 65 * SECOND),
        "next-2": (115 * SECOND, 125 * SECOND),
    }
    assert (found.at, found.total.before.starts, found.total.after.starts) == (5 * SECOND, 3, 4)


def test_a_new_node_and_a_new_limit_change_what_comes(world):
    found = compare(world, changes("nodes: [{name: new, labels: {site: a}, gpus: 2, gpu_model: H100-80GB}]"))
    assert starts(found) == {"next-1": (55 * SECOND, 0), "next-2": (115 * SECOND, 0)}
    found = compare(world, changes("policies: [{name: q, group: all, profiles: [one, two], limit: {gpu: 0}}]"))
    assert [(row.job, row.after_is) for row in found.moved if row.job != "late"] == [
        ("next-1", "EXCEEDS_POLICY_LIMIT"),
        ("next-2", "EXCEEDS_POLICY_LIMIT"),
    ]


def test_the_world_that_is_asked_about_stays_as_it_was(world):
    before, length = dump(world.state), len(world.history)
    compare(world, changes("submit: [{name: boss, queue: q/two, priority: 9}]"))
    assert (dump(world.state), len(world.history)) == (before, length)


def test_without_a_difference_nothing_moves(world):
    found = compare(world, changes("policies: [{name: s, group: all, profiles: [one]}]"))
    assert (found.moved, found.total.before == found.total.after) == ((), True)


def test_both_are_played_no_further_than_asked(world):
    found = compare(world, changes("submit: [{name: boss, queue: q/two, priority: 9}]"), span=56 * SECOND)
    assert found.span <= 56 * SECOND
    assert starts(found) == {"boss": (None, 55 * SECOND), "next-1": (55 * SECOND, None), "late": (55 * SECOND, None)}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("submit: [{name: late, queue: q/one}]", "job late: there is one of that name already", id="a job to come"),
        pytest.param("nodes: [{name: n}]", "node n: there is one of that name already", id="a node that is there"),
        pytest.param("policies: [{name: s, profiles: [five]}]", "five", id="what governance refuses"),
    ],
)
def test_changes_that_cannot_be_are_refused(world, text, why):
    with pytest.raises(Refused, match=why):
        compare(world, changes(text))


def installed() -> Site:
    """Two GPUs, both held; one more job of each queue waits."""
    made = Site(policy("dev", preemption=d.PreemptionTerms(callback_grace=20 * SECOND, term_grace=10 * SECOND)), policy("ops"))
    made.node()
    made.run("limited", place("n1", 0), time_limit=10 * MINUTE)
    made.run("endless", place("n1", 1))
    made.now += MINUTE
    made.admit("waits", "ops/one", time_limit=HOUR)
    return made


def test_in_an_installation_jobs_end_at_their_limits_or_never_and_that_is_said():
    made = installed()
    found = compare_from(made.state, changes("submit: [{name: boss, queue: ops/one, priority: 9, duration: 5m}]"), made.now)
    assert found.assumptions == (
        "a job whose end is not known ends at its time limit",
        "jobs without both run on",
        "a job that is told to stop uses its whole grace",
        "a job that starts again begins from its start",
        "nodes start jobs at once, and refuse none",
        "no other jobs are submitted",
    )
    assert starts(found) == {"boss": (None, 9 * MINUTE), "ann.waits": (9 * MINUTE, 14 * MINUTE)}
    assert found.policies["dev"].before.used == 9 * 60 + found.span // SECOND


def test_where_jobs_of_the_queue_have_ended_the_rest_run_as_long_as_they_did():
    made = Site(policy())
    made.node()
    made.now += SECOND
    past = made.run("past", place("n1", 0))
    made.now += 4 * MINUTE
    made.leave(past)
    made.append_facts(f.JobEndedV1(job=past.key, attempt=1, state="succeeded", cause="exited"), by="allocator")
    made.run("now", place("n1", 0))
    made.run("other", place("n1", 1))
    waiting = made.admit("waits", "dev/one")
    found = compare_from(made.state, WhatIfChanges(submit=(Submit(name="x", queue="dev/two", duration=SECOND),)), made.now)
    assert "one without a limit after the mean of the longer runs of its queue" in found.assumptions
    assert waiting.state == "pending"
    assert found.total.before.starts == 1
    assert found.span == 8 * MINUTE + SECOND


def test_who_is_told_to_stop_takes_its_grace_and_starts_again():
    made = installed()
    law = "policies: [{name: ops, profiles: [one, two, half, gang, cpu], reservation: {gpu: 1}}]"
    found = compare_from(made.state, changes(law), made.now)
    assert starts(found) == {"ann.waits": (9 * MINUTE, 30 * SECOND)}
    assert (found.policies["dev"].after.preemptions, found.policies["dev"].before.preemptions) == (1, 0)
    assert found.policies["dev"].after.lost == 90


def test_one_that_stops_already_and_one_that_starts_go_on():
    made = installed()
    made.stop(made.state.jobs["default.ann.limited"], callback=20 * SECOND, term=10 * SECOND)
    found = compare_from(made.state, changes("policies: [{name: dev2, profiles: [one]}]"), made.now)
    assert found.moved == ()
    assert found.policies["ops"].before.wait_mean == 30
    made = Site(policy())
    made.node()
    made.grant(made.admit("fresh", "dev/one", time_limit=MINUTE), place("n1", 0))
    assert compare_from(made.state, changes("policies: [{name: dev2, profiles: [one]}]"), made.now).total.before.starts == 1


def test_one_that_is_suspended_and_told_to_stop_is_killed_and_starts_where_its_place_is_kept():
    """R29: it moves; another job that waits for the same GPU starts behind it."""
    made = Site(policy())
    made.node()
    job = made.run("moves", place("n1", 0), time_limit=10 * MINUTE)
    made.run("endless", place("n1", 1))

    def stop(cause: str, then: str) -> f.StopOrderedV1:
        return f.StopOrderedV1(job=job.key, attempt=1, ladder=Ladder(cause=cause, callback_grace=0, term_grace=0, then=then))

    made.append_facts(stop("preempted", "suspend"), by="allocator")
    made.append_facts(f.LeaseSuspendedV1(job=job.key, attempt=1, at=made.now), by="node.n1")
    made.append_facts(
        f.MoveOrderedV1(job=job.key, attempt=1, pool="hall", places=(place("n1", 0),)), stop("moved", "requeue"), by="allocator"
    )
    made.admit("waits", "dev/one", time_limit=HOUR)
    found = compare_from(made.state, changes("policies: [{name: dev2, profiles: [one]}]"), made.now)
    assert (found.total.before.starts, found.total.before.wait_mean) == (2, 600)


def test_leases_on_a_lost_node_are_left_to_the_deciders():
    made = installed()
    made.append_facts(f.NodeLostV1(node="n1", silent_for=0), by="preemption")
    found = compare_from(made.state, changes("nodes: [{name: n2, labels: {pool: hall}, gpus: 3}]"), made.now)
    assert found.total.after.starts >= 2


def test_what_really_came_is_played_again_under_other_circumstances():
    made = installed()
    start, before = made.now, copy_of(made.state)
    inputs = RecordedInputs(start)

    def then(seconds, act):
        made.now = start + seconds * SECOND
        sequence = made.state.sequence
        act()
        assert made.state.sequence > sequence

    def fold_and_note(*facts, by="admission"):
        made.append_facts(*facts, by=by)
        inputs.note(Record(by=by, now=made.now, engine="test", as_of=0, facts=facts), made.state)

    limited = made.state.jobs["default.ann.limited"]
    late = f.JobAdmittedV1(job="default.ann.late", policy="ops", profile="one", request=gpus(1), time_limit=HOUR)
    gone = f.JobAdmittedV1(job="default.ann.gone", policy="ops", profile="two", request=gpus(2))
    then(10, lambda: fold_and_note(late, gone))
    then(20, lambda: fold_and_note(f.JobCancelRequestedV1(job=gone.job, by="ann")))
    left = f.LeaseEndedV1(job=limited.key, attempt=1, outcome="exited", exit_code=0, exited_at=0, at=0)
    then(60, lambda: fold_and_note(left, by="node.n1"))
    then(60, lambda: fold_and_note(f.JobEndedV1(job=limited.key, attempt=1, state="succeeded", cause="exited"), by="allocator"))

    inputs.close(made.state)
    more = changes("nodes: [{name: n2, labels: {pool: hall}, gpus: 1, gpu_model: H100}]")
    found = compare_from(before, more, start, span=5 * MINUTE, inputs=inputs)

    assert starts(found) == {"ann.waits": (60 * SECOND, 0), "ann.late": (None, 60 * SECOND)}
    assert (found.span, found.assumptions[-2:]) == (5 * MINUTE, (AS_IT_WAS_WRITTEN, REFUSED_STAYS))
    assert (found.total.before.waiting, found.total.after.waiting) == (1, 0)
