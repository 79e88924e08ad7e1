"""The fold of any order of events: facts of others may come early, late or twice, and never raise nor unbalance a number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import facts as f
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.records import Record
from headrace.domain.explain.explain import explain
from headrace.domain.fold.apply import apply
from headrace.domain.state.state import State
from headrace.simulate.virtual_system import START
from headrace.simulate.world import World
from tests.properties.campaign import histories
from tests.properties.histories import scenarios
from tests.unit.domain.snapshot import differences, kept, naive, snapshot

INTRUDERS_MAX = 30

DELETIONS = (
    f.PolicyDeletedV1(author="a.b", tenant="default", name="q0"),
    f.PolicyDeletedV1(author="a.b", tenant="acme", name="q1"),
    f.ProfileDeletedV1(author="a.b", name="p0"),
    f.PoolDeletedV1(author="a.b", name="west"),
    f.TenantDeletedV1(author="a.b", name="acme"),
    f.NodeStoppedV1(node="west", at=START),
    f.NodeLostV1(node="east-1", silent_for=0),
    f.NodeCordonedV1(author="a.b", node="west-1"),
    f.NodeUncordonedV1(author="a.b", node="west-1"),
)


def play(scenario) -> list[Record]:
    world = World(scenario, judged=False)
    for _ in world.run():
        pass
    return [
        Record(by=stated.by, now=START + stated.at, engine="test", as_of=stated.sequence - 1, facts=stated.facts)
        for stated in world.history
    ]


def with_intruders(records: list[Record], random) -> list[Record]:
    """The records, and between them facts that others have said or will say, and deletions without a request."""
    others: list[AnyFact] = [fact for record in records if record.by != "allocator" for fact in record.facts]
    disturbed = list(records)
    for _ in range(random.randint(1, INTRUDERS_MAX)):
        place = random.randrange(len(disturbed))
        fact = random.choice((*DELETIONS, random.choice(others)))
        disturbed.insert(place, Record(by="anybody", now=disturbed[place].now, engine="test", as_of=0, facts=(fact,)))
    return disturbed


@histories()
@given(scenarios(), st.randoms(use_true_random=False))
def test_facts_at_the_wrong_moment_raise_nothing_and_unbalance_nothing(scenario, random) -> None:
    state = State()

    for sequence, record in enumerate(with_intruders(play(scenario), random), 1):
        apply(state, record, sequence)

    assert differences(kept(state), naive(state)) == []


@histories(one_in=3)
@given(scenarios(), st.randoms(use_true_random=False))
def test_every_job_is_explained_at_any_moment_and_asking_changes_nothing(scenario, random) -> None:
    records = play(scenario)
    state = State()
    for sequence, record in enumerate(records[: random.randint(1, len(records))], 1):
        apply(state, record, sequence)
    before = snapshot(state)

    views = [explain(state, job, state.now) for job in state.jobs.values()]

    assert [view.job for view in views if view.state == "pending" and not view.reason] == []
    assert differences(snapshot(state), before) == []
