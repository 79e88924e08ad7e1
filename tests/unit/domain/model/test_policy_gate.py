"""What windows and budgets of one policy say: it is part of the state, and comes back from a snapshot."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.domain.model.policy_gate import BudgetMeter, PolicyGate
from headrace.domain.snapshots.snapshot import copy_of, dump, load
from tests.unit.domain.site import Site, policy


def test_what_was_found_of_a_policy_survives_snapshots():  # R33
    site = Site(policy())
    site.append_facts(f.PolicyGatedV1(tenant="default", policy="dev", shut=True, stops=False, spent=("gpu per month",)))
    for state in (site.state, load(dump(site.state)), copy_of(site.state)):
        gate = state.policies["default", "dev"].gate
        assert isinstance(gate, PolicyGate)
        assert (gate.shut, gate.stops, gate.spent) == (True, False, ("gpu per month",))


def test_a_meter_begins_with_nothing_used():  # R33
    meter = BudgetMeter("gpu", 3, 9)
    assert (meter.seconds, meter.microseconds, meter.held) == (0, 0, 0)
