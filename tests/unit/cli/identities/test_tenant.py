"""`headrace tenant erase`."""

from __future__ import annotations

from headrace.contracts.messages.queries import ApplyAnswer, EraseRequest


def test_a_tenants_texts_are_erased_when_one_means_it(headrace):
    ran = headrace("tenant erase acme --yes --reason over", erase=ApplyAnswer(changes=(), applied=True))
    assert (ran.code, ran.out) == (0, "the texts of acme are erased\n")
    assert ran.calls == [("erase", (EraseRequest(tenant="acme", reason="over"),), {})]


def test_nothing_is_erased_by_accident(headrace):
    ran = headrace("tenant erase acme")
    assert (ran.code, ran.calls) == (1, [])
    assert "--yes is missing" in ran.err
