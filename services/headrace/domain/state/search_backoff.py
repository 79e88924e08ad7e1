"""When a search for victims is worth opening again (R19): what is remembered of searches without victims.

A search costs two records, so a search without victims is not repeated until something in the pool has changed, and then not at once:
after each failed search the pool backs off a little longer, up to a second. What has not been searched for yet never waits.

The jobs of one group get the same answer, for they differ only in priority and age. Those of two groups may not, though they ask for the
same: one may have something kept for it (R16), or be barred from a pool (R27).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.durations import MILLISECOND, SECOND
from headrace.domain.indexes.pending import group_key
from headrace.domain.state.pools import FailedSearch

if TYPE_CHECKING:
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.pools import PoolState

BACKOFF_FIRST = 10 * MILLISECOND
BACKOFF_MAX = 1 * SECOND


def note_failed_search(pool: PoolState, job: JobRecord, now: int, protected: int = 0, retry_at: int | None = None) -> None:
    """Note that a search for the job found no victims."""
    pool.failed_searches[group_key(job)] = FailedSearch(pool.epoch, protected, retry_at)
    pool.backoff = min(max(2 * pool.backoff, BACKOFF_FIRST), BACKOFF_MAX)
    pool.backoff_until = now + pool.backoff
    if pool.next_retry or retry_at is not None:  # otherwise no retry was or is due
        later = [last.retry_at for last in pool.failed_searches.values() if last.retry_at is not None and last.retry_at > now]
        pool.next_retry = min(later, default=0)


def is_backing_off(pool: PoolState, now: int) -> bool:
    """Whether only requests that were never searched for are worth a search now. A cheap look at the pool alone."""
    return pool.backoff_until > now and not 0 < pool.next_retry <= now


def was_searched(pool: PoolState, job: JobRecord) -> bool:
    """Whether a search for a job of this kind has found no victims before."""
    return group_key(job) in pool.failed_searches


def note_found_victims(pool: PoolState) -> None:
    """A preemption was ordered."""
    pool.backoff = 0
    pool.backoff_until = 0


def is_worthwhile(pool: PoolState, job: JobRecord, now: int) -> bool:
    """Whether a search for the job might find victims that the last one did not."""
    last = pool.failed_searches.get(group_key(job))
    if last is None:
        return True
    if last.retry_at is not None and last.retry_at <= now:
        return True
    return last.epoch != pool.epoch and pool.backoff_until <= now


def next_worthwhile(pool: PoolState, now: int) -> int | None:
    """The next moment at which a search may become worthwhile in the pool without any new record: a protection or the back-off ends.

    A protection may have ended while another request was searched for; the back-off of the pool alone would hide that.
    """
    moments = []
    for last in pool.failed_searches.values():
        if last.retry_at is not None and last.retry_at > now:
            moments.append(last.retry_at)
        if last.epoch != pool.epoch or (last.retry_at is not None and last.retry_at <= now):
            moments.append(pool.backoff_until)
    return min((moment for moment in moments if moment > now), default=None)
