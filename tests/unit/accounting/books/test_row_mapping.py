from __future__ import annotations

import pytest

from headrace.accounting.books.row_mapping import about
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group, Pool, Profile, Tenant, User
from headrace.contracts.facts import Fact

AUTHOR = {"author": "a.b"}


@pytest.mark.parametrize(
    ("fact", "name"),
    [
        (f.JobEndedV1(job="acme.alice.x", attempt=1, state="failed", cause="exited"), "acme.alice.x"),
        (f.NodeLostV1(node="n1", silent_for=1), "n1"),
        (f.LeaseOverdueV1(job="acme.alice.x", attempt=1, node="n1"), "acme.alice.x"),
        (f.TenantAppliedV1(tenant=Tenant(name="acme"), **AUTHOR), "acme"),
        (f.TenantDeletedV1(name="acme", **AUTHOR), "acme"),
        (f.UserAppliedV1(user=User(tenant="acme", handle="alice"), **AUTHOR), "acme/alice"),
        (f.UserDeletedV1(tenant="acme", handle="alice", **AUTHOR), "acme/alice"),
        (f.GroupAppliedV1(group=Group(tenant="acme", name="g"), **AUTHOR), "acme/g"),
        (f.PoolAppliedV1(pool=Pool(name="hq", selector={}), **AUTHOR), "hq"),
        (f.ProfileAppliedV1(profile=Profile(name="half", request={}, pools=()), **AUTHOR), "half"),
        (f.ProfileDeletedV1(name="half", **AUTHOR), "half"),
        (f.PolicyDeletedV1(tenant="acme", name="p", **AUTHOR), "acme/p"),
        (f.RefusalsCountedV1(tenant="acme", user="alice", reason="TOO_FAST", count=3), "acme.alice"),
        (f.WishRefusedV1(wish=1, subject="hr.cancel.acme.alice.x", reason="MALFORMED", message="no"), "acme.alice"),
        (f.WishRefusedV1(wish=1, subject="hr.submit.acme", reason="MALFORMED", message="no"), ""),
        (f.TokenCreatedV1(token="t", role="user", tenant="acme", handle="alice", expires_at=1, **AUTHOR), "acme/alice"),
        (f.WishesJudgedV1(through=3), ""),
        (f.MixLearnedV1(pool="hq", requests=()), "hq"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Fact) else str(value),
)
def test_a_fact_is_about_its_job_or_node_or_document(fact: Fact, name: str) -> None:
    assert about(fact) == name


def test_what_a_fact_is_about_fits_into_the_database() -> None:
    assert about(f.NodeLostV1(node="n\0", silent_for=1)) == "n\ufffd"
    assert about(f.LeaseStartedV1(job="j" * 5_000, attempt=1, at=0)) == "j" * 200
