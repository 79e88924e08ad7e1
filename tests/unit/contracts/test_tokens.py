"""What a bearer reads of its own token, unverified."""

from __future__ import annotations

import jwt
import pytest

from headrace.contracts.tokens import Spoken, spoken_for


def token(**claims):
    return jwt.encode(claims, "a secret that is long enough for HS256", algorithm="HS256")


def test_a_token_of_ours_says_whom_it_speaks_for():
    made = token(role="service-account", tenant="acme", handle="ci", sub="acme.ci", exp=1)
    assert spoken_for(made) == Spoken("service-account", "acme", "ci")


@pytest.mark.parametrize(
    "text", ["", "a.b", "a.b.c", "....", token(sub="somebody else's"), "e30.W10.x", "e30." + "W" * 9_000 + ".x"]
)
def test_what_says_nothing_of_the_kind_speaks_for_nobody(text):
    assert spoken_for(text) is None
