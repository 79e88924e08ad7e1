"""What a bearer reads of its own token, unverified."""

from __future__ import annotations

import jwt
import pytest

from headrace.contracts.messages.tokens import UnverifiedBearer, inbox_prefix, read_bearer


def token(**claims):
    return jwt.encode(claims, "a secret that is long enough for HS256", algorithm="HS256")


def test_a_token_of_ours_says_whom_it_speaks_for():
    made = token(role="service-account", tenant="acme", handle="ci", sub="acme.ci", exp=1)
    assert read_bearer(made) == UnverifiedBearer("service-account", "acme", "ci")


@pytest.mark.parametrize(
    "text", ["", "a.b", "a.b.c", "....", token(sub="somebody else's"), "e30.W10.x", "e30." + "W" * 9_000 + ".x"]
)
def test_what_says_nothing_of_the_kind_speaks_for_no_one(text):
    assert read_bearer(text) is None


def test_a_bearers_inbox_is_the_tokens_own_and_anothers_that_of_the_login():
    member, admin = (token(role=role, tenant="default", handle="ops") for role in ("user", "admin"))
    prefixes = {inbox_prefix("default_ops", shown) for shown in (member, admin, "a password", "")}
    assert len(prefixes) == 3
    assert {inbox_prefix("anybody", member)} < prefixes
    assert (inbox_prefix("default_ops", "e.password"), inbox_prefix("", "")) == ("_INBOX_default_ops", "_INBOX")
