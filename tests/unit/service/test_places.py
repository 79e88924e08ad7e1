from __future__ import annotations

import pytest

from headrace.service.places import NoPlace, Places


def test_one_tenant_leaves_room_for_others_and_all_together_have_so_many() -> None:
    places = Places(3, 2)
    places.take("acme")
    places.take("acme")
    with pytest.raises(NoPlace) as own:
        places.take("acme")
    places.take("other")
    with pytest.raises(NoPlace) as others:
        places.take("third")
    assert (own.value.own, others.value.own) == (True, False)
    places.leave("acme")
    places.take("third")


def test_a_place_is_given_back_however_its_block_ends() -> None:
    places = Places(1, 1)
    with pytest.raises(ValueError, match="trouble"), places.one("acme"):
        raise ValueError("trouble")
    with places.one("acme"), pytest.raises(NoPlace), places.one("acme"):
        raise AssertionError
