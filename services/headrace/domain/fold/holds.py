"""The fold of what is kept for jobs that have waited too long (R16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.domain.model.job_states import JobState
from headrace.domain.model.preemption_state import Hold

if TYPE_CHECKING:
    from headrace.domain.state.state import State


def end_hold(state: State, job: str) -> None:
    """Nothing is kept for the job any more, so what was may be room enough for others, with some of what is held."""
    if state.holds.pop(job, None) is not None:
        state.stir()


def _placed(state: State, fact: f.HoldPlacedV1, _sequence: int, _place: int) -> None:
    job = state.jobs.get(fact.job)
    if job is None or fact.pool not in state.pools or job.state is not JobState.PENDING or job.nomination is not None:
        return
    state.holds[job.key] = Hold(job, fact.pool, fact.places, state.now)
    state.stir()  # who counted on what comes free there may have to take it from others now


def _lifted(state: State, fact: f.HoldLiftedV1, _sequence: int, _place: int) -> None:
    hold = state.holds.get(fact.job)
    if hold is not None and hold.pool == fact.pool:
        end_hold(state, fact.job)


HANDLERS: dict[type, Any] = {f.HoldPlacedV1: _placed, f.HoldLiftedV1: _lifted}
