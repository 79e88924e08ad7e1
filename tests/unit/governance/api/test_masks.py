from __future__ import annotations

import pytest

from headrace.governance.api.errors import ApiError
from headrace.governance.api.masks import PATHS_MAX, merged

FIELDS = {"limit", "preemption", "group"}
NOW = {"group": "rnd", "limit": {"gpu": "4", "cpu": "8"}, "preemption": {"term_grace": "5s"}}


@pytest.mark.parametrize(
    ("new", "mask", "expected"),
    [
        ({"group": "dev"}, [], NOW | {"group": "dev"}),
        ({"group": "dev", "limit": {"gpu": "9"}}, ["limit"], NOW | {"limit": {"gpu": "9"}}),
        ({"limit": {"gpu": "9"}}, ["limit.gpu"], NOW | {"limit": {"gpu": "9", "cpu": "8"}}),
        ({}, ["limit.gpu"], NOW | {"limit": {"cpu": "8"}}),
        ({}, ["preemption"], {"group": "rnd", "limit": NOW["limit"]}),
        (
            {"preemption": {"min_runtime": "1m"}},
            ["preemption.min_runtime"],
            NOW | {"preemption": {"term_grace": "5s", "min_runtime": "1m"}},
        ),
        ({"group": "dev"}, ["*"], {"group": "dev"}),
    ],
)
def test_what_the_mask_names_is_taken_and_all_else_stays(new, mask, expected):
    assert merged(NOW, new, mask, FIELDS) == expected
    assert NOW["limit"] == {"gpu": "4", "cpu": "8"}


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (["name"], "there is no field 'name' to be written"),
        (["group.x"], "goes into what has no fields"),
        (["limit"] * (PATHS_MAX + 1), f"at most {PATHS_MAX} fields"),
    ],
)
def test_a_mask_that_makes_no_sense_is_refused(mask, message):
    with pytest.raises(ApiError, match="update_mask: ") as refused:
        merged(NOW, {"group": "dev"}, mask, FIELDS)
    assert message in refused.value.message
