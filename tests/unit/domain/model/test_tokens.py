"""Whose tokens count no more."""

from __future__ import annotations

import pytest

from headrace.domain.model.tokens import Tokens


@pytest.mark.parametrize(
    ("bearer", "sequence", "issued_at", "outdated"),
    [
        (("acme", "ann"), 5, 0, True),
        (("acme", "ann"), 6, 0, False),
        (("acme", "ann"), 0, 100, True),
        (("acme", "ann"), 0, 101, False),
        (("acme", "bob"), 1, 0, False),
        (("gone", "anybody"), 8, 0, True),
        (("gone", "anybody"), 9, 0, False),
    ],
)
def test_what_was_given_before_counts_no_more_and_what_was_given_since_does(bearer, sequence, issued_at, outdated):
    tokens = Tokens(outdated={("acme", "ann"): (5, 100), ("gone", ""): (8, 200)})
    assert tokens.is_outdated(bearer, sequence, issued_at) is outdated
