from __future__ import annotations

import pytest

from headrace.domain.model.instances import Instance

ORDER = {"name": "c-1", "pool": "c", "growth": 1, "provider": "local", "offer": "o", "market": "spot", "price": 1, "token": "t"}


@pytest.mark.parametrize(
    ("fields", "stage", "lives", "serves"),
    [
        ({}, "ordered", True, True),
        ({"created_at": 1}, "booting", True, True),
        ({"created_at": 1, "joined_at": 2}, "joined", True, True),
        ({"created_at": 1, "joined_at": 2, "released": "idle"}, "leaving", True, False),
        ({"released": "idle", "ended": "idle", "ended_at": 3}, "ended", False, False),
        ({"refused": "CAPACITY", "ended_at": 3}, "refused", False, False),
    ],
)
def test_an_instance_goes_through_its_stages(fields, stage, lives, serves):
    one = Instance(**ORDER, ordered_at=0, expires=9, **fields)
    assert (one.stage, one.lives, one.serves) == (stage, lives, serves)
