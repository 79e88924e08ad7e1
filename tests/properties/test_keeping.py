"""Units are kept no longer than R16 allows, lent to no job that would be in the way, and a large job starts when it was to be expected.

Worked out from leases and documents anew, one turn after the other and lease by lease. It shares no code with the product but the order of
rank (R15) and what may be taken by whom, which `reclaim_oracle` writes out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.fact import Place
from headrace.contracts.facts.writers import ALLOCATOR
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS, MEMORY
from headrace.contracts.values.durations import DAY, HOUR, MINUTE, SECOND
from headrace.contracts.values.mig import FAMILIES
from headrace.domain.backfill.holds import rank_in_line
from headrace.domain.model.job_states import JobState
from headrace.domain.model.jobs import JobRecord, LeaseState
from headrace.domain.model.nodes import NodeState
from headrace.domain.model.preemption_state import Hold
from headrace.simulate.scenario import Expect, Moment, Nodes, Scenario, Submit
from headrace.simulate.world import World
from tests.properties.campaign import histories
from tests.properties.crowded import crowded
from tests.properties.histories import scenarios
from tests.properties.reclaim_oracle import Oracle

NEVER = 2**62


def turn(pool: d.Pool, since: int, now: int) -> int | None:
    """When the keep ends in which a moment lies, one after the other; None: it lies in a rest, or before the first."""
    begin, rest = since + pool.backfill_for, min(pool.keep_for, DAY)
    while pool.keep_for and begin <= now:
        if now < begin + pool.keep_for:
            return begin + pool.keep_for
        begin += pool.keep_for + rest
        rest = min(2 * rest, DAY)
    return None


def grace(job: JobRecord) -> int:
    terms = job.policy.document.preemption
    return terms.callback_grace + terms.term_grace


def cells(node: NodeState, device: str, start: int, name: str) -> set[int]:
    """The memory slices in which a slice lies."""
    family = next(one.family for one in node.devices if one.name == device)
    return set(range(start, start + FAMILIES[family].slices[name].memory))


class Watched(World):
    """A world in which every hold is judged whenever it has come to rest, and every loan when it is given."""

    judged_holds = loans = 0

    def run_until_stable(self) -> None:
        super().run_until_stable()
        for hold in self.state.holds.values():
            self.judged_holds += 1
            until = turn(self.state.pools[hold.pool].document, hold.job.pending_since, self.now)
            assert until is not None or self._surely(hold), f"{hold.job.key} keeps {hold.places} at {self.now}"

    def append(self, by: str, facts: Iterable[AnyFact]) -> bool:
        stated = tuple(facts)
        if by == ALLOCATOR:
            self._judge_loan(stated)
        return super().append(by, stated)

    def _judge_loan(self, facts: tuple[AnyFact, ...]) -> None:
        """The first job that is granted something: of those after it the ranks are others than in the state."""
        key = next((fact.job for fact in facts if isinstance(fact, f.LeaseGrantedV1)), None)
        job = self.state.jobs[key] if key is not None else None
        if job is None or job.nomination is not None or any(isinstance(fact, f.ResumeOrderedV1) for fact in facts):
            return
        leases = [fact for fact in facts if isinstance(fact, f.LeaseGrantedV1) and fact.job == key]
        lifted = {fact.job for fact in facts if isinstance(fact, f.HoldLiftedV1)}
        holds = [hold for hold in self.state.holds.values() if hold.job.key not in lifted]
        holds += [Hold(self.state.jobs[one.job], one.pool, one.places, 0) for one in facts if isinstance(one, f.HoldPlacedV1)]
        pool = self.state.pools[leases[0].pool]
        mine = rank_in_line(self.state, job, pool)
        for hold in holds:
            if hold.pool != leases[0].pool or hold.job is job or not self._uses(leases, hold.places):
                continue
            theirs = rank_in_line(self.state, hold.job, pool)
            if mine is None or theirs is None or mine < theirs:
                continue
            self.loans += 1
            assert job.time_limit is not None, f"{key} has no time limit and uses what {hold.job.key} keeps at {self.now}"
            end, needed = self.now + job.time_limit + grace(job), self._needed(hold)
            assert end <= needed, f"{key} ends at {end}, {hold.job.key} needs its units at {needed}"

    def _uses(self, leases: list[f.LeaseGrantedV1], places: tuple[Place, ...]) -> bool:
        """Whether a grant takes whole units of devices that are free and kept; of cpu and memory more may be there than is kept."""
        for lease in leases:
            node = self.state.nodes[lease.node]
            for device in node.devices:
                kept = sum(
                    one.units
                    for place in places
                    if place.node == lease.node
                    for one in place.devices
                    if one.device == device.name
                )
                taken = sum(share.units for share in lease.devices if share.device == device.name)
                if not device.mig and kept and taken and device.free - taken < min(kept, device.free):
                    return True
        return False

    def _needed(self, hold: Hold) -> int:
        """When the job could start by time limits and graces; where nothing says so, when the keep ends; 0: nothing is lent."""
        moments = {0, *(end for lease in self._near(hold) if (end := self._end(lease)) < NEVER)}
        for moment in sorted(moments):
            if self._free(hold, lambda lease, moment=moment: self._end(lease) > moment) and self._sums(hold, by_limits=True):
                return moment
        if self._surely(hold):
            return 0
        return turn(self.state.pools[hold.pool].document, hold.job.pending_since, self.now) or 0

    def _near(self, hold: Hold) -> Iterator[LeaseState]:
        for name in {place.node for place in hold.places}:
            yield from self.state.nodes[name].leases.values()

    def _end(self, lease: LeaseState) -> int:
        job = lease.job
        if lease.overdue or job.state is JobState.SUSPENDED:
            return NEVER
        if job.state is JobState.STOPPING:
            suspended = lease.suspended_at and job.stop.then == "suspend"
            return NEVER if suspended else job.stop_at + job.stop.callback_grace + job.stop.term_grace
        return NEVER if job.time_limit is None else lease.granted_at + job.paused + job.time_limit + grace(job)

    def _surely(self, hold: Hold) -> bool:
        """Whether the job could start if all had ended that ends by a known time, or that it may take."""
        stays = self._stays(hold, by_limits=False)
        return self._free(hold, stays) and self._sums(hold, by_limits=False)

    def _stays(self, hold: Hold, *, by_limits: bool):
        oracle = Oracle(self.state, hold.job, self.state.pools[hold.pool], self.now)

        def stays(lease: LeaseState) -> bool:
            job = lease.job
            if lease.overdue or job.state is JobState.STOPPING or job.time_limit is not None:
                return lease.overdue
            may_be_taken = job.preemptible and job.policy is not hold.job.policy and job.state is not JobState.SUSPENDED
            if by_limits or not may_be_taken:
                return True
            if not (oracle.may_reclaim_from(job.policy) or oracle.may_take_by_priority_from(job.policy)):
                return True
            above = (
                key
                for key in oracle.asked
                if lease.amounts.get(key)
                and all(use.get(key, 0) > kept.get(key, 0) for use, kept in oracle.lends_as(job.policy))
            )
            return not any(above)

        return stays

    def _free(self, hold: Hold, stays) -> bool:
        """Whether the kept places are free of all but those that stay."""
        for name in {place.node for place in hold.places}:
            node, places = self.state.nodes[name], [place for place in hold.places if place.node == name]
            left = [lease for lease in node.leases.values() if stays(lease)]
            for key, there in ((CPU, node.cpu), (MEMORY, node.memory)):
                if sum(place.amounts.get(key, 0) for place in places) + sum(one.amounts.get(key, 0) for one in left) > there:
                    return False
            lying = [share for lease in left if not lease.suspended_at for share in lease.devices]
            for share in (share for place in places for share in place.devices):
                beside = [one for one in lying if one.device == share.device]
                if share.mig:
                    mine = cells(node, share.device, share.start, share.mig)
                    if any(not one.mig or mine & cells(node, one.device, one.start, one.mig) for one in beside):
                        return False
                    continue
                wanted = sum(one.units for place in places for one in place.devices if one.device == share.device)
                if wanted + sum(one.units for one in beside) > GPU_UNITS:
                    return False
        return True

    def _sums(self, hold: Hold, *, by_limits: bool) -> bool:
        """Whether the pool's ceilings leave room beside all that stays; how slices count there is not judged here (R4)."""
        pool, stays = self.state.pools[hold.pool], self._stays(hold, by_limits=by_limits)
        if hold.job.request.shape.mig or pool.families:
            return True
        left = [lease for node in pool.nodes.values() for lease in node.leases.values() if stays(lease)]
        for key, asked in hold.job.request.total.items():
            held = sum(one.amounts.get(key, 0) for one in left if key != GPU or not one.suspended_at)
            if key in pool.governed and asked and held + asked + pool.nominated.get(key, 0) > pool.usable.get(key, 0):
                return False
        return True


@histories()
@given(scenarios())
def test_nothing_is_kept_or_lent_for_longer_than_it_may_be(scenario) -> None:
    for _ in Watched(scenario, judged=False).run():
        pass


@histories()
@given(crowded())
def test_nor_in_small_pools_that_are_shared_out(scenario) -> None:
    for _ in Watched(scenario, judged=False).run():
        pass


@st.composite
def lending(draw) -> Scenario:
    """Small jobs, mostly with a time limit, and one that needs all of a hall and ranks before them."""
    links = (d.PolicyProfile(name="one"), d.PolicyProfile(name="two"), d.PolicyProfile(name="all"))
    gpus = draw(st.integers(2, 4))
    profiles = tuple(
        d.Profile(name=name, request={GPU: count * GPU_UNITS}, pools=("a",))
        for name, count in (("one", 1), ("two", 2), ("all", gpus))
    )
    limited = draw(st.booleans())
    limits = st.integers(1, 90).map(lambda number: number * MINUTE)
    jobs = [
        Submit(
            name=f"j{number}",
            queue=f"low-{draw(st.integers(0, 2))}/{draw(st.sampled_from(['one', 'one', 'two']))}",
            time_limit=(limit := draw(limits if limited else limits | st.none())),
            duration=limit or draw(limits),
        )
        for number in range(draw(st.integers(4, 14)))
    ]
    moments = [Moment(at=draw(st.integers(0, 150)) * MINUTE, submit=job) for job in jobs]
    large = Submit(name="large", queue="first/all", duration=MINUTE, time_limit=HOUR)
    moments.append(Moment(at=draw(st.integers(1, 60)) * MINUTE, submit=large))
    pool = d.Pool(
        name="a",
        selector={"site": "a"},
        backfill_for=draw(st.sampled_from([0, 10 * MINUTE])),
        keep_for=draw(st.sampled_from([0, 20 * MINUTE, HOUR])),
    )
    policies = (
        d.Policy(name="first", profiles=links, priority=1),
        *(d.Policy(name=f"low-{n}", profiles=links) for n in range(3)),
    )
    return Scenario(
        documents=d.Documents(pools=(pool,), profiles=profiles, policies=policies),
        nodes=(Nodes(name="n", labels={"site": "a"}, gpus=gpus),),
        timeline=(*moments, Moment(at=10 * DAY, expect=Expect())),
    )


@histories(times=2)
@given(lending())
def test_a_large_job_starts_by_the_moment_up_to_which_its_units_are_lent(scenario) -> None:
    world = Watched(scenario)
    for _ in world.run():
        pass

    large, limits = world.names["large"], [moment.submit.time_limit for moment in scenario.timeline if moment.submit]
    granted = next(stated.at for stated in world.history for fact in stated.facts if _is_granted(fact, large))
    due = next(moment.at for moment in scenario.timeline if moment.submit and moment.submit.name == "large")
    due += scenario.documents.pools[0].backfill_for
    if None not in limits:  # who is there when it is due has started by then, and no job that is lent something ends later
        assert granted <= due + max(limits) + 90 * SECOND
    assert world.state.jobs[large].state is JobState.SUCCEEDED if large in world.state.jobs else True


def _is_granted(fact: AnyFact, key: str) -> bool:
    return isinstance(fact, f.LeaseGrantedV1) and fact.job == key
