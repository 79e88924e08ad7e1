from __future__ import annotations

import pytest

from headrace.service.concurrency_limit import ConcurrencyLimit, LimitReached


def test_one_tenant_leaves_room_for_others_and_all_together_have_a_limit() -> None:
    places = ConcurrencyLimit(3, 2)
    places.take("acme")
    places.take("acme")
    with pytest.raises(LimitReached) as own:
        places.take("acme")
    places.take("other")
    with pytest.raises(LimitReached) as others:
        places.take("third")
    assert (own.value.own, others.value.own) == (True, False)
    places.leave("acme")
    places.take("third")


def test_a_place_is_given_back_however_its_block_ends() -> None:
    places = ConcurrencyLimit(1, 1)
    with pytest.raises(ValueError, match="trouble"), places.one("acme"):
        raise ValueError("trouble")
    with places.one("acme"), pytest.raises(LimitReached), places.one("acme"):
        raise AssertionError
