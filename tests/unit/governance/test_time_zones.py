from __future__ import annotations

import pytest

from headrace.contracts.values.durations import DAY, parse_time
from headrace.governance.time_zones import known_zones, offsets_of

NEW_YEAR = parse_time("2026-01-01")


def test_the_offsets_of_a_zone_are_those_of_its_summer_and_winter():
    assert offsets_of("Europe/Berlin", NEW_YEAR, NEW_YEAR + 365 * DAY) == (
        (NEW_YEAR, 3_600),
        (parse_time("2026-03-29T01:00Z"), 7_200),
        (parse_time("2026-10-25T01:00Z"), 3_600),
    )
    assert offsets_of("Asia/Kolkata", NEW_YEAR, NEW_YEAR + 365 * DAY) == ((NEW_YEAR, 19_800),)


@pytest.mark.parametrize("zone", ["Europe/Berln", "../../etc/passwd", "", "/etc/localtime"])
def test_what_is_not_a_zone_is_ignored(zone):
    assert offsets_of(zone, NEW_YEAR, NEW_YEAR + DAY) is None


def test_the_names_are_known():
    assert {"UTC", "Europe/Berlin"} <= known_zones()
