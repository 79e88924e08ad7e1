"""How a nomination ends, and with it the bar on those that made room (R27)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.contracts import facts as f
from headrace.contracts.values.amounts import GPU, GPU_UNITS, JOB
from headrace.domain.fold.nominations import end_nomination, lift_bar
from headrace.domain.model.jobs import JobRecord
from tests.unit.domain.site import Site, gpus, place, policy
from tests.unit.domain.snapshot import differences, kept, naive, snapshot


class Taking:
    """One node of two GPUs, both held by `dev`; `ops` takes the first one back."""

    def __init__(self, *, gone: bool = False) -> None:
        self.site = Site(policy("dev"), policy("ops", reservation=gpus(1)))
        self.site.node(count=2)
        self.state = self.site.state
        self.victim = self.site.run("victim", place("n1", 0))
        self.other = self.site.run("other", place("n1", 1))
        self.preemptor = self.site.admit("preemptor", "ops/one")
        self.id = self.site.order(self.preemptor, (self.victim,), place("n1", 0))
        if gone:
            self.site.stop(self.victim)
            self.site.leave(self.victim, requeue="preempted")

    @property
    def hall(self):
        return self.state.pools["hall"]


def test_without_a_nomination_nothing_happens():
    taking = Taking()
    before, epoch = snapshot(taking.state), taking.hall.epoch
    end_nomination(taking.state, taking.other)
    lift_bar(taking.state, taking.other.key)
    assert (differences(before, snapshot(taking.state)), taking.hall.epoch) == ([], epoch)


def test_what_was_kept_may_be_granted_to_any_job_again():
    taking = Taking(gone=True)
    hall, epoch, shape = taking.hall, taking.hall.epoch, taking.preemptor.request.shape
    assert (hall.index.find(shape), hall.nominated, taking.state.nodes["n1"].devices[0].open) == (
        None,
        {GPU: GPU_UNITS, JOB: 1},
        0,
    )
    end_nomination(taking.state, taking.preemptor)
    assert (hall.index.find(shape), hall.nominated, taking.state.nodes["n1"].devices[0].open) == ("n1", {}, GPU_UNITS)
    assert (taking.preemptor.nomination, hall.epoch, taking.preemptor.policy.wide.use) == (None, epoch + 1, {})
    assert kept(taking.state) == naive(taking.state)


def test_a_preemption_is_remembered_until_it_is_settled_and_kept_for_no_job_whichever_comes_first():
    seen = []
    for order in ("ended", "settled"), ("settled", "ended"):
        taking = Taking(gone=True)
        for what in order:
            if what == "ended":
                end_nomination(taking.state, taking.preemptor)
            else:
                counts = {"victims": 1, "lost": 0, "to_signal": 0, "grace": 0, "to_release": 0}
                taking.site.append_facts(
                    f.PreemptionSettledV1(preemption=taking.id, job=taking.preemptor.key, **counts), by="preemption"
                )
            seen.append(list(taking.state.preemptions) == [taking.id])
    assert seen == [True, False, True, False]


def test_of_a_pool_that_is_gone_nothing_is_kept():
    taking = Taking(gone=True)
    taking.state.pools.pop("hall")
    end_nomination(taking.state, taking.preemptor)
    assert taking.preemptor.nomination is None


def ended(taking: Taking) -> None:
    fields = {"preemption": taking.id, "job": taking.preemptor.key, "why": "timeout"}
    taking.site.append_facts(f.NominationEndedV1(**fields), by="allocator")


def started(taking: Taking) -> None:
    taking.site.grant(taking.preemptor, place("n1", 0))
    assert taking.victim.barred_from == "hall", "a grant is no start"
    taking.site.start(taking.preemptor)


def dismissed(taking: Taking) -> None:
    fields = {"job": taking.preemptor.key, "reason": "QUEUE_DELETED", "message": ""}
    taking.site.append_facts(f.JobDismissedV1(**fields), by="allocator")


@pytest.mark.parametrize("over", [started, ended, dismissed])
def test_a_victim_may_enter_again_when_the_preemptor_has_started_or_is_out_or_nothing_is_kept(over: Callable[[Taking], None]):
    taking = Taking(gone=True)
    pending, barred = taking.state.pending, taking.victim
    assert (barred.barred_from, pending.group_of(barred).barred_from) == ("hall", "hall")
    over(taking)
    assert (barred.barred_from, pending.group_of(barred).barred_from, taking.state.barred) == ("", "", {})
    assert [list(group.members) for group in pending.groups.values() if barred.key in group.members] == [[barred.key]]
    assert kept(taking.state) == naive(taking.state)


def test_a_victim_that_has_not_left_yet_is_not_put_in_line():
    taking = Taking()
    lift_bar(taking.state, taking.preemptor.key)
    assert (taking.victim.barred_from, taking.state.pending.group_of(taking.victim), taking.state.barred) == ("", None, {})


def settle_preemption(taking: Taking) -> None:
    counts = {"victims": 1, "lost": 0, "to_signal": 0, "grace": 0, "to_release": 0}
    taking.site.append_facts(f.PreemptionSettledV1(preemption=taking.id, job=taking.preemptor.key, **counts), by="preemption")


@pytest.mark.parametrize("over", [started, settle_preemption, dismissed])
def test_one_that_leaves_after_the_nomination_has_ended_lets_the_preemptor_go_first(over: Callable[[Taking], None]):  # R27, R31
    taking = Taking()
    ended(taking)
    taking.site.stop(taking.victim)
    taking.site.leave(taking.victim, requeue="preempted")
    assert (taking.victim.barred_from, taking.state.barred) == ("hall", {taking.preemptor.key: [taking.victim]})
    over(taking)
    assert (taking.victim.barred_from, taking.state.barred) == ("", {})
    assert taking.state.pending.group_of(taking.victim) is not None


def test_those_who_left_late_come_back_and_those_who_made_room_for_a_later_try_do_not():
    taking = Taking()
    ended(taking)
    taking.site.stop(taking.victim)
    taking.site.leave(taking.victim, requeue="preempted")
    taking.site.order(taking.preemptor, (taking.other,), place("n1", 1))
    settle_preemption(taking)
    assert (taking.victim.barred_from, taking.other.barred_from) == ("", "hall")
    assert taking.state.barred == {taking.preemptor.key: [taking.other]}


def test_a_victim_in_its_back_off_stands_aside_still():
    taking = Taking()
    taking.site.leave(taking.victim)
    later = taking.site.now + 1
    requeued = f.JobRequeuedV1(job=taking.victim.key, attempt=1, cause="node_lost", not_before=later)
    taking.site.append_facts(requeued, by="allocator")
    lift_bar(taking.state, taking.preemptor.key)
    pending = taking.state.pending
    assert (pending.group_of(taking.victim), taking.victim.key in pending.ineligible) == (None, True)
    pending.follow_time(later)
    assert pending.group_of(taking.victim).barred_from == ""


def test_only_those_that_yielded_to_this_preemptor_may_enter():
    taking = Taking(gone=True)
    second: JobRecord = taking.site.admit("second", "ops/one")
    taking.site.order(second, (taking.other,), place("n1", 1))
    lift_bar(taking.state, second.key)
    assert (taking.victim.barred_from, taking.other.barred_from) == ("hall", "")
    assert list(taking.state.barred) == [taking.preemptor.key]
