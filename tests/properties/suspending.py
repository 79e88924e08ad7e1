"""Random histories in which every victim that can be suspended is, with a checkpoint of its work, and places come free elsewhere (R29)."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from headrace.contracts.documents import model as d
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.simulate.scenario import Moment, Scenario
from tests.properties.histories import scenarios


def suspending() -> st.SearchStrategy[Scenario]:
    """The histories of `scenarios`, with other terms."""
    return scenarios().map(_with_suspensions)


def _with_suspensions(scenario: Scenario) -> Scenario:
    return replace(
        scenario,
        documents=_documents(scenario.documents),
        nodes=tuple(replace(row, suspends=True, cpus=max(row.cpus, 8)) for row in scenario.nodes),
        timeline=tuple(map(_moment, scenario.timeline)),
    )


def _documents(documents: d.Documents) -> d.Documents:
    return replace(documents, policies=tuple(map(_policy, documents.policies)))


def _policy(policy: d.Policy) -> d.Policy:
    terms = replace(policy.preemption, on_preempt="suspend", suspend_max=4 * HOUR, callback_grace=60 * SECOND, min_runtime=0)
    return replace(policy, preemption=replace(terms, max_preemptions=None))


def _moment(moment: Moment) -> Moment:
    changed: dict[str, Any] = {}
    if moment.submit is not None:
        changed["submit"] = replace(moment.submit, saves_on_abort=True, abort_takes=min(moment.submit.abort_takes, 20 * SECOND))
    if moment.node_joins is not None:
        changed["node_joins"] = replace(moment.node_joins, suspends=True)
    if moment.apply is not None:
        changed["apply"] = _documents(moment.apply)
    return replace(moment, **changed)
