from __future__ import annotations

from headrace.allocator.windows_budgets import Gates
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Budget, Window
from headrace.contracts.values.amounts import GPU
from headrace.contracts.values.durations import HOUR, MINUTE
from tests.unit.allocator.history import START, History, policy

# Tests begin at midnight UTC of Thursday, 2026-01-01.
WINDOW = Window(days=("thu",), opens=60, closes=120)


def gate(**fields: object) -> f.PolicyGatedV1:
    return f.PolicyGatedV1(tenant="default", policy="ml", **fields)


def test_a_change_is_stated_until_it_is_in_the_log_and_then_no_more():
    history = History(policy("ml", windows=(WINDOW,)))
    gates = Gates(history.state)

    assert list(gates.changes(history.now)) == [gate(shut=True)]
    assert list(gates.changes(history.now)) == [gate(shut=True)]
    history.append_facts(gate(shut=True), by="allocator")
    assert list(gates.changes(history.now)) == []
    assert gates.next_change(history.now) == START + HOUR
    assert list(gates.changes(START + HOUR)) == [gate()]


def test_a_budget_is_looked_at_when_it_will_be_used_up_and_sooner_if_more_is_held():
    history = History(policy("ml", budgets=(Budget(key=GPU, hours=1, per="day"),)))
    history.node()
    gates = Gates(history.state)
    history.run("ml/one")

    assert list(gates.changes(history.now)) == []
    assert gates.next_change(history.now) == START + HOUR
    history.run("ml/one")
    assert gates.next_change(history.now) == START + 30 * MINUTE
    assert list(gates.changes(START + 30 * MINUTE)) == [gate(spent=("gpu per day",))]


def test_a_budget_is_looked_at_sooner_where_more_was_held_for_a_while_without_a_look():
    history = History(policy("ml", budgets=(Budget(key=GPU, hours=1, per="day"),)))
    history.node()
    gates = Gates(history.state)
    history.run("ml/one")
    assert list(gates.changes(history.now)) == []
    more = history.run("ml/one")
    history.wait(20 * MINUTE)
    history.end(more)
    assert gates.next_change(history.now) == START + 40 * MINUTE
    assert list(gates.changes(START + 40 * MINUTE)) == [gate(spent=("gpu per day",))]


def test_policies_without_windows_and_budgets_are_not_asked():
    history = History(policy("ml"))
    gates = Gates(history.state)

    assert (list(gates.changes(history.now)), gates.next_change(history.now)) == ([], None)
