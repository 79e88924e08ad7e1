"""An array is granted what as many single jobs of the same moment would be, and never runs more elements at once than its bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import facts as f
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.model.job_states import FINAL, HOLDING
from headrace.domain.queueing.ranking import is_fair
from headrace.domain.snapshots.snapshot import dump, load
from headrace.simulate.scenario import Scenario
from headrace.simulate.world import World
from tests.properties.arrays import arrays, pairs
from tests.properties.auditor import Auditor
from tests.properties.campaign import histories
from tests.properties.checked_histories import Checked, play
from tests.properties.oracle_watch import compiled, watch
from tests.unit.domain.snapshot import differences, snapshot


def grants(world: World, scenario: Scenario) -> list[tuple[object, ...]]:
    """Who was granted what, when, in order; elements of arrays and jobs of a count by their number from 0."""
    named = {}
    for moment in scenario.timeline:
        row = moment.submit
        if row is not None and (row.array or row.count > 1):
            names = [name for name in world.names if name.rpartition("-")[0] == row.name]
            named |= {world.names[name]: (row.name, number) for number, name in enumerate(names)}
        elif row is not None:
            named[world.names[row.name]] = (row.name, 0)
    return [
        (record.at, *named[fact.job], fact.attempt, fact.rank, fact.node, fact.devices, fact.inside)
        for record in world.history
        for fact in record.facts
        if isinstance(fact, f.LeaseGrantedV1)
    ]


@histories(one_in=2)
@given(pairs())
def test_an_array_without_a_bound_is_granted_what_single_jobs_would_be(both) -> None:
    whole, single = play(Checked(both[0], judged=False)), play(World(both[1], judged=False))

    if not any(is_fair(policy) for policy in whole.state.policies.values()):
        assert grants(whole, both[0]) == grants(single, both[1])


class Bounded(Checked):
    """A world in which arrays are counted at every rest."""

    def run_until_stable(self) -> None:
        super().run_until_stable()
        for array in self.state.arrays.values():
            elements = [job for job in self.state.jobs.values() if job.array is array and job.array.job is not job]
            running = sum(job.state in HOLDING for job in elements)
            alive = [job for job in elements if job.state not in FINAL]
            most = array.range.at_once
            assert not most or running <= most
            assert {job.key: job for job in alive} == array.elements
            waiting = sum(last - first + 1 for first, last in array.waiting)
            assert waiting + len(alive) + sum(array.ended.values()) == array.range.count
            assert (array.job.state in FINAL) is (not waiting and not alive)


@histories(one_in=2)
@given(arrays())
def test_elements_are_counted_and_never_more_run_than_may(scenario) -> None:
    world = play(Bounded(scenario, judged=False))
    assert Auditor().read_all(world.log.messages_after(0)) == []


@compiled
@histories(one_in=4)
@given(arrays())
def test_every_round_grants_what_a_look_at_everything_would(scenario) -> None:
    watch(scenario)


@histories(one_in=5)
@given(arrays(), st.randoms(use_true_random=False))
def test_the_fold_of_a_snapshot_and_the_tail_is_the_fold_of_everything(scenario, random) -> None:
    world = play(World(scenario, judged=False))
    messages = world.log.messages_after(0)
    cut = random.randint(0, len(messages))
    ledger = FoldedLedger()
    for message in messages[:cut]:
        ledger.read(message)

    resumed = FoldedLedger(load(dump(ledger.state)))
    for message in messages[cut:]:
        resumed.read(message)

    assert differences(snapshot(resumed.state), snapshot(world.state)) == []
    assert dump(resumed.state) == dump(world.state)
