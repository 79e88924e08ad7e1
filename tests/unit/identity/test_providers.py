"""`issuers.yaml`: what may stand there, and what claims mean by it."""

from __future__ import annotations

import pytest
from msgspec import structs

from headrace.identity.caller import Role, Unauthenticated
from headrace.identity.providers import ProviderError, TokenProvider, interpret_claims, is_trustworthy, read_providers
from tests.unit.identity.issuing import CORP, NOW, SECOND, claims

ONE = "issuers: [{name: corp, issuer: 'https://login.example', audience: headrace%s}]"


def read(tmp_path, text):
    path = tmp_path / "issuers.yaml"
    path.write_text(text)
    return read_providers(path)


def test_a_missing_file_names_no_one(tmp_path):
    assert read_providers(tmp_path / "issuers.yaml") == ()


def test_a_provider_is_read_with_its_defaults(tmp_path):
    (provider,) = read(tmp_path, ONE % ", algorithms: [RS256], tenant: acme, provider_admins: [ops]")
    assert provider == TokenProvider(
        name="corp",
        issuer="https://login.example",
        audience="headrace",
        algorithms=("RS256",),
        tenant="acme",
        provider_admins=("ops",),
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("issuers: [{name: corp}]", "missing required field `issuer`"),
        ("issuer: [{}]", "contains unknown field `issuer`"),
        (ONE % ", algorithm: RS256", "contains unknown field `algorithm`"),
        (ONE % ", algorithms: [HS256]", r"issuers\[0\].algorithms: HS256 cannot be used; there are ES256"),
        (ONE % ", algorithms: [none]", "algorithms: none cannot be used"),
        (ONE % ", algorithms: []", "algorithms: none cannot be used"),
        (
            ONE % ", jwks_uri: 'http://login.example/keys'",
            "jwks_uri: invalid address 'http://login.example/keys': use https",
        ),
        (ONE % ", jwks_uri: 'file:///etc/passwd'", "jwks_uri: invalid address 'file:///etc/passwd'"),
        (ONE % ", membership: both", "membership: invalid value 'both': use documents or claims"),
        (ONE % ", tenant: Acme", "tenant: invalid name 'Acme'"),
        (ONE.replace("corp", "Corp") % "", "name: invalid name 'Corp'"),
        (ONE.replace("audience: headrace", "audience: ''") % "", "audience: write the audience"),
        (ONE.replace("https://login.example", "headrace") % "", "issuer: headrace is already used by another issuer"),
        ("issuers: [a", "malformed YAML"),
        (
            "issuers: [{name: a, issuer: 'https://a.b', audience: c}, {name: a, issuer: 'https://b.b', audience: c}]",
            r"issuers\[1\].name: a occurs twice",
        ),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, says):
    with pytest.raises(ProviderError, match=says):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("url", "trusted"),
    [
        ("https://login.example/keys", True),
        ("http://localhost:9000/keys", True),
        ("http://127.0.0.1/keys", True),
        ("http://login.example/keys", False),
        ("http://localhost.evil.example/", False),
        ("ftp://login.example/keys", False),
        ("file:///keys", False),
        ("https://", False),
    ],
)
def test_keys_are_fetched_over_tls_or_from_this_machine_only(url, trusted):
    assert is_trustworthy(url) is trusted


def test_claims_are_read_as_the_settings_say():
    identity = interpret_claims(CORP, claims(groups=["vision", 7, "operators"]), only=False)
    assert identity._asdict() == {
        "subjects": ("corp|4711",),
        "tenant": "acme",
        "handle": "ann",
        "role": Role.PROVIDER_ADMIN,
        "groups": None,
        "token": "theirs",
        "issued_at": NOW * SECOND,
        "expires_at": (NOW + 600) * SECOND,
    }


def test_claimed_membership_and_tenant_are_read_where_the_settings_say_so():
    provider = structs.replace(CORP, tenant="", tenant_claim="org", membership="claims", groups_claim="teams")
    identity = interpret_claims(provider, claims(org="other", teams=["a", "b"]), only=True)
    assert (identity.tenant, identity.groups, identity.subjects) == ("other", ("a", "b"), ("corp|4711", "4711"))


@pytest.mark.parametrize(
    ("groups", "role"),
    [
        (["operators", "auditors"], Role.PROVIDER_ADMIN),
        (["auditors", "leads"], Role.PROVIDER_VIEWER),
        (["leads"], Role.TENANT_ADMIN),
        (["others"], None),
        ("operators", None),
        ({"operators": 1}, None),
        (None, None),
    ],
)
def test_the_providers_groups_give_the_strongest_role_they_name(groups, role):
    assert interpret_claims(CORP, claims(groups=groups), only=True).role is role


@pytest.mark.parametrize("subject", ["", 5, ["a"]])
def test_a_subject_that_is_not_text_names_no_one(subject):
    with pytest.raises(Unauthenticated):
        interpret_claims(CORP, {**claims(), "sub": subject}, only=True)


@pytest.mark.parametrize("handle", [5, ["ann"], {"a": 1}, None])
def test_a_handle_that_is_not_text_is_ignored(handle):
    assert interpret_claims(CORP, claims(preferred_username=handle), only=True).handle == ""
