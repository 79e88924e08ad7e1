"""Searches for victims held against every set of victims there is (R26)."""

from __future__ import annotations

from itertools import combinations

from headrace.contracts.facts.writers import PREEMPTION
from headrace.contracts.values.durations import MINUTE
from headrace.domain.backfill.holds import as_seen_by
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import JobRecord
from headrace.domain.preemption.victims import FITS_NOW, LEAVING, NoPlan, VictimPlan, review, search
from headrace.domain.state.pools import PoolState
from headrace.domain.state.state import State
from headrace.simulate.scenario import Moment, Scenario, Submit
from headrace.simulate.timeline_events import happen
from headrace.simulate.world import World
from tests.properties.reclaim_oracle import Oracle

CANDIDATES_MAX = 7
ASKED_AT = 10 * MINUTE


def ground(scenario: Scenario, asked: str) -> tuple[State, JobRecord | None, int]:
    """The state in which the job is pending and no search for victims has begun yet."""
    world = World(scenario, judged=False)
    for _ in world.run():
        pass
    happen(world, Moment(at=ASKED_AT, submit=Submit(name="p", queue=f"own/{asked}")))
    world.append("admission", world.admission.decide(world.now))
    return world.state, world.state.jobs.get(world.names["p"]), world.now


def check(state: State, job: JobRecord, pool: PoolState, now: int) -> None:
    """What the search finds is what the oracle says it has to be; both see what is kept for jobs of a better rank as taken (R18)."""
    found = search(state, job, pool, now)
    reviewed = review(state, job, pool, found, now) if isinstance(found, VictimPlan) else ()
    with as_seen_by(state, job, pool, now):
        judge(state, Oracle(state, job, pool, now), found)
    if isinstance(found, VictimPlan):
        assert reviewed == found.places


def judge(state: State, oracle: Oracle, found: VictimPlan | NoPlan) -> None:
    """The plan, or its absence, beside every set there is."""
    sets = {cause: [] if oracle.is_at_own_limit() else oracle.sets(cause) for cause in ("reclaim", "priority")}
    cause = next((cause for cause, those in sets.items() if those), None)
    if not isinstance(found, VictimPlan):
        assert cause is None or oracle.is_sufficient(()), (found, [victim.key for victim in sets[cause][0]])
        assert found.why not in (FITS_NOW, LEAVING) or oracle.is_sufficient(()), found
        return
    victims = tuple(state.jobs[victim.job] for victim in found.victims)
    assert found.cause == cause
    assert {frozenset(victims)} <= {frozenset(those) for those in sets[cause]}
    assert not any(oracle.is_sufficient(fewer) for fewer in combinations(victims, len(victims) - 1))
    if oracle.is_of_nodes():
        by_node = oracle.by_node(cause)
        assert by_node is None or victims == by_node
        return
    worst = min(max(map(oracle.order, those)) for those in sets[cause])
    assert max(map(oracle.order, victims)) == worst


class DoubtedPreemption:
    """A preemption whose every search is held against the oracle, where the world is small enough for that."""

    def __init__(self, world: World) -> None:
        self.state, self.trusted, self.asked = world.state, world.deciders[PREEMPTION], 0
        world.deciders[PREEMPTION] = self

    def decide(self, now: int):
        self.asked += 1
        for pool in self.state.pools.values():
            asked = pool.search
            if asked is not None and asked.proposal is None and asked.job.state is JobState.PENDING:
                oracle = Oracle(self.state, asked.job, pool, now)
                if max(len(oracle.candidates(cause)) for cause in ("reclaim", "priority")) <= CANDIDATES_MAX:
                    check(self.state, asked.job, pool, now)
        return self.trusted.decide(now)

    def next_wakeup(self) -> int | None:
        return self.trusted.next_wakeup()


def doubt(scenario: Scenario) -> int:
    """Play a history with a doubted preemption; how often it was asked."""
    world = World(scenario, judged=False)
    doubted = DoubtedPreemption(world)
    for _ in world.run():
        pass
    return doubted.asked
