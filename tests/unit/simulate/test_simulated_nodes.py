from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.facts.fact import Ladder
from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.facts.nodes import Device
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.simulate.scenario import Nodes, Submit
from headrace.simulate.simulated_nodes import Run, SimulatedNodes

JOB = "default.ann.01k00000000000000000000000"
PREEMPTED = Ladder(cause="preempted", callback_grace=60, term_grace=30, then="requeue")


class Hall:
    """Simulated nodes and one job that behaves as told."""

    def __init__(self, **behaviour):
        self.machines = SimulatedNodes()
        self.machines.behaviours[JOB] = Submit(name="j", queue="q/one", **behaviour)

    def grant(self, now, rank=0, node="n", attempt=1, resume_from=""):
        amounts = {GPU: GPU_UNITS}
        fact = f.LeaseGrantedV1(
            job=JOB, attempt=attempt, rank=rank, node=node, pool="hall", amounts=amounts, resume_from=resume_from
        )
        self.machines.react(fact, now)

    def stop(self, now, attempt=1):
        self.machines.react(f.StopOrderedV1(job=JOB, attempt=attempt, ladder=PREEMPTED), now)

    def order(self, now, ladder):
        self.machines.react(f.StopOrderedV1(job=JOB, attempt=1, ladder=ladder), now)

    def facts_until(self, now):
        """What the nodes have to say by `now`, without who says it."""
        self.machines.pass_time(now)
        return [fact for _, fact in self.machines.take_facts()]


def started(at, rank=0, attempt=1):
    return f.LeaseStartedV1(job=JOB, attempt=attempt, rank=rank, at=at, isolation="simulated")


def notified(at, rank=0):
    return rung_of("told", at, rank)


def rung_of(name, at, rank=0):
    return f.LeaseRungV1(job=JOB, attempt=1, rank=rank, rung=name, at=at, took=0, result="ok")


def ended(at, exit_code=0, rank=0, **more):
    return f.LeaseEndedV1(job=JOB, attempt=1, rank=rank, outcome="exited", exit_code=exit_code, exited_at=at, at=at, **more)


@pytest.fixture
def hall_class():
    return Hall


def test_a_lease_starts_at_once_on_its_node_and_ends_when_its_duration_is_over(hall_class):
    hall_class = hall_class(duration=50)
    hall_class.grant(100, node="gpu01")
    assert hall_class.machines.take_facts() == [("node.gpu01", started(100))]
    assert (hall_class.facts_until(149), hall_class.machines.next_due()) == ([], 150)
    assert (hall_class.facts_until(150), hall_class.machines.next_due(), hall_class.machines.runs) == ([ended(150)], None, {})


def test_without_a_duration_it_runs_until_it_is_finished(hall_class):
    hall_class = hall_class()
    hall_class.grant(100)
    assert hall_class.facts_until(10**15) == [started(100)]
    hall_class.machines.finish(JOB, 10**15, 3)
    assert hall_class.facts_until(10**15) == [ended(10**15, exit_code=3)]


def test_every_replica_is_a_run_of_its_own(hall_class):
    hall_class = hall_class(duration=50)
    hall_class.grant(100, rank=0, node="a")
    hall_class.grant(100, rank=1, node="b")
    assert hall_class.machines.take_facts() == [("node.a", started(100)), ("node.b", started(100, rank=1))]
    hall_class.machines.finish(JOB, 120, 1)
    assert hall_class.facts_until(120) == [ended(120, exit_code=1), ended(120, exit_code=1, rank=1)]
    assert hall_class.facts_until(10**9) == []


def test_checkpoints_come_one_after_the_other_until_the_end(hall_class):
    hall_class = hall_class(duration=50, checkpoint_every=20)
    hall_class.grant(100)
    hall_class.machines.take_facts()
    points = [
        f.CheckpointRegisteredV1(job=JOB, attempt=1, uri=f"sim:{JOB}/1/{step}", step=step, at=100 + 20 * step)
        for step in (1, 2)
    ]
    assert [hall_class.facts_until(at) for at in (119, 120, 140, 150, 160)] == [[], points[:1], points[1:], [ended(150)], []]


def saved(at, step, attempt=1):
    return f.CheckpointRegisteredV1(job=JOB, attempt=attempt, uri=f"sim:{JOB}/{attempt}/{step}", step=step, at=at)


def test_an_attempt_that_resumes_has_only_the_rest_of_its_work_before_it(hall_class):
    hall_class = hall_class(duration=50, checkpoint_every=20)
    hall_class.grant(100)
    hall_class.facts_until(120)
    hall_class.facts_until(140)
    hall_class.stop(145)
    hall_class.facts_until(145)
    hall_class.grant(200, attempt=2, resume_from=f"sim:{JOB}/1/2")
    assert hall_class.facts_until(209) == [started(200, attempt=2)]
    ending = f.LeaseEndedV1(job=JOB, attempt=2, outcome="exited", exit_code=0, exited_at=210, at=210)
    assert hall_class.facts_until(210) == [ending]


def test_a_job_that_saves_when_it_is_told_to_stop_loses_nothing(hall_class):
    hall_class = hall_class(duration=50, saves_on_abort=True)
    hall_class.grant(100)
    hall_class.stop(130)
    assert hall_class.facts_until(130) == [
        started(100),
        notified(130),
        saved(130, 1),
        ended(130, exit_code=143, stopping=True),
    ]
    hall_class.grant(200, attempt=2, resume_from=f"sim:{JOB}/1/1")
    hall_class.stop(205, attempt=2)
    notified_again = f.LeaseRungV1(job=JOB, attempt=2, rung="told", at=205, took=0, result="ok")
    left = f.LeaseEndedV1(job=JOB, attempt=2, outcome="exited", exit_code=143, stopping=True, exited_at=205, at=205)
    assert hall_class.facts_until(205) == [started(200, attempt=2), notified_again, saved(205, 1, attempt=2), left]
    hall_class.grant(300, attempt=3, resume_from=f"sim:{JOB}/2/1")
    assert hall_class.machines.next_due() == 315


class TestStopping:
    def test_a_job_that_is_told_to_stop_leaves_after_the_time_it_takes(self, hall_class):
        hall_class = hall_class(abort_takes=10)
        hall_class.grant(100)
        hall_class.stop(200)
        assert hall_class.facts_until(209) == [started(100), notified(200)]
        assert hall_class.facts_until(210) == [ended(210, exit_code=143, stopping=True)]

    def test_a_job_whose_time_is_over_within_that_has_declared_itself_finished(self, hall_class):
        hall_class = hall_class(duration=105, abort_takes=10)
        hall_class.grant(100)
        hall_class.stop(200)
        assert hall_class.facts_until(300) == [started(100), notified(200), ended(300, finished=True, stopping=True)]

    def test_told_twice_it_hears_once(self, hall_class):
        hall_class = hall_class(abort_takes=10)
        hall_class.grant(100)
        hall_class.stop(200)
        hall_class.stop(205)
        assert hall_class.facts_until(210) == [started(100), notified(200), ended(210, exit_code=143, stopping=True)]

    def test_an_order_for_another_attempt_does_not_concern_this_one(self, hall_class):
        hall_class = hall_class()
        hall_class.grant(100, attempt=2)
        hall_class.stop(200, attempt=1)
        assert hall_class.facts_until(300) == [started(100, attempt=2)]


SUSPEND = Ladder(cause="preempted", callback_grace=60, term_grace=30, then="suspend")
CANCEL = Ladder(cause="cancelled", callback_grace=60, term_grace=30, then="cancel")


class TestSuspending:
    """R29."""

    @pytest.fixture
    def suspended(self, hall_class):
        """A job of 100 us that has run 40 when it is told, and takes 10 to leave; what was said is forgotten."""

        def made(**more):
            one = hall_class(**({"duration": 100, "abort_takes": 10} | more))
            one.machines.register(Nodes(name="n"), "n", 0)
            one.grant(100)
            one.order(140, SUSPEND)
            assert one.facts_until(150)[-2:] == [
                rung_of("suspend", 150),
                f.LeaseSuspendedV1(job=JOB, attempt=1, at=150, how="simulated"),
            ]
            assert one.machines.next_due() is None
            return one

        return made

    def test_it_goes_on_with_the_rest_of_its_time(self, suspended):
        hall_class = suspended()
        hall_class.machines.react(f.ResumeOrderedV1(job=JOB, attempt=1), 1_000)
        assert hall_class.facts_until(1_049) == [f.LeaseResumedV1(job=JOB, attempt=1, at=1_000)]
        assert hall_class.facts_until(1_050) == [ended(1_050)]

    def test_it_saves_its_work_in_the_same_steps(self, suspended):
        hall_class = suspended(checkpoint_every=30)
        hall_class.machines.react(f.ResumeOrderedV1(job=JOB, attempt=1), 1_000)
        assert [fact.at for fact in hall_class.facts_until(1_030) if isinstance(fact, f.CheckpointRegisteredV1)] == [1_030]
        assert list(hall_class.machines.saved.values()) == [50, 80]

    def test_any_other_stop_kills_it_at_once(self, suspended):
        hall_class = suspended()
        hall_class.order(500, SUSPEND)
        hall_class.order(600, CANCEL)
        killed = f.LeaseEndedV1(job=JOB, attempt=1, outcome="killed", stopping=True, exited_at=600, at=600)
        assert hall_class.facts_until(10_000)[-1] == killed

    def test_an_order_to_go_on_for_a_job_that_runs_is_ignored(self, hall_class):
        hall_class = hall_class(duration=50)
        hall_class.grant(100)
        hall_class.machines.react(f.ResumeOrderedV1(job=JOB, attempt=1), 120)
        assert hall_class.facts_until(150) == [started(100), ended(150)]

    @pytest.mark.parametrize("nodes", [Nodes(name="n", suspends=False), None])
    def test_where_a_node_cannot_or_does_not_know_it_ends(self, hall_class, nodes):
        hall_class = hall_class()
        if nodes is not None:
            hall_class.machines.register(nodes, "n", 0)
        hall_class.grant(100)
        hall_class.order(140, SUSPEND)
        assert hall_class.facts_until(140)[-1] == ended(140, exit_code=143, stopping=True)

    def test_a_cancel_that_comes_while_it_leaves_keeps_it_from_being_suspended(self, hall_class):
        hall_class = hall_class(abort_takes=10)
        hall_class.machines.register(Nodes(name="n"), "n", 0)
        hall_class.grant(100)
        hall_class.order(140, SUSPEND)
        hall_class.order(145, CANCEL)
        assert hall_class.facts_until(150)[-1] == ended(150, exit_code=143, stopping=True)


class TestTroubles:
    """R35, R36."""

    def test_a_node_that_refuses_says_so_and_one_that_stalls_says_nothing_until_it_is_told_to_stop(self, hall_class):
        hall_class = hall_class()
        hall_class.machines.troubles["n"] = "refuse"
        hall_class.grant(100)
        refused = f.LeaseEndedV1(job=JOB, attempt=1, outcome="refused", message="it was told to refuse", exited_at=100, at=100)
        assert hall_class.facts_until(100) == [refused]
        hall_class.machines.troubles["n"] = "stall"
        hall_class.grant(200)
        assert hall_class.facts_until(10_000) == []
        hall_class.stop(10_000)
        never = f.LeaseEndedV1(job=JOB, attempt=1, outcome="never_started", exited_at=10_000, at=10_000)
        assert (hall_class.facts_until(10_000), hall_class.machines.runs) == ([never], {})
        hall_class.machines.troubles["n"] = ""
        hall_class.grant(20_000)
        assert hall_class.facts_until(20_000) == [started(20_000)]


class TestLoss:
    def test_everything_on_a_lost_node_stops_without_a_word(self, hall_class):
        hall_class = hall_class(duration=50, checkpoint_every=20)
        hall_class.grant(100, rank=0, node="a")
        hall_class.grant(100, rank=1, node="b")
        hall_class.machines.take_facts()
        hall_class.machines.lose("a")
        assert [fact.rank for fact in hall_class.facts_until(150) if isinstance(fact, f.LeaseEndedV1)] == [1]

    def test_what_is_granted_on_a_lost_node_does_not_start_before_the_node_is_back(self, hall_class):
        hall_class = hall_class()
        hall_class.machines.lose("n")
        hall_class.grant(100)
        assert (hall_class.facts_until(200), hall_class.machines.runs) == ([], {})
        hall_class.machines.register(Nodes(name="n"), "n", 300)
        hall_class.grant(300, attempt=2)
        assert hall_class.facts_until(300) == [started(300, attempt=2)]


def test_a_node_says_what_it_has_when_it_comes_up():
    nodes = Nodes(name="hq", count=2, labels={"site": "a"}, gpus=2, gpu_model="H100-80GB", cpus=4, memory=1_024, mig=True)
    assert SimulatedNodes().register(nodes, "hq-1", 7) == f.NodeRegisteredV1(
        node="hq-1",
        labels={"site": "a"},
        devices=tuple(Device(device=device, model="H100-80GB", memory=81_920, mig=True) for device in ("gpu0", "gpu1")),
        cpu=4_000,
        memory=1_024,
        executor="simulated",
        isolation="hardware",
        reads=LEVEL,
        at=7,
    )


def test_a_lease_that_is_there_already_ends_when_it_is_to_and_says_that_it_started_if_it_had_not():
    hall_class = Hall(duration=10)
    hall_class.machines.add_running(Run(JOB, 1, 0, "n", hall_class.machines.behaviours[JOB], 0, 10), 4, started=False)
    assert hall_class.machines.will_end()
    assert hall_class.facts_until(4) == [started(4)]
    assert [type(fact) for fact in hall_class.facts_until(10)] == [f.LeaseEndedV1]
    hall_class.machines.add_running(Run(JOB, 2, 0, "n", hall_class.machines.behaviours[JOB], 0, None), 11, started=True)
    assert (hall_class.facts_until(99), hall_class.machines.will_end()) == ([], False)
