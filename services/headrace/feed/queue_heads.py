"""Reason of the first job in each queue, published when it changes (R22). Pure.

Strategy: reasons are computed, never recorded, and any record may change any of them. So queues are checked in turn, a few at a time:
first those whose own jobs have changed, then the others, until all have been checked since the last record. A change is published a moment
late, and costs the same for any number of queues and jobs: only groups of the policies in turn are checked, and of each its first job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.contracts.values.durations import SECOND
from headrace.domain.explain.wait_reasons import wait_of
from headrace.domain.indexes.pending import place_in_line
from headrace.domain.model.job_states import JobState
from headrace.views.visibility import hide_others

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State
    from headrace.views.job_index import JobIndex, Queue

    First = dict[Queue, tuple[tuple[object, ...], JobRecord]]

HEADS_AT_ONCE = 8
LOOK_EVERY, LOOK_SHARE, PAUSE_MAX = SECOND // 4, 4, 10 * SECOND
"""Microseconds between two looks at heads: at least the first, `LOOK_SHARE` times as long as the last look took, at most the last.

Why a head waits is told from all nodes of its pool: with ten thousand nodes, looks at intervals would take all the time of a process.
"""


class Looks:
    """When the heads are looked at next. Moments in microseconds; a clock that was set back delays nothing."""

    def __init__(self) -> None:
        self.pause = LOOK_EVERY
        self._ended = 0

    def is_due(self, now: int) -> bool:
        """Whether the pause after the last look is over."""
        return not 0 <= now - self._ended < self.pause

    def note(self, began: int, ended: int) -> None:
        """Compute the pause after a look from the time that it took."""
        self._ended = ended
        self.pause = min(max(LOOK_EVERY, LOOK_SHARE * (ended - began)), PAUSE_MAX)


class QueueHead(NamedTuple):
    """First job of a queue and the reason why it waits; empty if the queue is empty."""

    job: str = ""
    reason: str = ""
    message: str = ""


class Heads:
    """Published heads of the queues, and the queues to be checked."""

    def __init__(self, state: State, job_index: JobIndex) -> None:
        self._state = state
        self._job_index = job_index
        self._published: dict[Queue, QueueHead] = {}
        self._moved: dict[Queue, None] = {}
        self._others: dict[Queue, None] = {}
        self._looked_at = -1

    def reason(self, queue: Queue) -> str:
        """Published reason of the queue's first job; "" if it has not been published."""
        return self._published.get(queue, QueueHead()).reason

    def touch(self, queues: Iterable[Queue]) -> None:
        """Note that jobs of these queues have changed."""
        self._moved |= dict.fromkeys(queues)

    @property
    def is_behind(self) -> bool:
        """True if queues have not been checked since the last record."""
        return self._state.sequence != self._looked_at or bool(self._moved or self._others)

    def changes(self, now: int, at_once: int = HEADS_AT_ONCE) -> Iterator[tuple[Queue, QueueHead]]:
        """Heads that have changed, of the next queues in turn, `at_once` of them at most."""
        if self._state.sequence != self._looked_at:
            self._looked_at = self._state.sequence
            self._others = self._others | {queue: None for queue, line in self._job_index.lines.items() if line.pending}
        turn = [queue for queue, _ in zip((*self._moved, *self._others), range(2 * at_once), strict=False)]
        turn = list(dict.fromkeys(turn))[:at_once]
        first = _first_in_line(self._state, frozenset(turn))
        for queue in turn:
            self._moved.pop(queue, None)
            self._others.pop(queue, None)
            head = self._head(first.get(queue), now)
            if head[:2] != self._published.get(queue, QueueHead())[:2]:
                self._published[queue] = head
                yield queue, head

    def _head(self, job: JobRecord | None, now: int) -> QueueHead:
        if job is None:
            return QueueHead()
        wait = wait_of(self._state, job, now)
        return QueueHead(job.key, wait.reason.value, hide_others(wait.message, job.tenant))


def _first_in_line(state: State, queues: frozenset[Queue]) -> dict[Queue, JobRecord]:
    """First job of each queue: one that units are kept for, else the best-ranked in line (R15 (6)-(8))."""
    first: First = {}
    for policy in {queue[:2]: None for queue in queues}:
        for group in state.pending.by_policy.get(policy, ()):
            queue = (*policy, group.profile)
            job = group.head() if queue in queues else None
            if job is not None:
                _put(first, queue, job)
    for preemption in state.preemptions.values():
        job = preemption.job
        queue = (*job.policy.key, job.profile)
        if preemption.kept and queue in queues and job.state is JobState.PENDING:  # one that moves may not wait yet
            _put(first, queue, job, kept=True)
    return {queue: job for queue, (_, job) in first.items()}


def _put(first: First, queue: Queue, job: JobRecord, *, kept: bool = False) -> None:
    standing = (not kept, *place_in_line(job))
    if queue not in first or standing < first[queue][0]:
        first[queue] = (standing, job)
