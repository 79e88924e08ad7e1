"""Every fact has a line, its rule, and readers who may read it."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from headrace.contracts.documents.model import User
from headrace.contracts.facts import JobEndedV1, PreemptionOrderedV1, RefusalsCountedV1, UserAppliedV1, WishRefusedV1, fact_type
from headrace.contracts.facts.records import Record
from headrace.contracts.transport.codec import decode_record, encode
from headrace.domain.state.state import State
from headrace.views.audit_lines import TYPES, about, body, describe, jobs_in, lines_of, may_read
from headrace.views.visibility import ALL_TENANTS

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "facts").glob("*.json"))


def golden(path):
    return decode_record(path.read_bytes())


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_fact_is_told_in_one_line_without_what_is_sealed(path):
    record = golden(path)
    line = next(lines_of(record, 7, ALL_TENANTS, State()))
    assert line.text
    assert "\n" not in line.text
    assert (line.sequence, line.by, line.as_of, line.type) == (7, record.by, record.as_of, fact_type(type(record.facts[0])))
    assert not {"text", "digest"} & line.fact.keys()
    assert fact_type(type(record.facts[0])) in TYPES


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_stranger_reads_nothing_that_names_others(path):
    record = golden(path)
    for line in lines_of(record, 7, "stranger", State()):
        text = encode(line).decode()
        assert "alice" not in text
        assert "acme." not in text.replace("acme.example", "")


def test_decisions_name_their_rule():
    ruleless = {line.type for path in GOLDEN for line in lines_of(golden(path), 7, ALL_TENANTS, State()) if not line.rule}
    assert ruleless <= {
        "installation.level.v1",
        "account.numbered.v1",
        "membership.claimed.v1",
        "token.created.v1",
        "ledger.sealed.v1",
        "snapshot.taken.v1",
        "token.revoked.v1",
        "device.drained.v1",
        "device.returned.v1",
        "lease.overran.v1",
        "tenant.erased.v1",
        "node.removed.v1",
    }


def order():
    (fact,) = golden(next(path for path in GOLDEN if path.stem == "preemption.ordered.v1")).facts
    assert isinstance(fact, PreemptionOrderedV1)
    return fact


def test_an_order_is_read_by_both_sides_and_each_sees_itself_only():
    fact = order()
    preemptor, victim = (job.partition(".")[0] for job in (fact.job, fact.victims[0].job))
    assert jobs_in(fact) == (fact.job, *(each.job for each in fact.victims))
    for tenant in {preemptor, victim}:
        assert may_read(fact, tenant, State())
        assert [each["job"].partition(".")[0] for each in body(fact, tenant)["victims"]] == [tenant] * len(
            [each for each in fact.victims if each.job.startswith(f"{tenant}.")]
        )
        assert describe(fact, tenant)[1] == fact.rule
    assert not may_read(fact, "stranger", State())


def test_a_fact_is_about_its_job_its_node_or_its_object():
    found = {path.stem: about(golden(path).facts[0]) for path in GOLDEN}
    assert found["pool.applied.v1"] == "onprem"
    assert found["policy.deleted.v1"].count("/") == 1
    assert found["lease.granted.v1"].count(".") == 2
    assert found["node.lost.v1"]


def test_who_was_erased_is_told_under_the_name_in_the_place_of_theirs_and_what_is_sealed_by_no_name():
    state = State()
    state.tokens.erased["acme", "alice"] = "erased-1"
    user = User(tenant="acme", handle="alice", sealed="c2VhbGVk")
    facts = (
        UserAppliedV1(author="acme.alice", user=user),
        JobEndedV1(job=f"acme.alice.{'0' * 26}", attempt=0, state="cancelled", cause="cancelled"),
    )
    record = Record(by="governance", now=1, engine="x", as_of=0, facts=facts)
    applied, ended = lines_of(record, 1, ALL_TENANTS, state)
    assert (applied.about, applied.text) == ("acme/erased-1", "acme.erased-1 writes user acme/erased-1")
    assert applied.fact["user"] == {"tenant": "acme", "handle": "erased-1"}
    assert (ended.about, ended.fact["job"]) == (f"acme.erased-1.{'0' * 26}",) * 2


def test_a_submission_that_could_not_be_read_is_for_its_tenant_only():
    refused = WishRefusedV1(wish=7, subject="hr.submit.acme.alice.dev.two", reason="MALFORMED", message="it is no JSON")
    counted = RefusalsCountedV1(tenant="acme", user="alice", reason="MALFORMED", count=9)
    record = Record(by="admission", now=1, engine="x", as_of=0, facts=(refused, counted))
    found = list(lines_of(record, 1, "acme", State()))
    assert [(line.about, line.fact["reason"]) for line in found] == [("acme.alice", "MALFORMED")] * 2
    assert list(lines_of(record, 1, "umbrella", State())) == []
    nobodys = Record(by="admission", now=1, engine="x", as_of=0, facts=(structs.replace(refused, subject="hr.submit.ACME"),))
    assert list(lines_of(nobodys, 1, "acme", State())) == []
    assert [line.about for line in lines_of(nobodys, 1, ALL_TENANTS, State())] == [""]
