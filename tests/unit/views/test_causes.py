"""What led to what, in the worked example: a job that reclaims, its victims, and how they go on (V2, R19, R23-R29)."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.transport.codec import decode_record
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World
from headrace.views.causes import StatedFact, around, causes, relatives

SCENARIOS = Path(__file__).parents[2] / "scenarios"


class ScenarioFacts:
    """A scenario's facts, by type and job."""

    def __init__(self, name):
        world = World(read_scenario(read_tree((SCENARIOS / name).read_text("utf-8"))))
        for _ in world.run():
            pass
        self.names = world.names
        self.stated = [
            StatedFact((message.sequence, place), fact)
            for message in world.log.messages_after(0)
            for place, fact in with_implied_facts(decode_record(message.payload).facts)
        ]
        self.links = causes(self.stated)

    def one(self, kind, name, which=0):
        job = self.names[name]
        return [each.ref for each in self.stated if isinstance(each.fact, kind) and each.fact.job == job][which]

    def types(self, refs):
        of = {each.ref: type(each.fact) for each in self.stated}
        return [of[ref] for ref in sorted(refs)]


@pytest.fixture(scope="module")
def v2():
    return ScenarioFacts("V02.yaml")


def victim_of(facts):
    (order,) = (each.fact for each in facts.stated if isinstance(each.fact, f.PreemptionOrderedV1))
    return next(name for name, key in facts.names.items() if key == order.victims[0].job)


def test_from_the_submission_to_the_grant_of_a_job_that_reclaims(v2):
    admitted, ordered = v2.one(f.JobAdmittedV1, "d"), v2.one(f.PreemptionOrderedV1, "d")
    opened, proposed, granted = (v2.one(kind, "d") for kind in (f.ReclaimOpenedV1, f.PreemptionProposedV1, f.LeaseGrantedV1))
    assert v2.links[admitted] == ()
    assert v2.links[opened] == (admitted,)
    assert v2.links[proposed] == (opened,)
    assert v2.links[ordered] == (proposed,)
    assert v2.links[granted] == (admitted, ordered)


def test_what_a_victim_goes_through_answers_the_order(v2):
    name = victim_of(v2)
    ordered, granted = v2.one(f.PreemptionOrderedV1, "d"), v2.one(f.LeaseGrantedV1, name)
    stop, ended, requeued = (v2.one(kind, name) for kind in (f.StopOrderedV1, f.LeaseEndedV1, f.JobRequeuedV1))
    assert v2.links[stop] == (ordered, granted)
    assert v2.links[ended] == (stop,)
    assert v2.links[requeued] == (ended,)


def test_looking_both_ways_from_the_order_finds_exactly_both_jobs(v2):
    reached = around(v2.links, [v2.one(f.PreemptionOrderedV1, "d")])
    jobs = {each.fact.job for each in v2.stated if each.ref in reached and hasattr(each.fact, "job")}
    assert jobs == {v2.names["d"], v2.names[victim_of(v2)]}
    assert f.JobAdmittedV1 in v2.types(reached)
    assert f.JobRequeuedV1 in v2.types(reached)


@pytest.mark.parametrize(
    ("scenario", "effect", "cause"),
    [
        ("R32_failures_and_lost_nodes.yaml", f.LeaseRevokedV1, f.NodeLostV1),
        ("R28_a_drain_empties_a_node.yaml", f.StopOrderedV1, f.NodeDrainOrderedV1),
        ("R24_force.yaml", f.StopOrderedV1, f.PreemptionForcedV1),
        ("R29_suspended_jobs_wait_in_memory.yaml", f.ResumeOrderedV1, f.LeaseSuspendedV1),
        ("R29_suspended_jobs_wait_in_memory.yaml", f.LeaseSuspendedV1, f.StopOrderedV1),
        ("R29_a_suspended_job_goes_on_elsewhere.yaml", f.MoveOrderedV1, f.LeaseSuspendedV1),
        ("R29_a_suspended_job_goes_on_elsewhere.yaml", f.StopOrderedV1, f.MoveOrderedV1),
        ("R29_a_suspended_job_goes_on_elsewhere.yaml", f.LeaseGrantedV1, f.MoveOrderedV1),
        ("R10_limit_shrinks_and_grows.yaml", f.JobDismissedV1, f.PolicyAppliedV1),
        ("R16_units_are_kept_for_who_has_waited_long.yaml", f.HoldPlacedV1, f.JobAdmittedV1),
    ],
)
def test_every_way_to_leave_has_its_cause(scenario, effect, cause):
    facts = ScenarioFacts(scenario)
    effects = [each.ref for each in facts.stated if isinstance(each.fact, effect)]
    assert any(cause in facts.types(facts.links[ref]) for ref in effects)


def test_only_submissions_documents_and_what_nodes_say_of_themselves_have_no_cause():
    of_a_job = {f.JobAdmittedV1, f.JobRejectedV1}
    for path in sorted(SCENARIOS.glob("[VR]*.yaml")):
        if "refused:" in path.read_text("utf-8"):
            continue
        facts = ScenarioFacts(path.name)
        loose = {type(each.fact) for each in facts.stated if not facts.links[each.ref] and getattr(each.fact, "job", "")}
        assert loose <= of_a_job, path.name


def test_what_is_given_up_answers_the_move_that_it_was_kept_for():
    move = StatedFact((5, 0), f.MoveOrderedV1(job="a.b.c", attempt=1, pool="hq", places=()))
    ended = StatedFact((9, 0), f.NominationEndedV1(preemption="a.b.c@5", job="a.b.c", why="gone"))
    assert causes([move, ended])[ended.ref] == (move.ref,)


def test_an_order_ties_the_jobs_in_it():
    victim = f.preemption.Victim(job="a.b.c", attempt=1, policy="p", lost=0)
    fact = f.PreemptionOrderedV1(
        preemption="x", job="d.e.f", pool="hq", cause="reclaim", victims=(victim,), places=(), rule="R23"
    )
    assert list(relatives(fact)) == ["d.e.f", "a.b.c"]
    assert list(relatives(f.LeaseRevokedV1(job="a.b.c", attempt=1, cause="node_lost"))) == []
