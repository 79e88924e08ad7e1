"""Which GPU model was chosen for a job that asks for GPU memory (R42)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain.model.requests import choice_at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.domain.model.devices import HeldDevices
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State


def choose(state: State, job: JobRecord, places: Iterable[HeldDevices]) -> None:
    """From now on a job that asks for GPU memory is one for the model of its places; all of them have one model."""
    for place in places if job.request.choices is not None else ():
        node = state.nodes.get(place.node)
        if node is not None and place.devices:
            share = place.devices[0]
            job.request = choice_at(job.request, node.model, sum(one.units for one in place.devices), share.mig)
        return
