"""Forced preemption by an operator: of use inside a reservation, or of a job that is not preemptible (R24). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts import facts as f
from headrace.contracts.messages.queries import ApplyAnswer, Change, ForceRequest
from headrace.contracts.values.ids import element_name
from headrace.domain.model.job_states import JobState
from headrace.governance.decide import Decision
from headrace.governance.objects import REASON_MAX

if TYPE_CHECKING:
    from headrace.domain.model.jobs import ArrayState, JobRecord
    from headrace.domain.state.state import State
    from headrace.governance.decide import Operation

HOLDS = frozenset({JobState.STARTING, JobState.RUNNING})


def forcing(request: ForceRequest, author: str) -> Operation:
    """Operation that preempts a job regardless of its protection; the reason is stored with it."""

    def operation(state: State, _now: int) -> Decision:
        job = _find(state, request.job)
        array = None if job is not None else _find_array(state, request.job)
        if array is not None:
            one = f"name an element, such as {element_name(array.job.key, array.range.first)}"
            return _refused("INVALID", f"job: {array.job.key} is an array, and elements are taken one by one: {one}")
        if job is None:
            return _refused("NOT_FOUND", f"no job {request.job} runs here; `headrace jobs --state running` lists them")
        if not request.force:
            why = "its units may be inside a reservation, which only an explicit order takes; say --force"
            return _refused("REFUSED", f"force: {job.key} is not stopped: {why}")
        if not request.reason.strip():
            return _refused("INVALID", "reason: forced preemption needs one; say --reason TEXT")
        if job.state not in HOLDS:
            return _refused("REFUSED", f"{job.key} is {job.state}; only what runs can be taken from")
        change = Change(kind="job", name=job.key, action="update", fields=(f"{job.state} -> preempting, by force",))
        fact = f.PreemptionForcedV1(author=author, reason=request.reason[:REASON_MAX], job=job.key, attempt=job.attempt)
        return Decision(ApplyAnswer(changes=(change,), applied=True, running=1), (fact,))

    return operation


def _find(state: State, name: str) -> JobRecord | None:
    """The job of a key, or of an id."""
    return state.jobs.get(name) or next((job for key, job in state.jobs.items() if key.endswith(f".{name}")), None)


def _find_array(state: State, name: str) -> ArrayState | None:
    """The array of a key, or of an id."""
    return state.arrays.get(name) or next((array for key, array in state.arrays.items() if key.endswith(f".{name}")), None)


def _refused(code: str, error: str) -> Decision:
    return Decision(ApplyAnswer(changes=()), code=code, error=error)
