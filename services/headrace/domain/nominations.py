"""The end of a nomination, and of the bar on those that made room for it (R27)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.domain import capacity

if TYPE_CHECKING:
    from headrace.domain.state import JobRecord, State


def end_nomination(state: State, job: JobRecord) -> None:
    """Nothing is kept for the job any more; without a nomination nothing happens."""
    preemption = job.nomination
    if preemption is None:
        return
    job.nomination = None
    preemption.kept = False
    if preemption.settled:
        state.preemptions.pop(preemption.id, None)
    pool = state.pools.get(preemption.pool)
    if pool is not None:
        capacity.lift(state, preemption)
        state.stir()
        pool.openings += 1


def lift_bar(state: State, preemptor: str) -> None:
    """The jobs that yielded to `preemptor` may enter its pool again: it has started, is out, or nothing is kept for it."""
    for victim in state.barred.pop(preemptor, ()):
        state.pending.remove(victim)
        victim.barred_from = ""
        if victim.state == "pending":
            state.pending.add(victim, state.now)
