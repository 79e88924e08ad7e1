from __future__ import annotations

import pytest

from headrace.service.concurrency_limit import LimitReached
from headrace.service.lines import BoundedQueues


def test_tenants_take_turns_and_each_tenants_items_keep_their_order() -> None:
    lines = BoundedQueues[str](100, 1_000)
    for item in ("a1", "a2", "a3", "b1", "c1", "b2"):
        lines.put(item[0], item, 1)
    assert [lines.take() for _ in range(len(lines))] == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_one_tenant_has_half_of_the_items_and_leaves_room_for_others() -> None:
    lines = BoundedQueues[int](4, 1_000)
    for item in range(2):
        lines.put("acme", item, 1)
    with pytest.raises(LimitReached) as own:
        lines.put("acme", 2, 1)
    lines.put("other", 3, 1)
    lines.put("third", 4, 1)
    with pytest.raises(LimitReached) as others:
        lines.put("fourth", 5, 1)
    assert (own.value.own, others.value.own, len(lines)) == (True, False, 4)


def test_one_tenant_has_half_of_the_bytes_and_leaves_room_for_others() -> None:
    lines = BoundedQueues[int](100, 1_000)
    lines.put("acme", 1, 500)
    with pytest.raises(LimitReached) as own:
        lines.put("acme", 2, 1)
    lines.put("other", 3, 500)
    with pytest.raises(LimitReached) as others:
        lines.put("third", 4, 1)
    assert (own.value.own, others.value.own) == (True, False)


def test_what_is_taken_makes_room_and_an_item_beyond_the_bound_finds_a_place_when_nothing_waits() -> None:
    lines = BoundedQueues[int](4, 1_000)
    lines.put("acme", 1, 5_000)
    with pytest.raises(LimitReached):
        lines.put("other", 2, 1)
    assert lines.take() == 1
    lines.put("other", 2, 1)
    assert (lines.take(), len(lines)) == (2, 0)
    with pytest.raises(IndexError):
        lines.take()
