"""What a trial says is what a clearing counts, and what the fold of the same facts makes in a copy."""

from __future__ import annotations

from itertools import chain
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import facts as f
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.facts.fact import Place
from headrace.contracts.facts.writers import ALLOCATOR
from headrace.domain.backfill.holds import fits_without_holds
from headrace.domain.fold.apply import make_true
from headrace.domain.model.jobs import JobRecord
from headrace.domain.placement.placement import may_hold
from headrace.domain.placement.placement_after_preemption import leaving_anyway
from headrace.domain.preemption.eligibility import RECLAIM
from headrace.domain.preemption.victim_search import SearchContext
from headrace.domain.snapshots.snapshot import copy_of
from headrace.domain.state.capacity import freed_by
from headrace.domain.state.pools import PoolState
from headrace.domain.state.quota import BOTH, over_limit
from headrace.domain.state.state import State
from headrace.domain.state.trial import JobHolding, Trial, holding_of
from headrace.simulate.world import World
from tests.properties.campaign import histories
from tests.properties.checked_histories import play
from tests.properties.crowded import crowded
from tests.properties.histories import scenarios
from tests.unit.domain.snapshot import differences, kept

SEEDS = st.integers(0, 2**32 - 1)


def would_start(state: State, job: JobRecord, pool: PoolState, gone: list[JobRecord]) -> bool:
    """Whether the job places and its tenant's share allows it, on trial, once these have left and those who leave anyway."""
    share = state.shares.get((job.tenant, pool.document.name))
    with Trial(state) as trial:
        for lease in chain.from_iterable(leaving_anyway(state, pool).values()):
            freed = (freed_by(lease),)
            trial.release(JobHolding(lease.job, pool, freed, yields=freed if lease.yields else ()))
        for one in gone:
            trial.release(holding_of(state, one))
        limited = share is not None and over_limit((share,), pool.governed, job.request.total, against=BOTH) is not None
        return not limited and fits_without_holds(state, job, pool)


class Cleared(World):
    """A world in which at every rest some jobs leave clearings, and leave on trial."""

    def __init__(self, scenario, random: Random) -> None:
        super().__init__(scenario, judged=False)
        self.random = random
        self.compared = 0

    def run_until_stable(self) -> None:
        super().run_until_stable()
        for group in self.state.pending.groups.values():
            job = group.head()
            for pool in self.state.pools.values():
                if not job.request.shape.mig:  # of slices more may be charged than will count: the clearing is on the safe side
                    self._compare(job, pool)

    def _compare(self, job: JobRecord, pool: PoolState) -> None:
        running = [
            one
            for policy in self.state.policies.values()
            for one in policy.jobs.values()
            if one.stop is None and not one.yields_to and all(lease.pool == pool.document.name for lease in one.leases.values())
        ]
        gone = [one for one in running if self.random.random() < 0.5]
        clearing = SearchContext(self.state, job, pool, RECLAIM).clearing(
            [node for node in pool.nodes.values() if may_hold(pool, node, job)]
        )
        clearing.open_all()
        for one in (*gone, *gone[:2]):
            clearing.leave(one)
        for one in gone[:2]:
            clearing.come_back(one)
        self.compared += 1
        assert clearing.suffices is would_start(self.state, job, pool, gone), (
            job.key,
            pool.document.name,
            [one.key for one in gone],
        )


@histories(one_in=3)
@given(scenarios(), SEEDS)
def test_a_clearing_says_of_jobs_that_leave_what_a_trial_says(scenario, seed) -> None:
    play(Cleared(scenario, Random(seed)))


@histories(one_in=3)
@given(crowded(), SEEDS)
def test_so_it_does_in_small_pools_that_are_shared_out(scenario, seed) -> None:
    play(Cleared(scenario, Random(seed)))


class Tried:
    """An allocator whose grants are tried on the state, and folded into a copy of it."""

    def __init__(self, world: World) -> None:
        self.world, self.trusted, self.granted = world, world.deciders[ALLOCATOR], 0
        world.deciders[ALLOCATOR] = self

    def decide(self, now: int):
        decided, state = self.trusted.decide(now), self.world.state
        grants = [fact for fact in decided if isinstance(fact, f.LeaseGrantedV1)]
        if grants and all(state.jobs[fact.job].nomination is None for fact in grants):
            self.granted += len(grants)
            copy, before = copy_of(state), kept(state)
            make_true(copy, with_implied_facts(tuple(grants)), now, state.sequence + 1)
            with Trial(state) as trial:
                for fact in grants:
                    place = Place(node=fact.node, devices=fact.devices, amounts=fact.amounts)
                    trial.take(state.jobs[fact.job], state.pools[fact.pool], place)
                assert differences(held(state), held(copy)) == []
            assert differences(kept(state), before) == []
        return decided

    def next_wakeup(self) -> int | None:
        return self.trusted.next_wakeup()


def held(state: State) -> dict[str, object]:
    """What is free, and what is used; accounts that say nothing are left out; a copy may have fewer of them."""
    numbers = kept(state)
    accounts = {name: account for name, account in numbers["accounts"].items() if any(account)}
    return {"accounts": accounts} | {name: numbers[name] for name in ("pools", "lasting", "nodes")}


@histories(one_in=3)
@given(scenarios())
def test_a_trial_of_grants_counts_what_their_fold_counts_in_a_copy(scenario) -> None:
    world = World(scenario, judged=False)
    Tried(world)

    play(world)
