"""What a job, a lease and an attempt begin with, and what a job is called."""

from __future__ import annotations

from dataclasses import MISSING, fields

from tests.unit.domain.site import Site, place, policy


def unlike_declared(one: object) -> dict[str, object]:
    """The fields of an object that are not what their declaration says of an object without stated fields."""
    declared = {each.name: each.default_factory() if each.default is MISSING else each.default for each in optional(one)}
    return {name: getattr(one, name) for name, value in declared.items() if getattr(one, name) != value}


def optional(one: object) -> list[object]:
    """The fields that a snapshot need not have."""
    return [each for each in fields(one) if (each.default, each.default_factory) != (MISSING, MISSING)]


def test_every_field_begins_with_what_a_snapshot_gives_it_that_does_not_have_it():
    site = Site()
    site.node()
    waiting, granted = site.admit("w"), site.admit("g")
    site.grant(granted, place("n1", 0))

    assert {type(one).__name__: unlike_declared(one) for one in (waiting, granted.leases[0], granted.attempts[0])} == {
        "JobRecord": {"pending_since": site.now},
        "LeaseState": {},
        "Attempt": {},
    }
    assert (len(optional(waiting)), len(optional(granted.leases[0])), len(optional(granted.attempts[0]))) == (40, 7, 5)


def test_a_job_is_called_by_its_key_and_its_queue_by_policy_and_profile():
    site = Site(policy("dev", tenant="acme"))
    job = site.admit("a", "dev/half", tenant="acme", user="eve")
    assert (job.key, job.tenant, job.user, job.queue) == ("acme.eve.a", "acme", "eve", "dev/half")
    assert job.policy.key == ("acme", "dev")


def test_users_of_whom_no_job_waits_are_not_counted_among_those_that_wait():
    site = Site(policy("dev", fair_among="users"))
    site.node()
    first, second = site.admit("a"), site.admit("b", user="bob")
    site.grant(first, place("n1", 0))
    assert (second.policy.user_pending, second.policy.pending) == ({"bob": 1}, 1)
