"""Each test is a conversation: what happened, and what the lease asks for. Times in seconds after the start, for reading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.facts import CheckpointRegisteredV1, LeaseOverranV1
from headrace.contracts.facts.fact import Ladder
from headrace.node_executor.core import lease as life
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.phases import Phase
from tests.unit.node_executor.core.lease_inputs import (
    JOB,
    LEASE,
    Conversation,
    ended,
    exited,
    free,
    ladder_begun,
    rung,
    running,
    s,
    set_timer,
    started,
)


def timer(seconds: float) -> v.TimerFired:
    return v.TimerFired(s(seconds), LEASE, s(seconds))


def test_a_job_that_ends_by_itself_is_verified_and_released() -> None:
    talk = running()
    assert talk.handle(exited(2, 3)) == [v.Verify(LEASE)]
    assert talk.handle(free(2.5)) == ended("exited", 2, 2.5, exit_code=3)
    assert talk.lease.phase is Phase.ENDED


def test_a_job_with_an_abort_command_climbs_every_rung_if_it_ignores_all_of_them() -> None:
    talk = running(on_abort=("save",))
    assert talk.is_stopped(10) == [v.Notify(LEASE, "preempted", "acme.bob.x", s(70), s(70))]
    assert talk.handle(ladder_begun(10.1)) == [rung("told", 10.1, 0.1, "told"), v.RunCallback(LEASE, s(70)), set_timer(70)]
    assert talk.handle(timer(70)) == [
        v.StopCallback(LEASE),
        rung("callback", 70, 59.9, "timed out, killed"),
        v.Terminate(LEASE),
        set_timer(100),
    ]
    assert talk.handle(v.CallbackEnded(s(70.1), LEASE, "exit 137")) == []
    assert talk.handle(timer(100)) == [rung("term", 100, 30, "timed out"), v.Kill(LEASE)]
    assert talk.handle(exited(100.2, 137)) == [rung("kill", 100.2, 0.2, "gone"), v.Verify(LEASE)]
    assert talk.handle(free(101)) == [
        rung("verify", 101, 0.8, "free"),
        *ended("killed", 100.2, 101, exit_code=137, stopping=True, message="did not leave within its grace"),
    ]


@pytest.mark.parametrize("result", ["exit 0", "exit 3", "could not start: command not found: save"])
def test_sigterm_follows_the_callback_however_it_ended(result: str) -> None:
    talk = running(on_abort=("save",))
    talk.is_stopped(10)
    talk.handle(ladder_begun(10))
    assert talk.handle(v.CallbackEnded(s(12), LEASE, result)) == [
        rung("callback", 12, 2, result),
        v.Terminate(LEASE),
        set_timer(42),
    ]
    assert talk.handle(exited(13, 143)) == [rung("term", 13, 1, "left"), v.Verify(LEASE)]
    assert talk.handle(free(13)) == [rung("verify", 13, 0, "free"), *ended("exited", 13, 13, exit_code=143, stopping=True)]


def test_a_job_that_exits_while_its_callback_runs_lets_it_finish_and_skips_the_other_rungs() -> None:
    talk = running(on_abort=("save",))
    talk.is_stopped(10)
    talk.handle(ladder_begun(10))
    assert talk.handle(exited(11)) == []
    assert talk.handle(v.CallbackEnded(s(12), LEASE, "exit 0")) == [rung("callback", 12, 2, "exit 0"), v.Verify(LEASE)]
    assert talk.handle(free(12)) == [rung("verify", 12, 0, "free"), *ended("exited", 11, 12, exit_code=0, stopping=True)]


def test_a_callback_that_outlives_its_job_is_killed_at_the_end_of_its_grace() -> None:
    talk = running(on_abort=("save",))
    talk.is_stopped(10)
    talk.handle(ladder_begun(10))
    talk.handle(exited(11))
    assert talk.handle(timer(70)) == [
        v.StopCallback(LEASE),
        rung("callback", 70, 60, "timed out, killed"),
        v.Verify(LEASE),
    ]


def test_a_job_with_neither_callback_nor_hook_gets_sigterm_at_once() -> None:
    talk = running()
    assert talk.is_stopped(10) == [v.Notify(LEASE, "preempted", "acme.bob.x", s(70), s(40))]
    assert talk.handle(ladder_begun(10)) == [rung("told", 10, 0, "told"), v.Terminate(LEASE), set_timer(40)]


def test_a_job_with_a_hook_is_given_the_grace_of_the_callback() -> None:
    talk = running()
    talk.is_stopped(10)
    assert talk.handle(ladder_begun(10, hooked=True)) == [rung("told", 10, 0, "told"), set_timer(70)]
    assert talk.handle(exited(25)) == [rung("callback", 25, 15, "hook: left"), v.Verify(LEASE)]


def test_a_hook_that_takes_too_long_is_followed_by_sigterm() -> None:
    talk = running()
    talk.is_stopped(10)
    talk.handle(ladder_begun(10, hooked=True))
    assert talk.handle(timer(70)) == [rung("callback", 70, 60, "hook: timed out"), v.Terminate(LEASE), set_timer(100)]


def test_a_hook_has_what_the_callback_left_of_the_grace() -> None:
    talk = running(on_abort=("save",))
    talk.is_stopped(10)
    talk.handle(ladder_begun(10, hooked=True))
    assert talk.handle(v.CallbackEnded(s(20), LEASE, "exit 0")) == [rung("callback", 20, 10, "exit 0")]
    assert talk.handle(timer(70)) == [rung("callback", 70, 50, "hook: timed out"), v.Terminate(LEASE), set_timer(100)]


def test_without_any_grace_the_job_is_killed_at_once() -> None:
    talk = running(on_abort=("save",))
    ladder = Ladder(cause="cancelled", callback_grace=0, term_grace=0)
    assert talk.is_stopped(10, ladder) == [v.Notify(LEASE, "cancelled", "", s(10), s(10))]
    assert talk.handle(ladder_begun(10)) == [rung("told", 10, 0, "told"), v.Kill(LEASE)]


def test_a_node_that_cannot_suspend_says_so_and_goes_on() -> None:
    talk = running()
    talk.is_stopped(10, Ladder(cause="preempted", callback_grace=0, term_grace=s(5), then="suspend"))
    assert talk.handle(ladder_begun(10)) == [rung("told", 10, 0, "told"), v.Suspend(LEASE)]
    assert talk.handle(v.CannotSuspend(s(11), LEASE, "this node cannot suspend")) == [
        rung("suspend", 11, 1, "this node cannot suspend"),
        v.Terminate(LEASE),
        set_timer(16),
    ]


def test_a_second_stop_changes_nothing() -> None:
    talk = running()
    talk.is_stopped(10)
    assert talk.is_stopped(11, Ladder(cause="cancelled", callback_grace=0, term_grace=0)) == []


def test_a_job_that_ended_before_it_was_told_has_ended_by_itself() -> None:
    talk = running()
    talk.handle(exited(9))
    assert talk.is_stopped(10) == []
    assert talk.handle(free(10)) == ended("exited", 9, 10, exit_code=0)


def test_a_job_that_declared_itself_finished_is_said_to_be() -> None:
    talk = running()
    talk.is_stopped(10)
    talk.handle(ladder_begun(10, hooked=True))
    talk.handle(exited(11, finished=True))
    assert talk.handle(free(11))[1:] == ended("exited", 11, 11, exit_code=0, finished=True, stopping=True)


def test_a_stop_before_the_start_is_undone_where_it_still_can_be() -> None:
    talk = Conversation()
    assert talk.is_stopped(0.5) == [v.Unspawn(LEASE)]
    assert talk.handle(v.StartFailed(s(0.5), LEASE, "never_started")) == ended("never_started", 0.5, 0.5)


def test_a_stop_that_came_while_the_job_was_starting_is_obeyed_once_it_runs() -> None:
    talk = Conversation()
    talk.is_stopped(0.5)
    assert talk.handle(started(1))[1:] == [v.Notify(LEASE, "preempted", "acme.bob.x", s(61), s(31))]


@pytest.mark.parametrize(
    ("outcome", "code", "message"),
    [("exited", 127, "command not found: train"), ("refused", None, "the node cannot make the job's directories: No space")],
)
def test_a_job_that_could_not_be_started_ends_with_the_reason(outcome: str, code: int | None, message: str) -> None:
    talk = Conversation()
    assert talk.handle(v.StartFailed(s(1), LEASE, outcome, code, message)) == ended(
        outcome, 1, 1, exit_code=code, message=message
    )


def test_devices_that_are_still_in_use_are_looked_at_again_until_they_are_free() -> None:
    talk = running()
    talk.handle(exited(2))
    for looked, again in ((2, 2.01), (2.01, 2.02), (2.02, 2.04), (2.04, 2.08), (4, 4.5)):
        assert talk.handle(v.DevicesBusy(s(looked), LEASE, "pid 77")) == [set_timer(again)]
        assert talk.handle(timer(again)) == [v.Verify(LEASE)]
    assert talk.handle(free(4.5)) == ended("exited", 2, 4.5, exit_code=0)


def test_a_checkpoint_is_stated_in_every_phase_between_the_start_and_the_end() -> None:
    talk = Conversation()
    seen = v.CheckpointSeen(s(3), LEASE, "/ckpt/3.pt", 3)
    stated = [v.State(CheckpointRegisteredV1(job=JOB, attempt=1, uri="/ckpt/3.pt", step=3, at=s(3)))]
    assert talk.handle(seen) == []
    talk.handle(started(1))
    assert talk.handle(seen) == stated
    talk.is_stopped(10)
    talk.handle(ladder_begun(10))
    assert talk.handle(seen) == stated
    talk.handle(exited(11))
    assert talk.handle(seen) == stated
    talk.handle(free(12))
    assert talk.handle(seen) == []


def test_a_timer_that_was_replaced_does_nothing() -> None:
    talk = running(on_abort=("save",))
    talk.is_stopped(10)
    talk.handle(ladder_begun(10))
    talk.handle(v.CallbackEnded(s(20), LEASE, "exit 0"))
    assert talk.handle(timer(70)) == []
    assert talk.lease.phase is Phase.TERM


def test_when_the_executor_stops_the_job_gets_sigterm_and_is_lost() -> None:
    talk = running(on_abort=("save",))
    assert talk.is_halted(10, 20) == [
        v.Notify(LEASE, "executor_stopping", "", s(20), s(20)),
        v.Terminate(LEASE),
        set_timer(20),
    ]
    assert talk.handle(ladder_begun(10)) == []
    assert talk.handle(timer(20)) == [v.Kill(LEASE)]
    assert talk.handle(exited(21, 137)) == [v.Verify(LEASE)]
    assert talk.handle(free(21)) == ended("lost", 21, 21, exit_code=137, message="executor stopped")


def test_when_the_executor_stops_a_ladder_under_way_is_cut_short_but_still_told() -> None:
    talk = running(on_abort=("save",))
    talk.is_stopped(10)
    talk.handle(ladder_begun(10))
    assert talk.is_halted(15, 25) == [set_timer(25)]
    assert talk.handle(timer(25)) == [v.StopCallback(LEASE), rung("callback", 25, 15, "timed out, killed"), v.Kill(LEASE)]
    talk.handle(exited(25, 137))
    assert talk.handle(free(25))[1:] == ended(
        "killed", 25, 25, exit_code=137, stopping=True, message="did not leave within its grace"
    )


def test_when_the_executor_stops_before_the_job_was_started_it_is_lost_and_never_runs() -> None:
    talk = Conversation()
    assert talk.is_halted(1, 11) == [v.Unspawn(LEASE)]
    assert talk.handle(v.StartFailed(s(1), LEASE, "never_started")) == ended("lost", 1, 1, message="executor stopped")


def test_a_job_is_lost_with_the_reason_for_which_the_executor_stops() -> None:
    talk = running()
    talk.is_halted(10, 20, v.MACHINE_STOPPED)
    talk.handle(exited(11, 143))
    assert talk.handle(free(11)) == ended("lost", 11, 11, exit_code=143, message="the machine was being shut down")


def test_a_job_that_starts_while_the_executor_stops_is_ended_at_once() -> None:
    talk = Conversation()
    talk.is_halted(1, 11)
    assert talk.handle(started(2))[1:] == [
        v.Notify(LEASE, "executor_stopping", "", s(11), s(11)),
        v.Terminate(LEASE),
        set_timer(11),
    ]


def test_a_job_that_had_ended_when_the_executor_stopped_is_not_lost() -> None:
    talk = running()
    talk.handle(exited(9))
    assert talk.is_halted(10, 20) == []
    assert talk.handle(free(10)) == ended("exited", 9, 10, exit_code=0)


EVENTS = st.sampled_from(
    [
        lambda at: v.Started(at, LEASE, "simulated"),
        lambda at: v.StartFailed(at, LEASE, "refused"),
        lambda at: v.Exited(at, LEASE, 0),
        lambda at: v.Notified(at, LEASE, hooked=True),
        lambda at: v.Notified(at, LEASE, hooked=False),
        lambda at: v.CallbackEnded(at, LEASE, "exit 0"),
        lambda at: v.TimerFired(at, LEASE, 0),
        lambda at: v.DevicesFree(at, LEASE),
        lambda at: v.DevicesBusy(at, LEASE, "somebody"),
        lambda at: v.CheckpointSeen(at, LEASE, "/ckpt/1", 1),
    ]
)


@given(st.lists(EVENTS | st.sampled_from(["stop", "halt", "timer"]), max_size=30), st.booleans())
def test_whatever_happens_in_whatever_order_the_end_is_stated_at_most_once_and_nothing_follows_it(events, callback) -> None:
    talk = Conversation(on_abort=("save",) if callback else ())
    actions: list[v.Action] = []
    for number, event in enumerate(events):
        if event == "stop":
            actions += talk.is_stopped(number)
        elif event == "halt":
            actions += talk.is_halted(number, number + 5) if talk.lease.phase is not Phase.ENDED else []
        elif event == "timer":
            actions += talk.handle(v.TimerFired(s(number), LEASE, talk.lease.deadline))
        else:
            actions += talk.handle(event(s(number)))
    ends = [number for number, action in enumerate(actions) if isinstance(action, v.Release)]
    assert ends in ([], [len(actions) - 1])
    assert (talk.lease.phase is Phase.ENDED) is bool(ends)


def test_a_job_that_takes_more_than_it_was_given_is_killed_and_the_end_says_why() -> None:
    talk = Conversation()
    talk.handle(started(0))
    assert talk.handle(v.Overran(s(5), LEASE, "it took too much")) == [v.Kill(LEASE)]
    assert talk.handle(exited(6, 137)) == [v.Verify(LEASE)]
    assert talk.handle(free(7)) == ended("exited", 6, 7, exit_code=137, message="it took too much")


def test_of_what_device_it_took_too_much_is_a_fact() -> None:
    talk = Conversation()
    talk.handle(started(0))
    overran = v.Overran(s(5), LEASE, "it took too much", "gpu0", 1_000, 1_400)
    fact = LeaseOverranV1(job=JOB, attempt=1, device="gpu0", limit=1_000, used=1_400, at=s(5))
    assert talk.handle(overran) == [v.State(fact), v.Kill(LEASE)]
    assert talk.handle(exited(6, 137)) == [v.Verify(LEASE)]
    assert talk.handle(overran) == [], "it is gone already"


def test_a_job_that_takes_too_much_while_its_ladder_runs_was_preempted() -> None:
    """R30."""
    talk = Conversation(on_abort=("save",))
    talk.handle(started(0))
    talk.is_stopped(1)
    talk.handle(ladder_begun(1))
    assert talk.handle(v.Overran(s(5), LEASE, "it took too much")) == [v.Kill(LEASE)]
    talk.handle(exited(6, 137))
    assert talk.handle(free(7))[-2:] == ended("exited", 6, 7, exit_code=137, stopping=True, message="it took too much")


def test_where_the_end_of_the_job_was_not_seen_it_is_lost() -> None:
    talk = Conversation()
    talk.handle(started(0))
    talk.handle(v.Exited(s(5), LEASE, None, seen=s(9)))
    assert talk.handle(free(9)) == ended("lost", 5, 9, message=life.KEEPER_KILLED)
