"""The whole governed state, as one asker may know it."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Access, Pool, Profile, User
from headrace.contracts.messages.history import LeaseView, PastJob
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.views.replay import past_view
from headrace.views.visibility import ALL_TENANTS
from tests.unit.domain.fold.array_history import KEY, history
from tests.unit.feed.conftest import AUTHOR, START


@pytest.fixture
def busy(hall):
    """Acme holds one GPU and waits for another, rival waits as well."""
    for number in (1, 2):
        hall.admit(hall.job(number))
    hall.admit(hall.job(3, "rival", "mallory"))
    hall.admit(hall.job(4))
    hall.grant(hall.job(1), ("gpu01", "g2"))
    hall.start(hall.job(1))
    hall.grant(hall.job(4), ("gpu01", "g3"))
    hall.end(hall.job(4))
    hall.finish(hall.job(4))
    return hall


def test_it_says_who_held_what_who_waited_and_why(busy):
    view = past_view(busy.state, "acme", 99, 0)
    held, waited = view.jobs
    assert held == PastJob(
        job=busy.job(1),
        name="",
        queue="dev/one",
        state="running",
        since=START,
        attempt=1,
        request={GPU: GPU_UNITS},
        leases=(
            LeaseView(
                rank=0, node="gpu01", pool="hall", devices=("g2",), amounts={GPU: GPU_UNITS}, granted_at=START, started_at=START
            ),
        ),
    )
    assert (waited.job, waited.state, waited.reason, waited.leases) == (busy.job(2), "pending", "BEHIND_HIGHER_RANK", ())
    assert waited.message
    assert (view.sequence, view.now, view.tip, view.next) == (busy.state.sequence, START, 99, "")
    assert view.counts == {"pending": 1, "running": 1, "succeeded": 1}
    assert [(node.name, node.gpu_free, node.leases) for node in view.nodes] == [("gpu01", 3 * GPU_UNITS, 1)]
    assert [queue.name for queue in view.queues] == ["dev/one", "dev/pair"]


def test_a_tenant_sees_its_own_documents_and_jobs_and_the_provider_those_of_all(busy):
    closed = Pool(name="closed", selector={"site": "x"}, access=Access(allow=("rival",)))
    busy.append_facts(
        "governance",
        f.PoolAppliedV1(author=AUTHOR, pool=closed),
        f.UserAppliedV1(author=AUTHOR, user=User(tenant="rival", handle="mallory")),
        f.ProfileAppliedV1(author=AUTHOR, profile=Profile(name="own", tenant="rival", request={GPU: 1}, pools=("hall",))),
    )
    shared = [("pool", "hall"), ("profile", "one"), ("profile", "pair")]
    seen = {who: past_view(busy.state, who, 99, 0) for who in ("acme", "rival", ALL_TENANTS)}
    names = {who: [(one.kind, one.name) for one in view.documents] for who, view in seen.items()}
    assert names["acme"] == [("tenant", "acme"), ("group", "acme/dev"), *shared, ("policy", "acme/dev")]
    assert names["rival"] == [
        ("tenant", "rival"),
        ("user", "rival/mallory"),
        ("pool", "closed"),
        *shared,
        ("profile", "rival/own"),
        ("policy", "rival/dev"),
    ]
    assert set(names[ALL_TENANTS]) == set(names["acme"]) | set(names["rival"])
    assert [job.job for job in seen["rival"].jobs] == [busy.job(3, "rival", "mallory")]
    assert len(seen[ALL_TENANTS].jobs) == 3


def test_jobs_come_a_page_at_a_time_and_everything_else_on_the_first(busy):
    first = past_view(busy.state, ALL_TENANTS, 99, 0, limit=2)
    second = past_view(busy.state, ALL_TENANTS, 99, 0, first.next, limit=2)
    assert [job.job for job in (*first.jobs, *second.jobs)] == sorted(
        (busy.job(1), busy.job(2), busy.job(3, "rival", "mallory"))
    )
    assert (first.next, second.next) == (busy.job(2), "")
    assert (bool(first.documents), second.documents, second.nodes, second.counts) == (True, (), (), {})


def test_a_document_says_whether_it_is_closed_and_by_which_record_it_stands(busy):
    busy.append_facts("governance", f.ObjectClosedV1(author=AUTHOR, kind="policy", tenant="acme", name="dev", mode="freeze"))
    (policy,) = (one for one in past_view(busy.state, "acme", 99, 0).documents if one.kind == "policy")
    assert (policy.revision, policy.closed, policy.document["reservation"]) == (1, "freeze", {"gpu": "2"})


def test_elements_of_arrays_count_as_jobs_also_those_that_have_no_record():
    past = history(count=3)
    past.allocate()
    past.append_facts(f.JobCancelRequestedV1(job=KEY, by="default.ann", elements=((8, 9),)), by="admission")
    past.allocate()
    assert past_view(past.state, "default", 1, 0).counts == {"cancelled": 2, "pending": 5, "running": 3}
