"""The traits of a class of pending jobs: what of its queue and its policy decides where its requests belong."""

from __future__ import annotations

import pytest

from headrace.allocator.class_traits import ClassTraits, traits_of
from headrace.allocator.request_bitsets import EVERY
from headrace.contracts.documents.model import PerUser
from tests.unit.domain.site import Site, gpus, policy


@pytest.mark.parametrize(
    ("terms", "borrows", "preemptible", "expected"),
    [
        ({}, True, True, ClassTraits(True, False, 0, EVERY, EVERY, 0, "")),
        ({}, True, False, ClassTraits(False, False, 0, EVERY, 0, 0, "")),
        ({"beyond_limit": ("ann",)}, False, True, ClassTraits(True, False, EVERY, EVERY, 0, 0, "")),
        ({"fair_among": "users"}, True, True, ClassTraits(True, False, 0, EVERY, EVERY, 0, "")),
        ({"per_user": PerUser(limit=gpus(1))}, True, True, ClassTraits(True, False, 0, EVERY, EVERY, 0, "ann")),
        ({"per_user": PerUser(max_pending=1)}, True, True, ClassTraits(True, False, 0, EVERY, EVERY, 0, "")),
    ],
)
def test_traits_follow_from_the_queue_and_the_policy(terms, borrows, preemptible, expected):
    site = Site(policy("dev", **terms))
    site.node(count=4)
    group = site.state.pending.group_of(site.admit("j", preemptible=preemptible))
    assert traits_of(group, borrows=borrows, by_firm=False) == expected
