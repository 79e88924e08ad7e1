"""Who people are does not stand in the ledger, and is gone with their key."""

from __future__ import annotations

import pytest

from headrace.bus.text_encryption import Keyring
from headrace.contracts.documents.model import Tenant, User
from headrace.contracts.facts import TenantAppliedV1, UserAppliedV1
from headrace.contracts.facts.records import Record
from headrace.contracts.transport.codec import encode
from headrace.domain.state.state import GovernanceObject, State
from headrace.identity.pii import PersonalData

ALICE = User(tenant="acme", handle="alice", subject="oidc|7", email="alice@acme.example")
PLAIN = User(tenant="acme", handle="bob")


@pytest.fixture
def keys(tmp_path):
    return Keyring(tmp_path)


@pytest.fixture
def people(keys):
    return PersonalData(keys)


def test_what_a_document_says_of_a_person_is_sealed_when_it_is_stated(people):
    facts = (
        UserAppliedV1(author="a.b", user=ALICE),
        TenantAppliedV1(author="a.b", tenant=Tenant(name="acme")),
        UserAppliedV1(author="a.b", user=PLAIN),
    )
    sealed = people.sealed(facts)
    assert b"oidc" not in encode(sealed)
    assert b"example" not in encode(sealed)
    assert (sealed[0].user.handle, sealed[1:]) == ("alice", facts[1:])
    assert people.opened(sealed[0].user) == ALICE


def test_who_was_erased_is_a_handle_and_nothing_more(people, keys):
    sealed = people.seal(ALICE)
    keys.destroy("acme.alice")
    assert people.opened(sealed) == User(tenant="acme", handle="alice")
    assert people.opened(people.seal(ALICE)) == ALICE


def test_no_sealed_text_opens_for_another_job(people):
    sealed = people.seal(ALICE)
    stolen = User(tenant="acme", handle="mallory", sealed=sealed.sealed)
    assert people.opened(stolen) == User(tenant="acme", handle="mallory")


def test_a_fold_that_has_to_know_them_does(people):
    state = State()
    sealed = people.seal(ALICE)
    state.users["acme", "alice"] = GovernanceObject(sealed, 7)
    state.users["acme", "bob"] = GovernanceObject(PLAIN, 8)
    listener = people.listener(state)
    fields = {"by": "governance", "now": 1, "engine": "x", "as_of": 0}
    listener(Record(**fields, facts=(TenantAppliedV1(author="a.b", tenant=Tenant(name="acme")),)), 7)
    assert state.users["acme", "alice"].document == sealed
    listener(Record(**fields, facts=(UserAppliedV1(author="a.b", user=sealed),)), 7)
    written = state.users["acme", "alice"]
    assert (written.document, written.revision, state.users["acme", "bob"].document) == (ALICE, 7, PLAIN)
