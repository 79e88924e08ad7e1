from __future__ import annotations

import pytest

from headrace.governance.api.errors import ApiError
from headrace.governance.api.filters import DEPTH_MAX, LENGTH_MAX, parse

JOB = {"state": ["pending"], "queue": ["ai-dev/half"], "priority": ["12"], "labels.team": ["vision"], "nodes": ["a", "b"]}
FIELDS = {"state", "queue", "priority", "labels", "nodes", "reason"}


def passes(text):
    found = parse(text, FIELDS)
    return found is None or found(lambda path: JOB.get(path, []))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("   ", True),
        ('state = "pending"', True),
        ("state = pending", True),
        ("state = running", False),
        ('state != "pending"', False),
        ('queue = "ai-dev/half" AND state = "pending"', True),
        ("state = running OR state = pending", True),
        ("state = running OR state = pending AND priority > 100", False),
        ("(state = running OR state = pending) AND priority > 9", True),
        ("NOT state = running", True),
        ("NOT (state = pending)", False),
        ("priority < 100", True),
        ("priority >= 12", True),
        ("priority <= 11.5", False),
        ('labels.team : "vis"', True),
        ("labels.team:*", True),
        ("labels.owner:*", False),
        ("nodes = b", True),
        ('reason = ""', True),
        ('queue = "say \\"hi\\""', False),
    ],
)
def test_a_filter_says_which_pass(text, expected):
    assert passes(text) is expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("state", 'write comparisons such as state = "pending"'),
        ('colour = "red"', "there is no field 'colour'"),
        ('state = "pending', "cannot be read"),
        ("state = pending state = running", "is not expected here"),
        ("(state = pending", "a parenthesis is not closed"),
        ("state = )", "write one of"),
        ("state ( pending", "write one of"),
        ("AND", 'write comparisons such as state = "pending"'),
        ("x" * (LENGTH_MAX + 1), f"at most {LENGTH_MAX} characters"),
        ("NOT " * (DEPTH_MAX + 2) + "state = a", f"deeper than {DEPTH_MAX} levels"),
        ("(" * (DEPTH_MAX + 2), f"deeper than {DEPTH_MAX} levels"),
    ],
)
def test_what_is_not_a_filter_is_refused_with_the_way_out(text, message):
    with pytest.raises(ApiError) as refused:
        parse(text, FIELDS)
    assert message in refused.value.message
    assert (refused.value.reason, refused.value.violations[0].field) == ("INVALID_FILTER", "filter")
