from __future__ import annotations

import pytest

RESERVED = "policies: [{name: q, group: all, profiles: [one, two], reservation: {gpu: 1}}]\n"


def test_what_is_as_expected_makes_no_line(play):
    played = play(
        """
      - {at: 0s, submit: {name: j, queue: q/two}}
      - {at: 1s, submit: {name: k, queue: q/one}}
      - at: 10s
        expect:
          jobs: {j: running, k: pending}
          reasons: {j: none, k: NO_FREE_CAPACITY}
          job_pools: {j: hall, k: none}
          pools: {hall: {gpu: {used: 2, free: 0, capacity: 2}}}
          policies: {q: {gpu: {used: 2, reserved: 1, borrowed: 1}}, default/q: {gpu: {used: 4/2}}}
          preemptions: 0
    """,
        policies=RESERVED,
    )
    assert played.failed == [[]]


def test_everything_that_is_otherwise_is_a_line_with_the_moment_what_was_expected_and_what_is(play):
    played = play(
        """
      - {at: 0s, submit: {name: j, queue: q/two}}
      - {at: 1s, submit: {name: k, queue: q/one}}
      - at: 1m30s
        expect:
          jobs: {j: pending, k: running}
          reasons: {j: NO_FREE_CAPACITY, k: AT_POLICY_LIMIT}
          job_pools: {j: none, k: hall}
          pools: {hall: {gpu: {used: 1, free: 1/2, capacity: 3}}}
          policies: {q: {gpu: {used: 0.5, reserved: 2, borrowed: 0}}}
          preemptions: 3
    """,
        policies=RESERVED,
    )
    assert played.failed == [
        [
            "1m30s: job j: expected pending, is running",
            "1m30s: job k: expected running, is pending",
            "1m30s: reason of j: expected NO_FREE_CAPACITY, is none",
            "1m30s: reason of k: expected AT_POLICY_LIMIT, is NO_FREE_CAPACITY",
            "1m30s: pool of j: expected none, is hall",
            "1m30s: pool of k: expected hall, is none",
            "1m30s: gpu used in pool hall: expected 1, is 2",
            "1m30s: gpu free in pool hall: expected 0.5, is 0",
            "1m30s: gpu capacity in pool hall: expected 3, is 2",
            "1m30s: gpu used of policy q: expected 0.5, is 2",
            "1m30s: gpu reserved of policy q: expected 2, is 1",
            "1m30s: gpu borrowed of policy q: expected 0, is 1",
            "1m30s: preemptions: expected 3, is 0",
        ]
    ]


def test_what_is_not_there_or_cannot_be_asked_is_said_and_never_holds(play):
    played = play("""
      - at: 0s
        expect:
          jobs: {j: rejected}
          reasons: {j: none}
          job_pools: {j: none}
          pools: {hell: {gpu: {used: 0}}, hall: {gpu: {usd: 0, used: two}}}
          policies: {p: {gpu: {used: 0}}, acme/q: {gpu: {used: 0}}, q: {gpu: {free: 0}}}
    """)
    assert played.failed == [
        [
            "0s: job j: expected rejected, is never submitted",
            "0s: reason of j: expected none, is never submitted",
            "0s: pool of j: expected none, is never submitted",
            "0s: gpu used in pool hell: expected 0, is no such pool",
            "0s: gpu usd in pool hall: expected 0, is unknown; write used, kept, free, unusable, capacity",
            "0s: gpu used in pool hall: expected invalid amount of gpu 'two': use a number such as 2, 0.5 or 1/7, is 0",
            "0s: gpu used of policy p: expected 0, is no such policy",
            "0s: gpu used of policy acme/q: expected 0, is no such policy",
            "0s: gpu free of policy q: expected 0, is unknown; write used, reserved, borrowed",
        ]
    ]


@pytest.mark.parametrize("at", ["2s", "2h", "40h"])
def test_how_a_job_ended_is_known_long_after_the_fold_has_forgotten_it(play, at):
    played = play(f"""
      - {{at: 0s, submit: {{name: good, queue: q/one}}}}
      - {{at: 0s, submit: {{name: bad, queue: q/one}}}}
      - {{at: 0s, submit: {{name: no, queue: q/none}}}}
      - {{at: 1s, finish: good}}
      - {{at: 1s, fail: bad}}
      - {{at: {at}, submit: {{name: late, queue: q/one}}}}
      - {{at: {at}, expect: {{jobs: {{good: succeeded, bad: failed, no: rejected, late: running}}}}}}
    """)
    assert played.failed == [[]]


def test_a_job_that_yields_is_preempting_and_one_that_is_cancelled_is_stopping_until_it_has_left(play):
    played = play(
        """
      - {at: 0s, submit: {name: borrower, queue: q/two, abort_takes: 20s}}
      - {at: 1m, submit: {name: owner, queue: p/one, abort_takes: 20s}}
      - {at: 70s, expect: {jobs: {borrower: preempting, owner: pending}, preemptions: 1}}
      - {at: 90s, expect: {jobs: {borrower: pending, owner: running}}}
      - {at: 100s, cancel: owner}
      - {at: 110s, expect: {jobs: {owner: stopping}}}
      - {at: 120s, expect: {jobs: {owner: cancelled, borrower: running}}}
    """,
        policies="""\
policies:
  - {name: q, group: all, profiles: [two]}
  - {name: p, group: all, profiles: [one], reservation: {gpu: 1}}
""",
    )
    assert played.failed == [[], [], [], []]
