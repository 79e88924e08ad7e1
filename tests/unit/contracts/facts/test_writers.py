from __future__ import annotations

from collections import Counter
from typing import get_args

from headrace.contracts.facts import AnyFact, LeaseEndedV1, LeaseGrantedV1, LeaseRevokedV1, PreemptionOrderedV1
from headrace.contracts.facts.writers import NODE, SERVICES, WRITER_RULES, may_state, writer_kind


def test_every_fact_has_exactly_one_law_and_so_exactly_one_writer():
    assert Counter(rule.fact for rule in WRITER_RULES) == Counter(get_args(AnyFact))


def test_every_law_names_a_writer_there_is():
    assert {rule.writer for rule in WRITER_RULES} == {*SERVICES, NODE}


def test_every_law_says_about_what_and_in_which_state():
    assert all(rule.about and rule.states for rule in WRITER_RULES)


def test_nodes_are_one_kind_of_writer():
    assert (writer_kind("node.gpu01"), writer_kind("allocator"), writer_kind("node")) == ("node", "allocator", "node")


def test_only_the_allocator_grants_revokes_and_accepts_a_plan():
    for fact in (LeaseGrantedV1, LeaseRevokedV1, PreemptionOrderedV1):
        allowed = [by for by in (*SERVICES, "node.gpu01", "feed", "accounting", "") if may_state(by, fact)]
        assert allowed == ["allocator"]


def test_a_node_may_speak_of_what_became_of_its_leases_and_no_service_may():
    assert may_state("node.gpu01", LeaseEndedV1)
    assert not any(may_state(by, LeaseEndedV1) for by in SERVICES)
