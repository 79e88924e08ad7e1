"""Names in the order in which people look for them."""

from __future__ import annotations

from headrace.contracts.values.natural_order import natural_order


def test_numbers_in_names_count() -> None:
    names = ["rack2-n10", "rack2-n9", "rack10-n1", "gpu", "rack2-n09", "2", "10"]
    assert sorted(names, key=natural_order) == ["2", "10", "gpu", "rack2-n09", "rack2-n9", "rack2-n10", "rack10-n1"]
