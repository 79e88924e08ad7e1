"""What a provider's list means: nothing is ended by a list that failed, and nothing unknown is left."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.provisioner.providers import Listed
from headrace.provisioner.reconcile import compare
from tests.unit.domain.site import place
from tests.unit.provisioner.cloud import Cloud


def shown(name: str, created_at: int, *, runs: bool = True) -> Listed:
    return Listed(name, f"p/{name}", created_at, runs)


def ended(name: str, cause: str, now: int) -> f.InstanceEndedV1:
    return f.InstanceEndedV1(instance=name, provider_id=f"p/{name}", cause=cause, at=now)


def test_an_instance_whose_answer_was_lost_is_taken_over():
    site = Cloud()
    (name,) = site.ordered()
    found = compare(site.state, "local", [shown(name, 5)], {}, site.now)
    assert found.facts == (f.InstanceCreatedV1(instance=name, provider_id=f"p/{name}", at=5),)


def test_an_instance_whose_answer_was_lost_is_known_even_when_it_has_to_end():
    site = Cloud()
    (name,) = site.ordered()
    site.append_facts(f.InstanceReleasedV1(instance=name, cause="no_answer"), by="provisioner")
    found = compare(site.state, "local", [shown(name, 5)], {}, site.now)
    assert found.facts == (f.InstanceCreatedV1(instance=name, provider_id=f"p/{name}", at=5),)


def test_an_instance_has_ended_when_its_provider_says():
    site = Cloud()
    (name,) = site.ordered()
    site.made(name)
    gone = shown(name, 5, runs=False)._replace(ended_at=site.now - 7)
    assert compare(site.state, "local", [gone], {}, site.now).facts == (ended(name, "vanished", site.now - 7),)


def test_when_an_instance_that_is_being_ended_was_gone_is_left_to_the_call_that_ends_it():
    site = Cloud()
    (name,) = site.ordered()
    site.made(name)
    site.append_facts(f.InstanceReleasedV1(instance=name, cause="operator"), by="provisioner")
    gone = shown(name, 5, runs=False)
    assert compare(site.state, "local", [gone], {}, site.now).facts == ()
    known = gone._replace(ended_at=site.now)
    assert compare(site.state, "local", [known], {}, site.now).facts == (ended(name, "operator", site.now),)


def test_what_runs_and_is_known_is_left_alone():
    site = Cloud()
    (name,) = site.joined()
    assert compare(site.state, "local", [shown(name, 5)], {}, site.now) == ((), (), {})
    assert compare(site.state, "other", [], {}, site.now + HOUR) == ((), (), {})


def test_an_instance_that_has_ended_is_ended_here_too():
    site = Cloud()
    (name,) = site.ordered()
    site.made(name)
    found = compare(site.state, "local", [shown(name, 5, runs=False)], {}, site.now)
    assert found.facts == (ended(name, "vanished", site.now),)


def test_a_node_that_is_heard_has_not_vanished_whatever_a_list_says():
    site = Cloud()
    (name,) = site.joined()
    for listed in ([], [shown(name, 5, runs=False)], [shown("cloud-other", site.now)]):
        assert compare(site.state, "local", listed, {name: 0}, site.now + 2 * HOUR).facts == ()


def test_an_instance_has_to_be_missing_for_a_while_and_from_a_list_that_shows_nothing_for_long():
    site = Cloud()
    first, second = site.ordered(2)
    site.made(first, second)
    others = [shown(second, 5)]
    absent = compare(site.state, "local", others, {}, site.now).absent
    assert absent == {first: site.now}
    assert compare(site.state, "local", others, absent, site.now + 5 * MINUTE - 1).facts == ()
    assert compare(site.state, "local", others, absent, site.now + 5 * MINUTE).facts == (
        ended(first, "vanished", site.now + 5 * MINUTE),
    )
    absent = compare(site.state, "local", [], {}, site.now).absent
    assert compare(site.state, "local", [], absent, site.now + HOUR - 1).facts == ()
    assert len(compare(site.state, "local", [], absent, site.now + HOUR).facts) == 2


def test_an_unknown_instance_is_ended_after_its_quarantine():
    site = Cloud()
    stranger = shown("cloud-strange", site.now)
    assert compare(site.state, "local", [stranger], {}, site.now + 10 * MINUTE - 1).orphans == ()
    assert compare(site.state, "local", [stranger], {}, site.now + 10 * MINUTE).orphans == (stranger,)


def test_an_unknown_instance_whose_node_holds_leases_is_left_to_operators():
    site = Cloud()
    site.join("cloud-strange")
    site.run("a", place("cloud-strange", 0), pool="cloud")
    assert compare(site.state, "local", [shown("cloud-strange", 5)], {}, site.now + HOUR).orphans == ()


def test_an_instance_that_should_have_ended_is_ended_again():
    site = Cloud()
    (name,) = site.ordered()
    site.made(name)
    site.append_facts(ended(name, "boot_failed", site.now), by="provisioner")
    still = shown(name, 5)
    assert compare(site.state, "local", [still], {}, site.now + MINUTE).orphans == ()
    assert compare(site.state, "local", [still], {}, site.now + 5 * MINUTE).orphans == (still,)
