"""Which GPU models a job may be given, and which was chosen for it (R42, R43)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.domain.fold.holds import end_hold
from headrace.domain.model.job_states import JobState
from headrace.domain.model.requests import choice_at, intern_matched

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.domain.model.devices import HeldDevices
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State


def choose(state: State, job: JobRecord, places: Iterable[HeldDevices]) -> None:
    """From now on a job with a request for each GPU model is one for the model of its places; all of them have one model."""
    for place in places if job.request.choices is not None else ():
        node = state.nodes.get(place.node)
        if node is not None and place.devices:
            share = place.devices[0]
            job.request = choice_at(job.request, node.model, sum(one.units for one in place.devices), share.mig)
        return


def _job_matched(state: State, fact: f.JobMatchedV1, _sequence: int, _place: int) -> None:
    job, array = state.jobs.get(fact.job), state.arrays.get(fact.job)
    if job is not None:
        _match(state, job, fact)
    elif array is not None:
        for one in (array.job, *array.elements.values()):
            if one is array.job or one.is_new_element:
                _match(state, one, fact)


def _match(state: State, job: JobRecord, fact: f.JobMatchedV1) -> None:
    """From now on a pending job may be given these GPU models. One for which places are nominated keeps the model of those."""
    if job.state is not JobState.PENDING or job.nomination is not None or not fact.shares:
        return
    in_line = state.pending.remove(job)
    end_hold(state, job.key)
    job.request = intern_matched(state.requests, job.request.first, fact.shares, by_model=fact.by_model)
    if in_line:
        state.pending.add(job, state.now)


HANDLERS: dict[type, Any] = {f.JobMatchedV1: _job_matched}
