from __future__ import annotations

from headrace.contracts.facts.preemption import Victim
from headrace.contracts.values.amounts import GPU, GPU_UNITS, JOB
from headrace.domain.model.jobs import Preemption
from headrace.domain.model.preemption_state import Proposal, Search
from tests.unit.domain.site import Site, place, policy


def filled() -> tuple[Site, object, object]:
    site = Site(policy("dev"), policy("ops"))
    site.node(count=1)
    victim = site.run("v", place("n1", 0))
    return site, victim, site.admit("p", "ops/one")


def test_a_search_waits_for_its_proposal():  # R19
    _, _, job = filled()
    search = Search("p@7", job, "hall", "reclaim", 7, 1_000)
    assert (search.id, search.job, search.pool, search.cause, search.sequence, search.opened_at, search.proposal) == (
        "p@7",
        job,
        "hall",
        "reclaim",
        7,
        1_000,
        None,
    )


def test_a_proposal_is_its_victims_and_where_the_preemptor_would_go():  # R26
    victim = Victim(job="v", attempt=1, policy="dev", lost=3)
    proposal = Proposal("reclaim", (victim,), (place("n1", 0),), "R25")
    assert (proposal.cause, proposal.victims, proposal.places, proposal.rule) == (
        "reclaim",
        (victim,),
        (place("n1", 0),),
        "R25",
    )


def test_an_ordered_preemption_is_kept_and_not_settled_before_a_victim_has_left():  # R27
    site, victim, job = filled()
    site.order(job, (victim,), place("n1", 0))
    taken = job.nomination
    assert isinstance(taken, Preemption)
    assert (taken.job, taken.pool, taken.places, taken.total) == (job, "hall", (place("n1", 0),), {GPU: GPU_UNITS, JOB: 1})
    assert (taken.leaving, taken.kept, taken.settled) == ({victim.key}, True, False)
    assert (taken.all_left_at, taken.signalled_at, taken.exited_at, taken.released_at) == (0, 0, 0, 0)
    assert taken.ordered_at == site.now


def test_two_preemptions_that_say_the_same_are_two():
    _, _, job = filled()
    assert Search("p@7", job, "hall", "reclaim", 7, 0) != Search("p@7", job, "hall", "reclaim", 7, 0)
