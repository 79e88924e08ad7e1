from __future__ import annotations

from typing import get_args

import pytest

from headrace.contracts.facts import AnyFact, NodeCordonedV1, NodeUncordonedV1, WishesJudgedV1, WishRefusedV1, upcasters
from headrace.contracts.facts.records import Record

RECORD = Record(
    by="governance",
    now=5,
    engine="0.1.0",
    as_of=4,
    prev="aa",
    cause="test",
    trace="t",
    facts=(NodeCordonedV1(author="a.b", node="n"),),
)


def test_a_record_of_current_facts_is_left_alone():
    assert upcasters.upcast(RECORD) is RECORD


def test_old_facts_are_made_current_step_by_step(monkeypatch: pytest.MonkeyPatch):
    steps = {
        NodeCordonedV1: lambda fact: NodeUncordonedV1(author=fact.author, node=fact.node),
        NodeUncordonedV1: lambda fact: WishesJudgedV1(through=len(fact.node)),
    }
    monkeypatch.setattr(upcasters, "UPCASTERS", steps)
    current = upcasters.upcast(RECORD)
    assert current == Record(
        by="governance", now=5, engine="0.1.0", as_of=4, prev="aa", cause="test", trace="t", facts=(WishesJudgedV1(through=1),)
    )


def test_no_upcaster_stands_for_a_fact_that_is_not_read_or_leads_in_a_circle():
    known = set(get_args(AnyFact))
    assert set(upcasters.UPCASTERS) <= known
    assert WishRefusedV1 in known
