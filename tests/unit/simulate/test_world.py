from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.facts.records import RECORD_FACTS_MAX
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import SECOND
from headrace.domain.snapshots.snapshot import dump
from headrace.simulate import virtual_system
from headrace.simulate.refused import Refused
from headrace.simulate.scenario import read_scenario
from headrace.simulate.virtual_system import START, Unsettled
from headrace.simulate.world import World


def test_everything_of_a_moment_happens_before_the_deciders_look(play):
    played = play("""
      - {at: 0s, submit: {name: low, queue: q/two, priority: 0}}
      - {at: 0s, submit: {name: high, queue: q/two, priority: 9}}
      - {at: 0s, expect: {jobs: {low: pending, high: running}}}
    """)
    assert played.failed == [[]]


def test_time_stops_at_whatever_is_due_between_two_moments(play):
    played = play("""
      - {at: 0s, submit: {name: first, queue: q/two, duration: 10s}}
      - {at: 0s, submit: {name: second, queue: q/two, duration: 10s}}
      - {at: 1h, expect: {jobs: {first: succeeded, second: succeeded}}}
    """)
    assert played.failed == [[]]
    assert [fact.exited_at - START for _, fact in played.stated(f.LeaseEndedV1)] == [10 * SECOND, 20 * SECOND]
    assert played.world.now - START == 3_600 * SECOND


def test_entries_may_stand_in_any_order(play):
    played = play("""
      - {at: 2s, expect: {jobs: {j: succeeded}}}
      - {at: 1s, finish: j}
      - {at: 0s, submit: {name: j, queue: q/one}}
    """)
    assert played.failed == [[]]


def test_a_job_can_be_requeued(play):
    played = play("""
      - {at: 0s, submit: {name: a, queue: q/one, duration: 10s}}
      - {at: 5s, requeue: a}
      - {at: 14s, expect: {jobs: {a: running}}}
      - {at: 15s, expect: {jobs: {a: succeeded}}}
    """)
    assert played.failed == [[], []]


def test_a_job_can_be_finished_failed_and_cancelled(play):
    played = play("""
      - {at: 0s, submit: {name: a, queue: q/one}}
      - {at: 0s, submit: {name: b, queue: q/one}}
      - {at: 0s, submit: {name: c, queue: q/one}}
      - {at: 1s, finish: a}
      - {at: 1s, fail: b}
      - {at: 1s, cancel: c}
      - {at: 2s, expect: {jobs: {a: succeeded, b: failed, c: cancelled}}}
    """)
    assert played.failed == [[]]


def test_jobs_of_one_submit_are_numbered_and_belong_to_an_entitled_member(play):
    played = play("""
      - {at: 0s, submit: {name: j, queue: q/one, count: 2}}
      - {at: 0s, submit: {name: k, queue: q/one, user: bob}}
      - {at: 1s, expect: {jobs: {j-1: running, j-2: running, k: pending}}}
    """)
    assert played.failed == [[]]
    assert {name: key.rpartition(".")[0] for name, key in played.world.names.items()} == {
        "j-1": "default.ann",
        "j-2": "default.ann",
        "k": "default.bob",
    }


def test_what_a_submit_asks_for_is_what_is_admitted(play):
    played = play(
        """
      - at: 0s
        submit: {name: j, queue: q/two, preemptible: false, priority: 3, time_limit: 90s, max_retries: 2, request: {gpu: 1}}
      - {at: 1s, expect: {jobs: {j: running}}}
    """,
        policies="policies: [{name: q, group: all, profiles: [one, two], reservation: {gpu: 1}}]\n",
    )
    assert played.failed == [[]]
    ((_, fact),) = played.stated(f.JobAdmittedV1)
    assert (fact.request, fact.preemptible, fact.priority, fact.time_limit, fact.max_retries) == (
        {GPU: GPU_UNITS},
        False,
        3,
        90 * SECOND,
        2,
    )


def test_a_job_waits_for_those_that_it_names(play):
    played = play("""
      - {at: 0s, submit: {name: first, queue: q/one, count: 2}}
      - {at: 0s, submit: {name: last, queue: q/one, after: [first-1, first-2]}}
      - {at: 1s, finish: first-1}
      - {at: 1s, expect: {jobs: {last: pending}, reasons: {last: DEPENDENCY}}}
      - {at: 2s, finish: first-2}
      - {at: 2s, expect: {jobs: {last: running}}}
    """)
    assert played.failed == [[], []]


def test_a_job_for_a_queue_that_is_not_there_is_rejected(play):
    played = play("""
      - {at: 0s, submit: {name: j, queue: nope/one}}
      - {at: 1s, expect: {jobs: {j: rejected}, reasons: {j: UNKNOWN_QUEUE}}}
    """)
    assert played.failed == [[]]


def test_a_lost_node_takes_its_jobs_with_it_and_runs_others_when_it_is_back(play):
    played = play("""
      - {at: 0s, submit: {name: j, queue: q/one}}
      - {at: 10s, node_lost: n}
      - {at: 11s, expect: {jobs: {j: pending}, pools: {hall: {gpu: {used: 0, free: 0}}}}}
      - {at: 1m, node_back: n}
      - {at: 2m, expect: {jobs: {j: running}, pools: {hall: {gpu: {used: 1, free: 1}}}}}
    """)
    assert played.failed == [[], []]
    assert [(by, fact.node) for by, fact in played.stated(f.NodeRegisteredV1)] == [("node.n", "n")] * 2


def test_documents_can_be_applied_and_deleted_on_the_way(play):
    played = play("""
      - {at: 0s, submit: {name: j, queue: late/one}}
      - {at: 1s, apply: {policies: [{name: late, group: all, profiles: [one]}]}}
      - {at: 2s, submit: {name: k, queue: late/one}}
      - {at: 3s, finish: k}
      - {at: 4s, delete: {kind: policy, name: late}}
      - {at: 5s, submit: {name: l, queue: late/one}}
      - {at: 6s, expect: {jobs: {j: rejected, k: succeeded, l: rejected}}}
    """)
    assert played.failed == [[]]


def test_every_record_can_be_read_by_a_ledger_and_names_what_came_before(play):
    played = play("""
      - {at: 0s, submit: {name: j, queue: q/one, count: 3, duration: 1s}}
      - {at: 5s, expect: {}}
    """)
    history = played.world.history
    assert [stated.sequence for stated in history] == list(range(1, played.world.log.last_sequence + 1))
    assert played.world.state.voids == {}


def test_the_same_scenario_is_the_same_history(play):
    timeline = """
      - {at: 0s, submit: {name: j, queue: q/one, count: 9, duration: 7s, checkpoint_every: 2s}}
      - {at: 5s, node_lost: n}
      - {at: 6s, node_back: n}
      - {at: 1m, expect: {}}
    """
    assert play(timeline).world.log.messages_after(0) == play(timeline).world.log.messages_after(0)


def test_a_node_with_more_to_say_than_a_record_holds_says_it_in_several(play):
    played = play("""
      - {at: 0s, apply: {profiles: [{name: one, request: {cpu: 0.1}, pools: [hall]}]}}
      - {at: 0s, submit: {name: j, queue: q/one, count: 1001, duration: 10s}}
      - {at: 10s, expect: {jobs: {j-1: succeeded, j-1001: succeeded}}}
    """)
    assert played.failed == [[]]
    records = [len(stated.facts) for stated in played.world.history if stated.by == "node.n" and stated.at == 10 * SECOND]
    assert records == [RECORD_FACTS_MAX, 1]


def test_deciders_that_never_come_to_rest_are_stopped(play, monkeypatch):
    monkeypatch.setattr(virtual_system, "ROUNDS_MAX", 2)
    with pytest.raises(Unsettled, match="^no rest after 2 rounds at 3s$"):
        play("""
          - {at: 3s, submit: {name: j, queue: q/one}}
        """)


def test_documents_that_governance_refuses_stop_the_run_with_its_words(play):
    with pytest.raises(Refused, match=r"there is no profile none"):
        play("""
          - {at: 1s, apply: {policies: [{name: late, group: all, profiles: [none]}]}}
        """)


@pytest.mark.parametrize("wanted", ["{kind: pool, name: hall}", "{kind: profile, name: one}", "{kind: group, name: all}"])
def test_what_is_in_use_is_not_deleted(play, wanted):
    with pytest.raises(Refused, match="is in use|named by"):
        play(f"""
          - {{at: 1s, delete: {wanted}}}
        """)


class TestRefused:
    """What a scenario expects governance to refuse."""

    def test_the_run_goes_on_as_if_it_had_not_been_asked(self, play):
        play("""
          - {at: 1s, submit: {name: j, queue: q/one}}
          - {at: 2s, delete: {kind: policy, name: q}, refused: running=1}
          - {at: 3s, expect: {jobs: {j: running}}}
        """)

    @pytest.mark.parametrize(
        ("name", "message"),
        [("q", "it is refused in other words: policy default/q is in use"), ("empty", "nothing refuses it")],
    )
    def test_it_stops_where_that_is_not_so(self, play, name, message):
        with pytest.raises(Refused, match=rf"^timeline\[2\]\.refused: {message}"):
            play(f"""
              - {{at: 1s, submit: {{name: j, queue: q/one}}}}
              - {{at: 1s, apply: {{policies: [{{name: empty, group: all, profiles: [one]}}]}}}}
              - {{at: 2s, delete: {{kind: policy, name: {name}}}, refused: running=2}}
            """)


def test_a_fork_goes_on_as_the_world_itself_does_and_neither_knows_of_the_other(site):
    text = """
policies: [{name: q, group: all, profiles: [one, two]}]
timeline:
  - {at: 0s, submit: {name: a, queue: q/two, duration: 1m, checkpoint_every: 7s}}
  - {at: 1s, submit: {name: b, queue: q/one, count: 3, duration: 1m}}
  - {at: 40s, node_lost: n}
  - {at: 50s, node_back: n}
  - {at: 2m, cancel: b-3}
  - {at: 10m, expect: {}}
"""
    whole = World(read_scenario(read_tree(site + text)))
    whole.begin()
    list(whole.play(5 * SECOND))
    fork, before = whole.fork(), len(whole.history)

    list(fork.play())

    assert (len(whole.history), whole.now - whole.start) == (before, 1 * SECOND)
    list(whole.play())
    assert fork.history == whole.history[before:]
    assert dump(fork.state) == dump(whole.state)


def test_playing_out_ends_when_nothing_but_checkpoints_is_left(site):
    text = """
policies: [{name: q, group: all, profiles: [one]}]
timeline:
  - {at: 0s, submit: {name: endless, queue: q/one, checkpoint_every: 7s}}
  - {at: 0s, submit: {name: short, queue: q/one, count: 2, duration: 1m}}
"""
    whole = World(read_scenario(read_tree(site + text)))
    whole.begin()
    list(whole.play())
    whole.play_out(whole.now + 3_600 * SECOND)
    assert whole.now - whole.start == 120 * SECOND
