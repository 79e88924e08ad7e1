"""R24, R25: all jobs that may be taken, in order, drawn as far as they are read."""

from headrace.contracts import facts as f
from headrace.contracts.documents.model import PreemptionTerms, Share, Tenant
from headrace.contracts.values.durations import SECOND
from headrace.domain.indexes.running_index import last_lease
from headrace.domain.preemption import eligibility as e
from headrace.domain.preemption import victim_candidates as found_in
from headrace.domain.preemption.victim_candidates import VictimCandidates
from tests.unit.domain.hall import Hall, gpus


def lending(**terms):
    """Four GPUs, all lent to `lender`, two of them reserved for `owner`."""
    hall = Hall(devices=4)
    hall.policy("lender", size=1, terms=PreemptionTerms(**terms))
    hall.policy("owner", reservation=2, size=1)
    victims = [hall.run("lender", f"v{number}", ("n1", number, 1)) for number in range(4)]
    return hall, victims, hall.admit("owner", "o")


def eligible(hall, asking):
    return VictimCandidates(hall.state, asking, hall.pool, e.RECLAIM, frozenset(), hall.now)


def jobs(candidates):
    return [candidate.job for candidate in candidates]


def mixed():
    """Two policies of different priority, and jobs that lose little or much."""
    hall = Hall(devices=8)
    hall.policy("low", priority=1)
    hall.policy("high", priority=2)
    first = hall.run("high", "first", ("n1", 0, 1))
    hall.later(1_000)
    old, new = hall.run("low", "old", ("n1", 1, 1)), hall.run("low", "new", ("n1", 2, 1))
    hall.later(1)
    cheap = hall.run("high", "cheap", ("n1", 3, 1))
    hall.policy("owner", reservation=8)
    return hall, (first, old, new, cheap), hall.admit("owner", "owning")


def test_the_order_is_priority_then_loss_then_the_newest_grant():
    hall, (first, old, new, cheap), asking = mixed()
    assert jobs(eligible(hall, asking)) == [new, old, cheap, first]
    hall.policy("asks")
    nobody = eligible(hall, hall.admit("asks", "asking"))
    assert (nobody.all(), nobody.protected(), nobody.more()) == ([], (0, None), False)


def test_no_job_is_drawn_before_a_reader_looks_that_far():
    hall, (_, old, new, cheap), asking = mixed()
    found = eligible(hall, asking)
    assert (found.drawn, len(found.kinds)) == ([], 0)
    assert (found.more(), jobs(found.drawn), len(found.kinds)) == (True, [new, old], 1)
    assert (found.more(), jobs(found.drawn), len(found.kinds)) == (True, [new, old, cheap], 2)


def test_whom_its_own_reservation_shelters_comes_last_whatever_its_priority():
    hall = Hall(devices=4)
    for name, reserved in (("acme", 4), ("rival", 0)):
        share = Share(pool="hall", reservation=gpus(reserved))
        hall.append_facts("governance", f.TenantAppliedV1(author="a.b", tenant=Tenant(name=name, shares=(share,))))
    hall.policy("sheltered", tenant="rival", reservation=2, priority=0)
    hall.policy("open", tenant="rival", priority=9)
    hall.policy("owner", reservation=4)
    inside, beyond = (
        hall.run(name, name, ("n1", number, 1), tenant="rival") for number, name in enumerate(("sheltered", "open"))
    )
    assert jobs(eligible(hall, hall.admit("owner", "o"))) == [beyond, inside]


def test_what_the_loop_over_all_says_is_what_the_rules_say_of_each():
    hall, (saved, started, *_), owner = lending(assume_checkpoint_every=90 * SECOND)
    hall.later(40)
    hall.append_facts("node.n1", f.CheckpointRegisteredV1(job=saved.key, attempt=1, uri="u", at=hall.now))
    waiting = hall.admit("lender", "w")
    hall.end(started)
    hall.grant(waiting, ("n1", 1, 1))
    hall.later(70)
    found = eligible(hall, owner)
    there = hall.state.policies["acme", "lender"].jobs.values()
    assert {candidate.job: (candidate.lost, candidate.bucket) for candidate in found} == {
        job: (e.lost_work(job, hall.now), e.lost_bucket(e.lost_work(job, hall.now))) for job in there
    }
    assert sorted(found.of(job) for job in there) == found.all()
    assert found.of(owner) is None


def test_protected_ones_are_counted_and_the_first_moment_is_known():
    hall, (victim, *_), owner = lending(min_runtime=60 * SECOND)
    found = eligible(hall, owner)
    assert (found.all(), found.protected(), found.of(victim)) == ([], (4, hall.now + 60 * SECOND), None)


def test_no_job_is_told_to_stop_on_a_node_that_is_away():
    hall = Hall(nodes=2, devices=2)
    hall.policy("lender", size=1)
    hall.policy("owner", reservation=4, size=1)
    here, there = (hall.run("lender", name, (name, 0, 1)) for name in ("n1", "n2"))
    hall.append_facts("preemption", f.NodeLostV1(node="n2", silent_for=0))
    found = eligible(hall, hall.admit("owner", "o"))
    assert (jobs(found), found.of(there)) == ([here], None)


def test_a_gang_is_as_new_as_its_newest_lease():
    hall = Hall(nodes=2, devices=2)
    hall.policy("gang", size=1, replicas=2)
    job = hall.run("gang", "g", ("n1", 0, 1), ("n2", 0, 1))
    assert last_lease(job) is job.leases[1]


def test_a_long_bucket_is_drawn_in_front_first_and_then_whole_in_the_same_order(monkeypatch):
    hall, victims, owner = lending()
    hall.policy("other", size=0.5)
    hall.node("n2", 2)
    victims += [hall.run("other", f"w{number}", ("n2", number, 0.5)) for number in range(2)]
    newest = victims[::-1]
    assert jobs(eligible(hall, owner).all()) == newest
    monkeypatch.setattr(found_in, "FRONT", 4)
    found = eligible(hall, owner)
    assert (found.more(), jobs(found.drawn)) == (True, newest[:4])
    assert (found.more(), jobs(found.drawn), found.more()) == (True, newest, False)
