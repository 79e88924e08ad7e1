"""What went wrong is one line, and for a refusal a stable code."""

from __future__ import annotations

import pytest

from headrace.client import HeadraceError, Refused, Unreachable


@pytest.mark.parametrize("error", [Unreachable("away"), Refused("NOT_FOUND", "no such job")])
def test_everything_that_goes_wrong_is_one_kind_of_error(error):
    assert isinstance(error, HeadraceError)


def test_a_refusal_says_why_in_a_token_and_in_a_line_and_what_else_there_is():
    refusal = Refused("STALE", "it was changed meanwhile", b'{"changes":[]}')
    assert (refusal.code, str(refusal), refusal.body) == ("STALE", "it was changed meanwhile", b'{"changes":[]}')
