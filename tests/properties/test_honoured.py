"""A reservation is honoured whenever a legal sufficient victim set exists (R19, R26): at rest no job that may reclaim waits for one.

Over reservations policy-wide, per pool and of tenants, for preemptible jobs and others. What is kept for jobs of a better rank is not to be
had (R16, R18), unless they do not rank inside their reservation while it does (R15). The oracle writes out every set; the product may only
have missed what rests for a moment from searches without victims.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hypothesis import given

from headrace.contracts.facts.writers import ALLOCATOR
from headrace.contracts.values.durations import HOUR
from headrace.domain.backfill.holds import holds_before, rank_in_line, withhold
from headrace.domain.indexes.pending import group_key
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import JobRecord
from headrace.domain.queueing.admissible import open_pools
from headrace.domain.queueing.gates import may_start
from headrace.domain.queueing.ranking import is_inside
from headrace.domain.state.pools import PoolState
from headrace.domain.state.search_backoff import BACKOFF_MAX
from headrace.domain.state.trial import Trial
from headrace.simulate.world import World
from tests.properties.auditor import Auditor
from tests.properties.campaign import histories
from tests.properties.crowded import crowded
from tests.properties.histories import QUIET_AT, scenarios
from tests.properties.reclaim_oracle import Oracle
from tests.properties.rest import unrest

CANDIDATES_MAX = 7


class Watched(World):
    """A world that looks, whenever it has come to rest, for a policy whose reservation is not honoured."""

    looked_at = 0

    def run_until_stable(self) -> None:
        super().run_until_stable()
        wakeup = self.deciders[ALLOCATOR].next_wakeup()
        if self.looked_at != self.state.sequence and (wakeup is None or wakeup > self.now + BACKOFF_MAX):
            self.looked_at = self.state.sequence
            waiting = [job for job in self.state.jobs.values() if job.state is JobState.PENDING and self._is_ready(job)]
            assert [found for job in waiting if (found := self._what_was_missed(job))] == []

    def _is_ready(self, job: JobRecord) -> bool:
        """Whether it is its turn: of those who ask for the same in one queue the first is looked at, and the others after it (R16)."""
        if job.nomination is not None or job.waits_for or job.doomed_by or job.not_before > self.now:
            return False
        group = self.state.pending.group_of(job)
        return group is not None and group.head() is job

    def _what_was_missed(self, job: JobRecord) -> str:
        profile = self.state.profile(job.tenant, job.profile)
        for pool in open_pools(self.state, job.policy, profile) if profile is not None else ():
            if job.barred_from == pool.document.name or not may_start(self.state, job, pool.document.name):
                continue
            if any(self._starts_soon(other, pool) for other in self._before(job, pool)):
                continue  # it is looked at when that one has started, and the reservation is what is left of it then
            with self._kept(job, pool):
                oracle = Oracle(self.state, job, pool, self.now)
                assert is_inside(self.state, job, pool) is oracle.is_inside(), job.key
                if not oracle.may_begin() or oracle.is_at_own_limit():
                    continue
                if oracle.is_sufficient(()):
                    if oracle.is_inside() and not self.state.ladders.moments:
                        return f"{job.key} has room in {pool.document.name} at {self.now}"
                    if oracle.is_inside() and not pool.overdue:
                        return ""  # it waits until its tenant's limit has room for it, and takes nothing back in a later pool (R19)
                    continue
                if 0 < len(oracle.candidates("reclaim")) <= CANDIDATES_MAX and (sets := oracle.sets("reclaim")):
                    return f"{job.key} could take {[victim.key for victim in sets[0]]} in {pool.document.name} at {self.now}"
        return ""

    def _before(self, job: JobRecord, pool: PoolState) -> list[JobRecord]:
        """Whose turn it is before the job's in its queue, of those who ask for the same: a search is theirs and the job's (R19)."""
        mine = rank_in_line(self.state, job, pool)
        assert mine is not None
        same = [other for other in self.state.jobs.values() if other is not job and group_key(other) == group_key(job)]
        ready = [other for other in same if other.state is JobState.PENDING and self._is_ready(other)]
        ranks = [(rank_in_line(self.state, other, pool), other) for other in ready]
        return [other for rank, other in ranks if rank is not None and rank < mine]

    def _starts_soon(self, job: JobRecord, pool: PoolState) -> bool:
        """Whether what is leaving makes room for the job."""
        if not self.state.ladders.moments or not may_start(self.state, job, pool.document.name):
            return False
        with self._kept(job, pool):
            oracle = Oracle(self.state, job, pool, self.now)
            return oracle.may_begin() and not oracle.is_at_own_limit() and oracle.is_sufficient(())

    @contextmanager
    def _kept(self, job: JobRecord, pool: PoolState) -> Iterator[None]:
        """Meanwhile what is rightly kept from the job is not free."""
        mine = Oracle(self.state, job, pool, self.now).is_inside()
        kept = [
            hold
            for hold in holds_before(self.state, job, pool, self.now)
            if not mine or Oracle(self.state, hold.job, pool, self.now).is_inside()
        ]
        with Trial(self.state) as trial:
            for hold in kept:
                withhold(trial, pool, hold)
            yield


@histories()
@given(crowded())
def test_jobs_in_shared_small_pools_get_back_what_is_reserved_within_every_limit_and_come_to_rest(scenario) -> None:
    world = Watched(scenario, judged=False)
    for _ in world.run():
        pass

    assert Auditor().read_all(world.log.messages_after(0)) == []
    assert unrest(world.history, QUIET_AT - 6 * HOUR) == []


@histories()
@given(scenarios())
def test_at_rest_no_policy_inside_its_reservation_waits_for_what_could_be_taken(scenario) -> None:
    for _ in Watched(scenario, judged=False).run():
        pass
