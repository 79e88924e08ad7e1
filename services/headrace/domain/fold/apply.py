"""`apply`: the only place where the state changes. It holds no judgement: a fact is made true, whatever one may think of it.

`apply` is total: an entitled fact that no longer applies (a started lease of a job that was dismissed in between) changes nothing and
raises nothing. One function for each type of fact, in the modules by noun; the table below is checked against the union.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts.facts import JobAdmittedV1
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.domain.fold import (
    audit,
    governance,
    gpu_models,
    holds,
    installation,
    instances,
    jobs,
    missing_keys,
    node_orders,
    nodes,
    preemption,
    suspension,
    tokens,
)
from headrace.domain.model.attempts import PastJob
from headrace.domain.state import used_ids
from headrace.domain.state.meters import turn
from headrace.domain.state.state import ENDED_KEPT, IDS_REMEMBERED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.records import Record
    from headrace.domain.state.state import State

    Handler = Callable[[State, Any, int, int], None]

HANDLERS: dict[type, Handler] = {
    **audit.HANDLERS,
    **governance.HANDLERS,
    **gpu_models.HANDLERS,
    **holds.HANDLERS,
    **installation.HANDLERS,
    **instances.HANDLERS,
    **jobs.HANDLERS,
    **node_orders.HANDLERS,
    **nodes.HANDLERS,
    **preemption.HANDLERS,
    **suspension.HANDLERS,
    **missing_keys.HANDLERS,
    **tokens.HANDLERS,
}
"""Type of fact to `handler(state, fact, sequence, place in the record)`; the time is `state.now`."""


def apply(state: State, record: Record, sequence: int) -> None:
    """Make every fact of a record true. The record has been found well-formed, entitled and chained (`ledger`)."""
    make_true(state, with_implied_facts(record.facts), record.now, sequence)
    if record.as_of < state.documents_sequence and any(isinstance(fact, JobAdmittedV1) for fact in record.facts):
        state.documents_sequence = sequence  # judged by what was there before: the allocator has to look at those jobs again


def make_true(state: State, facts: Iterable[tuple[int, AnyFact]], now: int, sequence: int) -> None:
    """The same of facts that are spelled out, each with its place, as stated at log time `now` in the record of that sequence."""
    state.sequence = sequence
    state.now = max(state.now, now)
    state.pending.follow_time(state.now)
    if 0 < state.terms.period_ends <= state.now:
        turn(state)
    for place, fact in facts:
        HANDLERS[type(fact)](state, fact, sequence, place)
    if state.leaving:
        instances.forget_nodes(state)
    _forget(state)


def _forget(state: State) -> None:
    """Ended jobs leave after an hour, their ids after 25 (R14)."""
    while state.ended and state.ended[0].ended_at <= state.now - ENDED_KEPT:
        job = state.ended.popleft()
        array = state.arrays.get(job.key)
        is_array = array is not None and array.job is job
        if is_array or state.jobs.get(job.key) is job:
            del (state.arrays if is_array else state.jobs)[job.key]
            state.answered[job.key] = PastJob(job.digest, job.state, job.ended_at)
            state.forgetting.append((state.now + IDS_REMEMBERED, job.key))
    while state.forgetting and state.forgetting[0][0] <= state.now:
        key = state.forgetting.popleft()[1]
        state.answered.pop(key, None)
        used_ids.forget(state, key)
