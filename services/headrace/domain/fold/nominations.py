"""The end of a nomination, and of the bar on those that made room for it (R27)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain.model.job_states import JobState
from headrace.domain.state import capacity

if TYPE_CHECKING:
    from collections.abc import Container

    from headrace.domain.model.jobs import JobRecord, Preemption
    from headrace.domain.state.state import State


def end_nomination(state: State, job: JobRecord) -> None:
    """Nothing is kept for the job any more; without a nomination nothing happens."""
    preemption = job.nomination
    if preemption is None:
        return
    for lease in job.leases.values():  # it moves, and has not left its former place: what it holds there counts again (R29)
        capacity.yield_use(state, job, state.pools[lease.pool], capacity.held_by(lease), -1)
    job.nomination, job.yields_to = None, ""
    if job.state is JobState.PENDING:
        job.request = job.request.first
    preemption.kept = False
    if preemption.settled:
        state.preemptions.pop(preemption.id, None)
    pool = state.pools.get(preemption.pool)
    if pool is not None:
        capacity.lift(state, preemption)
        state.stir()
        pool.openings += 1


def lift_bar(state: State, preemptor: str, but: Container[str] = ()) -> None:
    """Who yielded to `preemptor`, `but` for these, may enter its pool again: it has started, is out, or nothing is kept for it."""
    victims = state.barred.pop(preemptor, [])
    staying = [victim for victim in victims if victim.key in but]
    if staying:
        state.barred[preemptor] = staying
    for victim in victims:
        if victim.key not in but:
            _admit_again(state, victim)


def lift_late(state: State, preemption: Preemption) -> None:
    """Those who left only after its nomination had ended may enter again: the preemptor has had its time to go first."""
    preemptor, late = preemption.job.key, {victim.job for victim in preemption.victims}
    barred = state.barred.get(preemptor, [])
    gone = [victim for victim in barred if victim.key in late and victim.barred_from == preemption.pool]
    staying = [victim for victim in barred if victim not in gone]
    if staying:
        state.barred[preemptor] = staying
    else:
        state.barred.pop(preemptor, None)
    for victim in gone:
        _admit_again(state, victim)


def _admit_again(state: State, victim: JobRecord) -> None:
    state.pending.remove(victim)
    victim.barred_from = ""
    if victim.state == "pending":
        state.pending.add(victim, state.now)
