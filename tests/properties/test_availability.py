"""R6, R22 on random histories: after every record, what is used, kept, free and unusable of each key makes up what the pool has."""

from __future__ import annotations

from hypothesis import given

from headrace.contracts.values.amounts import CPU, GPU, MEMORY
from headrace.domain.backfill.holds import fits_now
from headrace.domain.explain.availability import stocks, stocks_for
from headrace.domain.explain.wait_reasons import pools_of
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.model.job_states import JobState
from headrace.simulate.world import World
from tests.properties.campaign import histories
from tests.properties.crowded import crowded
from tests.properties.histories import scenarios
from tests.unit.domain.snapshot import snapshot


def idle_in_service(pool, key):
    """What no lease holds and nothing is kept of on nodes that take work, counted from the nodes."""
    nodes = [node for node in pool.nodes.values() if node.status == "ready" and not node.cordoned and not node.maintenance]
    if key == GPU:
        return sum(device.idle for node in nodes for device in node.devices)
    opens = {CPU: "cpu_open", MEMORY: "memory_open"}
    return sum(getattr(node, opens[key]) for node in nodes)


def check(pool, key, stock) -> None:
    """One key of one pool adds up, and nothing is negative."""
    where = pool.document.name, key, stock
    assert min(stock.used, stock.kept, stock.free, stock.unusable) >= 0, where
    assert stock.used + stock.kept + stock.free + stock.unusable == max(stock.capacity, stock.used), where
    assert stock.unusable == sum(one.amount for one in stock.causes), where
    assert all(one.amount > 0 and one.cause for one in stock.causes), where
    assert (stock.capacity, stock.used) == (pool.known.get(key, 0), pool.leased.get(key, 0)), where
    if key in (GPU, CPU, MEMORY):
        assert stock.free <= idle_in_service(pool, key), where


def check_all(state) -> None:
    """Every key of every pool adds up, for all and for each job that waits; asking changes nothing."""
    before = snapshot(state)
    for pool in state.pools.values():
        for key, stock in stocks(state, pool, sorted({*pool.governed, *pool.usable})).items():
            check(pool, key, stock)
    for job in state.jobs.values():
        for pool in pools_of(state, job) if job.state is JobState.PENDING and job.nomination is None else ():
            found = stocks_for(state, job, pool, sorted(pool.governed))
            for key, stock in found.items():
                check(pool, key, stock)
            if fits_now(state, job, pool, state.now):
                asked = job.request.sums
                assert all(asked.get(key, 0) <= stock.free for key, stock in found.items()), (job.key, found)
    assert snapshot(state) == before


def play(scenario) -> None:
    world = World(scenario, judged=False)
    for _ in world.run():
        pass
    ledger = FoldedLedger()
    for message in world.log.messages_after(0):
        ledger.read(message)
        check_all(ledger.state)


@histories(one_in=3)
@given(scenarios())
def test_used_kept_free_and_unusable_make_up_the_capacity_after_every_record(scenario) -> None:
    play(scenario)


@histories(one_in=6)
@given(crowded())
def test_the_same_holds_in_crowded_pools(scenario) -> None:
    play(scenario)
