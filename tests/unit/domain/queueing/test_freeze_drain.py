from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.values.durations import format_time
from headrace.domain.queueing.freeze_drain import (
    holding_under,
    is_closed,
    policies_under,
    pool_closing,
    queue_closing,
    sentence,
    waiting_under,
)
from headrace.domain.snapshots.snapshot import dump, load
from tests.unit.domain.site import Site, applied, place, policy, pool


@pytest.fixture
def site():
    site = Site(policy("dev", group="web"), policy("ops"), pools=(pool(), pool("attic")))
    site.node()
    return site


def close(site, kind, name, mode="freeze", tenant="default"):
    site.append_facts(f.ObjectClosedV1(author="default.root", kind=kind, tenant=tenant, name=name, mode=mode))
    return site.state.terms.closings[kind, tenant, name]


@pytest.mark.parametrize(
    ("kind", "tenant", "name", "closed"),
    [
        ("policy", "default", "dev", ["dev/one", "dev/two"]),
        ("group", "default", "web", ["dev/one", "dev/two"]),
        ("profile", "", "one", ["dev/one", "ops/one"]),
        ("tenant", "", "default", ["dev/one", "dev/two", "ops/one"]),
        ("pool", "", "attic", []),
        ("policy", "default", "other", []),
    ],
)
def test_a_queue_is_closed_with_its_policy_profile_group_or_tenant(site, kind, tenant, name, closed):
    closing = close(site, kind, name, tenant=tenant)
    state = site.state
    queues = {"dev/one": ("dev", "one"), "dev/two": ("dev", "two"), "ops/one": ("ops", "one")}
    found = {queue: queue_closing(state, state.policies["default", owner], link) for queue, (owner, link) in queues.items()}
    assert [queue for queue, by in found.items() if by is closing] == closed


def test_a_pool_is_closed_by_itself_for_all(site):
    job = site.admit("a")
    closing = close(site, "pool", "attic", tenant="")
    assert (pool_closing(site.state, "attic"), pool_closing(site.state, "hall")) == (closing, None)
    assert (is_closed(site.state, job, "attic"), is_closed(site.state, job, "hall")) == (True, False)


def test_with_nothing_closed_no_job_is(site):
    assert not is_closed(site.state, site.admit("a"), "hall")


def test_applied_again_it_is_open_and_gone_it_is_forgotten(site):
    close(site, "policy", "dev")
    close(site, "profile", "one", tenant="")
    close(site, "group", "web")
    site.law(policy("dev", group="web"), d.Group(name="web"))
    assert list(site.state.terms.closings) == [("profile", "", "one")]
    site.append_facts(f.ProfileDeletedV1(author="a.b", name="one"))
    assert site.state.terms.closings == {}


def test_the_sentence_says_what_by_whom_since_when_and_the_way_out(site):
    since = format_time(site.now)
    assert sentence(close(site, "policy", "dev")) == (
        f"policy default/dev is frozen by default.root since {since}; applying it again opens it"
    )
    assert sentence(close(site, "pool", "hall", "drain", "")) == (
        f"pool hall is being drained, then deleted, by default.root since {since}; applying it again opens it"
    )


def test_who_is_under_it_holds_or_waits(site):
    runs, waits = site.run("a", place("n1", 0)), site.admit("b")
    other, aside = site.run("c", place("n1", 1), queue="ops/one"), site.admit("d", after=(Dependency(job=runs.key, when="ok"),))
    one, dev = close(site, "profile", "one", tenant=""), close(site, "policy", "dev")
    two, hall = close(site, "profile", "two", tenant=""), close(site, "pool", "hall", tenant="")
    state = site.state
    assert [under.key for under in policies_under(state, dev)] == [("default", "dev")]
    assert list(policies_under(state, hall)) == []
    assert (holding_under(state, dev), waiting_under(state, dev)) == ([runs], [waits, aside])
    assert (holding_under(state, one), waiting_under(state, one)) == ([runs, other], [waits, aside])
    assert (holding_under(state, two), waiting_under(state, two)) == ([], [])
    assert (holding_under(state, hall), waiting_under(state, hall)) == ([runs, other], [])


def test_who_waits_under_it_is_named_as_it_was_submitted_regardless_of_returns(site):
    first, second = site.run("a", place("n1", 0)), site.admit("b", queue="dev/two")
    third = site.admit("c")
    site.stop(first)
    site.leave(first, requeue="preempted")
    state = load(dump(site.state))
    named = [waiting_under(there, close(site, "policy", "dev")) for there in (site.state, state)]
    assert [[job.key for job in waiting] for waiting in named] == [[job.key for job in (first, second, third)]] * 2


def test_a_policy_on_its_way_out_is_still_under_its_tenant(site):
    job = site.run("a", place("n1", 0))
    site.append_facts(f.PolicyDeletedV1(author="a.b", tenant="default", name="dev"))
    assert holding_under(site.state, close(site, "tenant", "default", tenant="")) == [job]
    site.append_facts(applied(policy("dev")))
    assert holding_under(site.state, site.state.terms.closings["tenant", "", "default"]) == [job]
