"""The search for victims against every set there is (R26): found where one exists, legal, sufficient, and without spare victims.

The naive side knows nothing of the product's search: it goes through all sets and all orders, and places by trying every device.
"""

from __future__ import annotations

from itertools import combinations

from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.contracts.documents import model as d
from headrace.contracts.facts.writers import PREEMPTION
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import MINUTE
from headrace.domain.backfill.holds import as_seen_by
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import JobRecord
from headrace.domain.preemption.victims import FITS_NOW, LEAVING, NoPlan, VictimPlan, review, search
from headrace.domain.state.pools import PoolState
from headrace.domain.state.state import State
from headrace.simulate.scenario import Expect, Moment, Nodes, Scenario, Submit
from headrace.simulate.timeline_events import happen
from headrace.simulate.world import World
from tests.properties.campaign import histories
from tests.properties.crowded import crowded
from tests.properties.histories import scenarios
from tests.properties.reclaim_oracle import Oracle

CANDIDATES_MAX = 7
HALF = GPU_UNITS // 2
ASKED_AT = 10 * MINUTE
SIZES = {"half": HALF, "one": GPU_UNITS, "two": 2 * GPU_UNITS, "three": 3 * GPU_UNITS}


@st.composite
def grounds(draw) -> tuple[Scenario, str]:
    """A small pool that lenders have filled, and the profile of a job that then asks for its reservation."""
    row = Nodes(name="n", count=draw(st.integers(1, 2)), labels={"site": "a"}, gpus=draw(st.integers(2, 4)))
    whole = row.count * row.gpus * GPU_UNITS
    links = tuple(d.PolicyProfile(name=name) for name in (*SIZES, "pair"))
    lenders = tuple(
        d.Policy(
            name=name,
            profiles=links,
            priority=draw(st.integers(0, 1)),
            reservation={GPU: draw(st.integers(0, 4)) * HALF},
            preemption=d.PreemptionTerms(min_runtime=draw(st.sampled_from([0, 0, 0, 2 * ASKED_AT]))),
        )
        for name in ("l1", "l2")
    )
    own = d.Policy(
        name="own",
        profiles=links,
        priority=2,
        reservation={GPU: draw(st.sampled_from([whole, whole, 0]))},
        preemption=d.PreemptionTerms(preempt_lower_priority=True),
    )
    held = draw(
        st.lists(st.tuples(st.sampled_from(("l1", "l2")), st.sampled_from((*SIZES, "half", "one"))), min_size=2, max_size=7)
    )
    asked = draw(st.sampled_from((*SIZES, "pair")))
    profiles = [d.Profile(name=name, request={GPU: units}, pools=("a",)) for name, units in SIZES.items()]
    profiles.append(d.Profile(name="pair", request={GPU: GPU_UNITS}, replicas=2, pools=("a",)))
    moments = [
        Moment(at=number * MINUTE, submit=Submit(name=f"h{number}", queue=f"{lender}/{size}", preemptible=True))
        for number, (lender, size) in enumerate(held)
    ]
    documents = d.Documents(
        pools=(d.Pool(name="a", selector={"site": "a"}),), profiles=tuple(profiles), policies=(*lenders, own)
    )
    return Scenario(documents=documents, nodes=(row,), timeline=(*moments, Moment(at=ASKED_AT, expect=Expect()))), asked


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


@histories(times=2)
@given(grounds())
def test_a_set_is_found_exactly_where_one_exists_and_it_is_minimal(drawn) -> None:
    state, job, now = ground(*drawn)
    assume(job is not None and not Oracle(state, job, state.pools["a"], now).is_sufficient(()))
    check(state, job, state.pools["a"], now)


class Doubted:
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
    doubted = Doubted(world)
    for _ in world.run():
        pass
    return doubted.asked


@histories()
@given(scenarios())
def test_so_it_is_for_every_search_of_any_history_over_pools_keys_tenants_and_gangs(scenario) -> None:
    assert doubt(scenario)


@histories()
@given(crowded())
def test_and_for_every_search_in_small_pools_that_are_shared_out(scenario) -> None:
    assert doubt(scenario)
