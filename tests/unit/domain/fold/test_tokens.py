"""Tokens as the fold keeps them."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.values.durations import DAY
from headrace.domain.model.tokens import REVOCATION_KEPT
from headrace.domain.snapshots.snapshot import dump, load
from tests.unit.domain.site import START, Site
from tests.unit.domain.snapshot import snapshot


def created(name="t1", tenant="acme", handle="ann", role="user", expires_at=START + DAY):
    return f.TokenCreatedV1(author="default.root", token=name, role=role, tenant=tenant, handle=handle, expires_at=expires_at)


def revoked(token="", tenant="", handle=""):
    return f.TokenRevokedV1(author="default.root", token=token, tenant=tenant, handle=handle)


class Book(Site):
    """A site whose records may be told when they are written."""

    def append_facts(self, *facts, at=START, by="governance"):
        self.now = at
        return super().append_facts(*facts, by=by)


@pytest.fixture
def site():
    return Book()


def good(site):
    return sorted(name for name, token in site.state.tokens.known.items() if not token.revoked_at)


def test_a_token_is_good_until_it_is_revoked_and_remembered_until_it_expires(site):
    site.append_facts(created("t1"), created("t2"))
    site.append_facts(revoked("t1"))
    assert good(site) == ["t2"]
    site.append_facts(created("t3", expires_at=START + 9 * DAY), at=START + 2 * DAY)
    assert list(site.state.tokens.known) == ["t3"]


def test_all_of_a_bearer_go_at_once_and_the_next_is_good(site):
    site.append_facts(created("t1"), created("t2", handle="bob"), created("t3", tenant="other"))
    site.append_facts(revoked(tenant="acme", handle="ann"))
    site.append_facts(created("t4"))
    assert good(site) == ["t2", "t3", "t4"]


@pytest.mark.parametrize(("level", "left"), [(1, []), (2, ["t1", "t2"])])
def test_a_user_that_is_deleted_leaves_the_tokens_of_the_providers_people_alone_from_level_2_on(site, level, left):
    site.state.terms.level = level
    admin, viewer = created("t1", "default", "ops", "admin"), created("t2", "default", "ops", "viewer")
    site.append_facts(admin, viewer, created("t3", "default", "ops"), created("t4", "default", "ops", "service-account"))
    site.append_facts(f.UserDeletedV1(author="default.lea", tenant="default", handle="ops"))
    assert good(site) == left


def test_a_user_or_tenant_that_is_deleted_takes_its_tokens_with_it(site):
    site.append_facts(created("t1"), created("t2", handle="bob"), created("t3", tenant="other"))
    site.append_facts(f.UserDeletedV1(author="a.b", tenant="acme", handle="ann"))
    assert good(site) == ["t2", "t3"]
    site.append_facts(f.TenantDeletedV1(author="a.b", name="acme"))
    assert good(site) == ["t3"]


def test_a_token_of_another_issuer_stays_revoked_for_longer_than_any_lives(site):
    site.append_facts(revoked("theirs"))
    site.append_facts(revoked("later"), at=START + REVOCATION_KEPT - 1)
    assert set(site.state.tokens.revoked) == {"theirs", "later"}
    site.append_facts(revoked("last"), at=START + 2 * REVOCATION_KEPT)
    assert set(site.state.tokens.revoked) == {"last"}


def test_a_name_that_is_given_twice_stays_the_first_ones(site):
    site.append_facts(created("t1"), created("t1", handle="mallory"))
    assert site.state.tokens.known["t1"].handle == "ann"


def claimed(handle="ann", *groups, issued_at=START, until=START + DAY):
    return f.MembershipClaimedV1(tenant="acme", handle=handle, groups=groups, issued_at=issued_at, until=until)


def test_of_what_tokens_claim_the_newest_counts_until_it_ends(site):
    claims = site.state.tokens.claims
    site.append_facts(claimed("ann", "vision", issued_at=START + 1), claimed("bob", "audio", until=START + 2 * DAY))
    site.append_facts(claimed("ann", "audio"))
    assert {bearer[1]: one.groups for bearer, one in claims.items()} == {"ann": ("vision",), "bob": ("audio",)}
    site.append_facts(claimed("carl", "audio", until=START + 9 * DAY), at=START + DAY)
    assert {bearer[1] for bearer in claims} == {"bob", "carl"}


def test_a_revocation_takes_what_the_tokens_claimed_with_it(site):
    site.append_facts(claimed("ann", "vision"), claimed("bob", "vision"))
    site.append_facts(revoked(tenant="acme", handle="ann"))
    assert {bearer[1] for bearer in site.state.tokens.claims} == {"bob"}
    site.append_facts(f.TenantDeletedV1(author="a.b", name="acme"))
    assert site.state.tokens.claims == {}


def test_tokens_are_in_the_snapshot(site):
    site.append_facts(created("t1"), revoked("theirs"), revoked(tenant="acme", handle="bob"), claimed("ann", "vision"))
    assert snapshot(load(dump(site.state)))["tokens"] == snapshot(site.state)["tokens"]
    assert load(dump(site.state)).tokens.outdated == site.state.tokens.outdated != {}
