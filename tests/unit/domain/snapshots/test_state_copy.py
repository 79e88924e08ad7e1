"""A copy shares no object with its original, and every value that cannot change."""

from __future__ import annotations

import pytest

from headrace.domain.model.jobs import Scope
from headrace.domain.snapshots.state_copy import Copier
from headrace.domain.snapshots.state_schema import UnknownSort
from tests.unit.domain.site import Site, policy


def test_objects_are_copied_once_and_keep_pointing_at_each_other():
    site = Site(policy())
    job = site.admit("a", "dev/one")

    twin = Copier().copy(job)

    assert twin is not job
    assert twin.policy is not job.policy
    assert (twin.key, twin.request.amounts, twin.request.shape) == (job.key, job.request.amounts, job.request.shape)
    assert twin.policy.document is job.policy.document


def test_what_happens_to_the_copy_is_not_seen_in_the_original():
    scope = Scope("policy", "policy a/b", use={"gpu": 3})
    twin = Copier().copy(scope)
    twin.use["gpu"] = 5
    twin.limit["gpu"] = 1
    assert (scope.use, scope.limit) == ({"gpu": 3}, {})


def test_objects_in_any_container_are_copied():
    site = Site(policy())
    job = site.admit("a", "dev/one")
    state = site.state
    state.barred["x"] = [job]
    state.ended.append(job)

    twin = Copier().copy(state)

    assert twin.barred["x"][0] is twin.ended[0] is twin.jobs[job.key]
    assert twin.jobs[job.key] is not job


def test_what_is_not_declared_is_refused():
    with pytest.raises(UnknownSort, match="complex"):
        Copier().copy(Scope("policy", 1j))
