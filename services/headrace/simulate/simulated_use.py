"""How simulated jobs use their GPUs: as a scenario says; what it does not mention is not measured (R39). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.preemption.idle_leases import Idle, marked_from

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord, LeaseState
    from headrace.domain.state.state import State


class SimulatedUse:
    """What the nodes of one world measure. A new attempt of a job is not measured until the scenario says something of it."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._measured: dict[str, tuple[int, Idle]] = {}

    def measure(self, job: JobRecord, idle_since: int) -> None:
        """From now on the job does not use its GPUs, since this log time; 0: it does."""
        self._measured[job.key] = (job.attempt, Idle(idle_since))

    def of(self, lease: LeaseState) -> Idle | None:
        """Since when the lease is idle; 0: in use; None: unknown."""
        attempt, idle = self._measured.get(lease.job.key, (0, None))
        return idle if attempt == lease.attempt else None

    def knows(self) -> bool:
        """False: a mark that a ledger had before the simulation stays."""
        return False

    def next_change(self, now: int) -> int | None:
        """When the next lease is to be marked."""
        moments = []
        for key in self._measured:
            job = self._state.jobs.get(key)
            for lease in job.leases.values() if job is not None and job.preemptible else ():
                moment = None if lease.idle_at else marked_from(lease.job.policy, lease, self)
                if moment is not None and moment > now:
                    moments.append(moment)
        return min(moments, default=None)
