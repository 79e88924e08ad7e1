"""What a run used and cost, against the books of the same ledger."""

from __future__ import annotations

from headrace.accounting.books.books import Books
from headrace.accounting.books.costs import hour_of, rounded
from headrace.contracts.documents.model import Pool, Share, Tenant
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.domain.fold.ledger import FoldedLedger
from headrace.simulate.scenario import read_scenario
from headrace.simulate.usage_cost import UsageCost, UsePlace, priced_keys
from headrace.simulate.world import World

STORY = """
groups: [{name: all, members: [ann]}]
pools: [{name: hall, selector: {site: a}, price: {gpu: 3.6, cpu: 0.36}, reserved_price: {gpu: 1.8}}]
profiles: [{name: one, request: {gpu: 1, cpu: 1}, pools: [hall]}]
nodes: [{name: n, count: 2, labels: {site: a}, gpus: 2}]
policies:
  - {name: dev, group: all, profiles: [one], reservation: {gpu: 1}, preemption: {on_preempt: suspend}}
  - {name: ops, group: all, profiles: [one], reservation: {gpu: 3}}
timeline:
  - {at: 0s, submit: {name: a, queue: dev/one, count: 4, duration: 10m, abort_takes: 2s}}
  - {at: 60s, submit: {name: b, queue: ops/one, count: 2, duration: 5m}}
  - {at: 100s, apply: {pools: [{name: hall, selector: {site: a}, price: {gpu: 7.2}}]}}
  - {at: 120s, node_lost: n-2}
  - {at: 180s, node_back: n-2}
  - {at: 200s, apply: {policies: [{name: dev, group: all, profiles: [one], reservation: {gpu: 0.5}}]}}
  - {at: 30m, expect: {}}
"""


def followed(story):
    """A world that has been played, and its usage_cost."""
    world = World(read_scenario(read_tree(story)))
    usage_cost = UsageCost(world.state, frozenset({GPU, "cpu"}))
    usage_cost.begin(world.now)
    world.listeners.append(usage_cost.note)
    list(world.run())
    usage_cost.end(world.now)
    return world, usage_cost


def test_it_comes_to_what_the_books_say():  # R17
    world, usage_cost = followed(STORY)
    ledger = FoldedLedger()
    books = Books(ledger.state)
    for message in world.log.messages_after(0):
        books.enter(message, ledger.read(message))
    changes = books.settle()
    assert {row.suspended > 0 for row in changes.days if row.policy == "dev" and row.key == GPU} >= {True}
    rates = {(price.tariff, price.key): (price.on_demand, price.reserved) for price in changes.prices}
    for policy in ("dev", "ops"):
        rows = [row for row in changes.days if row.policy == policy and row.pool and row.key in (GPU, "cpu")]
        used = usage_cost.tally().used[UsePlace("default", policy, "all", "hall")]
        assert used.reserved == sum(row.reserved for row in rows if row.key == GPU)
        assert used.borrowed == sum(row.borrowed for row in rows if row.key == GPU)
        cost = sum(
            rounded(units * rate, hour_of(row.key))
            for row in rows
            for units, rate in zip((row.borrowed, row.reserved), rates.get((row.tariff, row.key), (0, 0)), strict=True)
        )
        assert (used.cost, cost > 0) == (cost, True)


def test_what_a_pool_had_is_what_was_usable():
    _, usage_cost = followed(STORY)
    assert usage_cost.tally().had == {"hall": GPU_UNITS * (4 * HOUR // 2 - 2 * 60 * SECOND)}


def test_what_is_held_when_it_begins_counts_from_then_on():
    world = World(read_scenario(read_tree(STORY)))
    world.begin()
    list(world.play(0))
    usage_cost = UsageCost(world.state, frozenset({GPU}))
    usage_cost.begin(world.now)
    world.pass_to(world.now + 10 * SECOND)
    usage_cost.end(world.now)
    used = usage_cost.tally().used[UsePlace("default", "dev", "all", "hall")]
    assert (used.reserved, used.borrowed) == (10 * SECOND * GPU_UNITS, 30 * SECOND * GPU_UNITS)
    assert used.cost == 10 * 500 + 30 * 1_000


def test_keys_with_prices_are_looked_for_in_pools_and_shares():
    pool = Pool(name="hall", selector={}, price={"cpu": "1"}, reserved_price={"memory": "1"})
    tenant = Tenant(name="acme", shares=(Share(pool="hall", price={"license/x": "2"}),))
    assert priced_keys((pool, tenant, None)) == {GPU, "cpu", "memory", "license/x"}
