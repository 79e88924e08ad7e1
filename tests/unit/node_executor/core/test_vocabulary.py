"""Every word has a handler."""

from __future__ import annotations

from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.lease import RULES
from headrace.node_executor.core.node import STEPS
from headrace.node_executor.executor import Executor


def test_every_event_is_answered_by_the_node_or_by_the_table_of_a_lease() -> None:
    of_leases = {event for _, event in RULES} | {v.CheckpointSeen}  # a checkpoint counts in every phase but the first and last
    assert set(v.LeaseEvent.__subclasses__()) == of_leases
    assert set(v.Event.__subclasses__()) - {v.LeaseEvent} == set(STEPS)


def test_every_action_is_performed_by_the_executor_but_for_those_that_are_about_no_lease() -> None:
    assert set(v.Action.__subclasses__()) == {*Executor.PERFORMS, v.Ask, v.Check}
