"""`headrace user erase`."""

from __future__ import annotations

import pytest

from headrace.contracts.messages.queries import ApplyAnswer, Change, EraseRequest

ERASED = ApplyAnswer(
    changes=(Change(kind="user", name="acme/alice", action="delete", fields=("erased: shown as erased-1",)),), applied=True
)


@pytest.mark.parametrize(("words", "tenant"), [("alice", "default"), ("acme/alice", "acme"), ("alice --tenant acme", "acme")])
def test_a_person_is_erased_when_one_means_it(headrace, words, tenant):
    ran = headrace(f"user erase {words} --yes --reason asked", erase=ERASED)
    assert (ran.code, ran.out) == (0, f"alice of {tenant} is erased: shown as erased-1\n")
    assert ran.calls == [("erase", (EraseRequest(tenant=tenant, user="alice", reason="asked"),), {})]


def test_no_user_is_erased_by_accident(headrace):
    ran = headrace("user erase alice")
    assert (ran.code, ran.calls) == (1, [])
    assert "--yes is missing: who alice of default was" in ran.err
