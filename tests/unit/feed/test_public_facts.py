"""What outsiders hear."""

from __future__ import annotations

import json
from itertools import count
from typing import get_args

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Access, Group, Owner, Pool, Profile, Tenant, User
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.facts.fact import DeviceShare, Ladder, Place, fact_type
from headrace.contracts.facts.nodes import Device
from headrace.contracts.facts.preemption import Victim
from headrace.contracts.facts.records import Record
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.feed.outgoing_message import FeedPosition as FeedPlace
from headrace.feed.outgoing_message import started
from headrace.feed.public_facts import HIDDEN, OF_A_JOB, OF_OTHERS, Projector
from headrace.feed.queue_heads import QueueHead

MINE = "acme.alice.01k00000000000000000000001"
ULID = "01k00000000000000000000001"
RIVALS = "rival.mallory.01k00000000000000000000002"
LEASE = {"job": MINE, "attempt": 1}
PLAN = {"preemption": f"{MINE}@7", "job": MINE, "pool": "hall"}


@pytest.fixture
def published(hall):
    """`published(fact, …)`: subject (without `hr.feed.`) to body without type, time and place, one record each, at time 77."""
    projector, sequences = Projector(hall.state), count(9)

    def published(*facts):
        sequence = next(sequences)
        record = Record(by="x", now=77, engine="test", as_of=0, facts=facts)
        bodies = {}
        for number, message in enumerate(projector.messages(record, sequence), 1):
            body = json.loads(message.payload)
            assert (body.pop("at"), body.pop("sequence"), body.pop("number")) == (77, sequence, number)
            assert body.pop("type") in {fact_type(type(fact)) for fact in facts}
            bodies[message.subject.removeprefix("hr.feed.")] = body
        return bodies

    published.projector = projector
    return published


def test_every_fact_is_either_told_or_hidden_on_purpose():
    tables = [*OF_A_JOB, *OF_OTHERS, *HIDDEN]
    assert sorted(kind.__name__ for kind in tables) == sorted(kind.__name__ for kind in get_args(f.AnyFact))


def test_every_public_field_is_a_field_of_its_fact():
    assert {kind: set(shown.fields) - set(kind.__struct_fields__) for kind, shown in OF_A_JOB.items()} == {
        kind: set() for kind in OF_A_JOB
    }


@pytest.mark.parametrize(
    ("fact", "subject", "public"),
    [
        (
            f.LeaseOverranV1(job=MINE, attempt=1, device="g0", limit=10, used=12, at=5),
            f"acme.lease.overran.{ULID}",
            {**LEASE, "rank": 0, "device": "g0", "limit": 10, "used": 12, "at_node": 5},
        ),
        (
            f.JobAdmittedV1(
                job=MINE,
                policy="dev",
                profile="one",
                request={"gpu": GPU_UNITS},
                after=(Dependency(job=MINE),),
                name="train",
                digest="secret",
                text="secret",
                trace="secret",
            ),
            f"acme.job.admitted.{ULID}",
            {
                "job": MINE,
                "policy": "dev",
                "profile": "one",
                "request": {"gpu": GPU_UNITS},
                "mig": "",
                "replicas": 1,
                "preemptible": True,
                "priority": 0,
                "max_retries": 0,
                "time_limit": None,
                "array": None,
                "gpu_memory": 0,
                "shares": [],
                "by_model": False,
                "after": [{"job": MINE}],
                "name": "train",
                "labels": {},
            },
        ),
        (
            f.JobRejectedV1(job=MINE, policy="dev", profile="one", reason="TOO_FAST", message="slow down", digest="secret"),
            f"acme.job.rejected.{ULID}",
            {
                "job": MINE,
                "policy": "dev",
                "profile": "one",
                "reason": "TOO_FAST",
                "message": "slow down",
                "name": "",
                "retry_after": None,
            },
        ),
        (
            f.JobCancelRequestedV1(job=MINE, by="acme.bob"),
            f"acme.job.cancel-requested.{ULID}",
            {"job": MINE, "by": "acme.bob", "reason": "", "elements": []},
        ),
        (
            f.JobRequeueRequestedV1(job=MINE, attempt=1, by="acme.bob"),
            f"acme.job.requeue-requested.{ULID}",
            {"job": MINE, "attempt": 1, "by": "acme.bob", "reason": "", "elements": []},
        ),
        (
            f.JobRequeuedV1(job=MINE, attempt=1, cause="preempted", min_runtime=5),
            f"acme.job.requeued.{ULID}",
            {
                "job": MINE,
                "attempt": 1,
                "cause": "preempted",
                "min_runtime": 5,
                "not_before": 0,
                "avoid": [],
                "avoid_until": 0,
                "may_overlap": False,
                "last": False,
            },
        ),
        (
            f.JobEndedV1(job=MINE, attempt=1, state="succeeded", cause="exited", exit_code=0),
            f"acme.job.ended.{ULID}",
            {"job": MINE, "attempt": 1, "state": "succeeded", "cause": "exited", "exit_code": 0, "elements": []},
        ),
        (
            f.JobDismissedV1(job=MINE, reason="QUEUE_DELETED", message="gone"),
            f"acme.job.dismissed.{ULID}",
            {"job": MINE, "reason": "QUEUE_DELETED", "message": "gone"},
        ),
        (
            f.CheckpointRegisteredV1(job=MINE, attempt=1, uri="/ckpt", step=3, at=5),
            f"acme.job.checkpointed.{ULID}",
            {"job": MINE, "attempt": 1, "uri": "/ckpt", "step": 3, "at_node": 5},
        ),
        (
            f.LeaseGrantedV1(**LEASE, node="n", pool="hall", devices=(DeviceShare(device="g0", units=1),), amounts={"gpu": 1}),
            f"acme.lease.granted.{ULID}",
            {
                "job": MINE,
                "attempt": 1,
                "rank": 0,
                "node": "n",
                "pool": "hall",
                "devices": [{"device": "g0", "units": 1}],
                "amounts": {"gpu": 1},
                "inside": False,
                "resume_from": "",
                "rule": "R15",
                "over_budget": False,
            },
        ),
        (
            f.LeaseRevokedV1(**LEASE, cause="node_lost"),
            f"acme.lease.revoked.{ULID}",
            {**LEASE, "rank": 0, "cause": "node_lost"},
        ),
        (f.LeaseOverdueV1(**LEASE, node="n"), f"acme.lease.overdue.{ULID}", {**LEASE, "rank": 0, "node": "n"}),
        (
            f.LeaseStartedV1(**LEASE, at=5),
            f"acme.lease.started.{ULID}",
            {**LEASE, "rank": 0, "isolation": "watchdog", "at_node": 5},
        ),
        (
            f.LeaseRungV1(**LEASE, rung="told", at=5, took=1, result="ok"),
            f"acme.lease.rung.{ULID}",
            {**LEASE, "rank": 0, "rung": "told", "took": 1, "result": "ok", "at_node": 5},
        ),
        (
            f.LeaseEndedV1(**LEASE, outcome="exited", exit_code=1, exited_at=4, at=5),
            f"acme.lease.ended.{ULID}",
            {
                **LEASE,
                "rank": 0,
                "outcome": "exited",
                "exit_code": 1,
                "finished": False,
                "stopping": False,
                "message": "",
                "exited_at": 4,
                "at_node": 5,
            },
        ),
        (
            f.ReclaimOpenedV1(job=MINE, pool="hall", cause="reclaim"),
            f"acme.reclaim.opened.{ULID}",
            {"job": MINE, "pool": "hall", "cause": "reclaim"},
        ),
        (
            f.PreemptionNoneV1(**PLAN, why=f"{RIVALS} is protected", protected=3, retry_at=8),
            f"acme.preemption.none.{ULID}",
            {**PLAN, "why": "a job of another tenant is protected", "retry_at": 8},
        ),
        (
            f.PreemptionDismissedV1(**PLAN, why="not needed"),
            f"acme.preemption.dismissed.{ULID}",
            {**PLAN, "why": "not needed"},
        ),
        (
            f.MoveOrderedV1(job=MINE, attempt=1, pool="hall", places=()),
            f"acme.job.moving.{ULID}",
            {"job": MINE, "attempt": 1, "pool": "hall", "places": [], "rule": "R29"},
        ),
        (
            f.NominationEndedV1(preemption=f"{MINE}@7", job=MINE, why="too late"),
            f"acme.nomination.ended.{ULID}",
            {"preemption": f"{MINE}@7", "job": MINE, "why": "too late"},
        ),
        (
            f.WishRefusedV1(wish=3, subject="hr.submit.acme.alice.dev.one", reason="MALFORMED", message="no JSON"),
            "acme.wish.refused.alice",
            {
                "wish": 3,
                "user": "alice",
                "subject": "hr.submit.acme.alice.dev.one",
                "reason": "MALFORMED",
                "message": "no JSON",
            },
        ),
        (
            f.WishRefusedV1(wish=3, subject=f"hr.cancel.acme.alice.{ULID}", reason="NOT_ALLOWED", message="no such job"),
            "acme.wish.refused.alice",
            {
                "wish": 3,
                "user": "alice",
                "subject": f"hr.cancel.acme.alice.{ULID}",
                "reason": "NOT_ALLOWED",
                "message": "no such job",
            },
        ),
        (
            f.WishRefusedV1(wish=4, subject=f"hr.requeue.acme.alice.{ULID}", reason="NOT_ALLOWED", message="it waits"),
            "acme.wish.refused.alice",
            {
                "wish": 4,
                "user": "alice",
                "subject": f"hr.requeue.acme.alice.{ULID}",
                "reason": "NOT_ALLOWED",
                "message": "it waits",
            },
        ),
        (
            f.RefusalsCountedV1(tenant="acme", user="alice", reason="TOO_FAST", count=40),
            "acme.refusals.counted.alice",
            {"user": "alice", "reason": "TOO_FAST", "count": 40},
        ),
    ],
)
def test_a_fact_about_a_job_is_heard_by_its_tenant_only(published, fact, subject, public):
    assert published(fact) == {subject: public}


@pytest.mark.parametrize(
    "fact",
    [
        f.WishesJudgedV1(through=3),
        f.AccountNumberedV1(tenant="acme", user="alice", number=0x70000000),
        f.MixLearnedV1(pool="hq", requests=()),
        f.TokenCreatedV1(author="acme.root", token="t", role="user", tenant="acme", handle="alice", expires_at=1),
        f.MembershipClaimedV1(tenant="acme", handle="alice", groups=("dev",), issued_at=1, until=2),
        f.TokenRevokedV1(author="acme.root", token="t"),
        f.TenantErasedV1(author="acme.root", tenant="acme"),
        f.UserErasedV1(author="acme.root", tenant="acme", handle="alice", pseudonym="erased-1"),
        f.PreemptionProposedV1(**PLAN, cause="reclaim", victims=(), places=(), rule="R26"),
        f.WishRefusedV1(wish=3, subject="hr.submit.acme", reason="MALFORMED", message="no subject"),
        f.NodeLostV1(node="gpu99", silent_for=60),
        f.PoolDeletedV1(author="acme.alice", name="unheard-of"),
    ],
)
def test_what_does_not_concern_the_reader_is_not_told(published, fact):
    assert published(fact) == {}


def test_who_was_erased_is_heard_of_under_the_name_in_the_place_of_theirs(hall, published):
    hall.state.tokens.erased["acme", "alice"] = "erased-1"
    submission = f.WishRefusedV1(wish=3, subject="hr.submit.acme.alice.dev.two", reason="MALFORMED", message="no JSON")
    ended = f.JobEndedV1(job=MINE, attempt=1, state="cancelled", cause="cancelled")
    assert published(submission, ended, stop("preempted", MINE)) == {
        "acme.wish.refused.erased-1": {
            "wish": 3,
            "user": "erased-1",
            "subject": "hr.submit.acme.erased-1.dev.two",
            "reason": "MALFORMED",
            "message": "no JSON",
        },
        f"acme.job.ended.{ULID}": {
            "job": f"acme.erased-1.{ULID}",
            "attempt": 1,
            "state": "cancelled",
            "cause": "cancelled",
            "exit_code": None,
            "elements": [],
        },
        f"acme.job.preempting.{ULID}": {
            "job": f"acme.erased-1.{ULID}",
            "attempt": 1,
            "cause": "preempted",
            "then": "requeue",
            "callback_grace": 60,
            "term_grace": 30,
            "preemptor": f"acme.erased-1.{ULID}",
        },
    }


def stop(cause, preemptor=""):
    ladder = Ladder(cause=cause, callback_grace=60, term_grace=30, then="requeue", preemptor=preemptor)
    return f.StopOrderedV1(job=MINE, attempt=1, ladder=ladder)


@pytest.mark.parametrize(
    ("fact", "verb", "preemptor"),
    [
        (stop("preempted", "acme.bob.01k00000000000000000000003"), "preempting", "acme.bob.01k00000000000000000000003"),
        (stop("preempted", RIVALS), "preempting", ""),
        (stop("cancelled"), "stopping", ""),
    ],
)
def test_a_stop_is_heard_by_its_cause_and_names_no_other_tenants_job(published, fact, verb, preemptor):
    assert published(fact) == {
        f"acme.job.{verb}.{ULID}": {
            "job": MINE,
            "attempt": 1,
            "cause": fact.ladder.cause,
            "then": "requeue",
            "callback_grace": 60,
            "term_grace": 30,
            "preemptor": preemptor,
        }
    }


def ordered(*victims):
    return f.PreemptionOrderedV1(
        **PLAN,
        cause="reclaim",
        victims=tuple(Victim(job=victim, attempt=1, policy="dev", lost=4) for victim in victims),
        places=(Place(node="gpu01", amounts={"gpu": 1}),),
        rule="R26",
    )


SETTLED = f.PreemptionSettledV1(preemption=f"{MINE}@7", job=MINE, victims=2, lost=4, to_signal=1, grace=2, to_release=3)
BOBS = "acme.bob.01k00000000000000000000003"


def test_a_preemption_across_tenants_is_two_messages_each_without_the_other(hall, published):
    hall.admit(RIVALS)
    own = {"job": BOBS, "attempt": 1, "policy": "dev", "lost": 4}
    theirs = {"job": RIVALS, "attempt": 1, "policy": "dev", "lost": 4}
    shared = {"pool": "hall", "cause": "reclaim", "rule": "R26"}
    assert published(ordered(BOBS, RIVALS)) == {
        f"acme.preemption.ordered.{ULID}": {
            **shared,
            "preemption": f"{MINE}@7",
            "job": MINE,
            "places": [{"node": "gpu01", "amounts": {"gpu": 1}}],
            "victims": [own],
            "others": {"gpu": GPU_UNITS},
        },
        "rival.preemption.ordered.01k00000000000000000000002": {**shared, "victims": [theirs]},
    }
    assert published(SETTLED) == {
        f"acme.preemption.settled.{ULID}": {
            "preemption": f"{MINE}@7",
            "job": MINE,
            "to_signal": 1,
            "grace": 2,
            "to_release": 3,
        }
    }


def test_a_preemption_inside_a_tenant_is_told_whole(published):
    facts = published(ordered(BOBS))
    assert list(facts) == [f"acme.preemption.ordered.{ULID}"]
    assert facts[f"acme.preemption.ordered.{ULID}"]["others"] == {}
    settled = published(SETTLED)[f"acme.preemption.settled.{ULID}"]
    assert (settled["victims"], settled["lost"]) == (2, 4)


def test_a_feed_that_skipped_the_order_still_knows_that_it_went_across_tenants(hall, published):
    published.projector.skip(Record(by="x", now=1, engine="test", as_of=0, facts=(ordered(RIVALS),)))
    assert "victims" not in published(SETTLED)[f"acme.preemption.settled.{ULID}"]
    assert "victims" in published(SETTLED)[f"acme.preemption.settled.{ULID}"]


def test_documents_of_a_tenant_are_heard_by_it_with_the_author_where_that_is_its_own(published):
    own = {"author": "acme.alice", "reason": "review"}
    provider = {"author": "default.root", "reason": "secret"}
    tenant, group = Tenant(name="acme"), Group(tenant="acme", name="dev", members=("alice",))
    user = User(tenant="acme", handle="alice", email="alice@acme.example")
    assert published(f.TenantAppliedV1(**own, tenant=tenant)) == {
        "acme.tenant.applied.acme": {"tenant": {"name": "acme"}, **own}
    }
    assert published(f.TenantAppliedV1(**provider, tenant=tenant)) == {"acme.tenant.applied.acme": {"tenant": {"name": "acme"}}}
    assert published(f.TenantDeletedV1(**own, name="acme")) == {"acme.tenant.deleted.acme": {"tenant": "acme", **own}}
    assert published(f.UserAppliedV1(**own, user=user)) == {"acme.user.applied.alice": {"user": "alice", **own}}
    assert published(f.UserDeletedV1(**own, tenant="acme", handle="alice")) == {
        "acme.user.deleted.alice": {"user": "alice", **own}
    }
    shown = {"tenant": "acme", "name": "dev", "members": ["alice"]}
    assert published(f.GroupAppliedV1(**own, group=group)) == {"acme.group.applied.dev": {"group": shown, **own}}
    assert published(f.GroupDeletedV1(**own, tenant="acme", name="dev")) == {"acme.group.deleted.dev": {"group": "dev", **own}}


def test_policies_are_heard_by_their_tenant(published, policy_of):
    facts = published(f.PolicyAppliedV1(author="a.b", policy=policy_of("acme")))
    assert facts == {
        "acme.policy.applied.dev": {
            "policy": {
                "tenant": "acme",
                "name": "dev",
                "group": "dev",
                "profiles": [{"name": "one"}, {"name": "pair"}],
                "reservation": {"gpu": 2 * GPU_UNITS},
            }
        }
    }
    assert published(f.PolicyDeletedV1(author="a.b", tenant="acme", name="dev")) == {
        "acme.policy.deleted.dev": {"policy": "dev"}
    }


def test_profiles_are_heard_by_all_or_by_their_tenant(published):
    everybodys = Profile(name="one", request={"gpu": 1}, pools=("hall",), policy_order=("rival/dev", "acme/dev"))
    shown = {"name": "one", "request": {"gpu": 1}, "pools": ["hall"]}
    assert published(f.ProfileAppliedV1(author="a.b", profile=everybodys)) == {
        "acme.profile.applied.one": {"profile": {**shown, "policy_order": ["dev"]}},
        "default.profile.applied.one": {"profile": {**shown, "policy_order": []}},
        "rival.profile.applied.one": {"profile": {**shown, "policy_order": ["dev"]}},
    }
    own = Profile(tenant="acme", name="mine", request={"gpu": 1}, pools=("hall",))
    assert list(published(f.ProfileAppliedV1(author="a.b", profile=own))) == ["acme.profile.applied.mine"]
    assert published(f.ProfileDeletedV1(author="a.b", tenant="acme", name="mine")) == {
        "acme.profile.deleted.mine": {"profile": "mine"}
    }
    assert len(published(f.ProfileDeletedV1(author="a.b", name="one"))) == 3


def test_pools_are_heard_by_those_who_see_them_also_of_their_end(published):
    pool = Pool(name="lab", selector={}, access=Access(allow=("acme", "rival")), dedicated_to=Owner(tenant="acme"))
    shown = {"name": "lab", "selector": {}, "profile_order": [], "dedicated": [], "dedicated_to": {"tenant": "acme"}}
    own = {"author": "acme.alice", "reason": ""}
    assert published(f.PoolAppliedV1(author="acme.alice", pool=pool)) == {"acme.pool.applied.lab": {"pool": shown, **own}}
    assert published(f.PoolDeletedV1(author="a.b", name="lab")) == {"acme.pool.deleted.lab": {"pool": "lab"}}
    assert published(f.PoolDeletedV1(author="a.b", name="lab")) == {}


def test_nodes_are_heard_by_those_who_see_their_pool_without_the_leases_on_them(hall, published):
    hall.append_facts(
        "governance",
        f.PoolAppliedV1(
            author="a.b", pool=Pool(name="hall", selector={"site": "hq"}, access=Access(deny=("rival", "default")))
        ),
    )
    device = Device(device="g0", model="H100-80GB", memory=1)
    registered = f.NodeRegisteredV1(node="gpu01", devices=(device,), cpu=1, memory=2, holding=(f"{RIVALS}/1/0",), at=5)
    assert published(registered) == {
        "acme.node.registered.gpu01": {
            "node": "gpu01",
            "labels": {},
            "devices": [{"device": "g0", "model": "H100-80GB", "memory": 1}],
            "cpu": 1,
            "memory": 2,
            "executor": "",
            "isolation": "watchdog",
            "levels": {},
            "at_node": 5,
        }
    }
    drained = f.DeviceDrainedV1(node="gpu01", device="g0", cause="xid", code=79, message="off the bus", at=5)
    assert published(drained) == {
        "acme.node.device-drained.gpu01": {
            "node": "gpu01",
            "device": "g0",
            "cause": "xid",
            "code": 79,
            "message": "off the bus",
            "at_node": 5,
        }
    }
    returned = {"node": "gpu01", "device": "g0", "message": "in order"}
    assert published(f.DeviceReturnedV1(**returned, at=5)) == {"acme.node.device-returned.gpu01": {**returned, "at_node": 5}}
    assert published(f.NodeStoppedV1(node="gpu01", at=5)) == {"acme.node.stopped.gpu01": {"node": "gpu01", "at_node": 5}}
    assert published(f.NodeLostV1(node="gpu01", silent_for=60)) == {"acme.node.lost.gpu01": {"node": "gpu01", "silent_for": 60}}
    own = {"author": "acme.alice", "reason": "dust"}
    assert published(f.NodeCordonedV1(**own, node="gpu01")) == {"acme.node.cordoned.gpu01": {"node": "gpu01", **own}}
    assert published(f.NodeUncordonedV1(author="a.b", node="gpu01")) == {"acme.node.uncordoned.gpu01": {"node": "gpu01"}}


def test_a_job_that_runs_is_told_behind_the_facts_that_made_it_run(hall):
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    record = Record(by="x", now=77, engine="test", as_of=0, facts=(f.LeaseStartedV1(job=job, attempt=1, at=5),))
    lease, began = Projector(hall.state).messages(record, 9, [started(hall.state.jobs[job])])
    assert lease[:2] == (9, 1)
    assert began[:3] == (9, 2, f"hr.feed.acme.job.started.{job[-26:]}")
    assert json.loads(began.payload) == {
        "type": "job.started.feed",
        "at": 77,
        "sequence": 9,
        "number": 2,
        "job": job,
        "attempt": 1,
        "nodes": ["gpu01"],
        "pool": "hall",
    }


def test_heads_of_queues_are_numbered_behind_the_last_record(hall):
    projector = Projector(hall.state)
    record = Record(by="x", now=77, engine="test", as_of=0, facts=(f.NodeStoppedV1(node="gpu01", at=5),))
    assert [message.number for message in projector.messages(record, hall.state.sequence)] == [1, 2, 3]
    message = projector.head(("acme", "dev", "one"), QueueHead(MINE, "AT_POLICY_LIMIT", "full"), 80)
    assert message[:3] == (2, 4, "hr.feed.acme.queue.head.dev")
    assert json.loads(message.payload) == {
        "type": "queue.head.feed",
        "at": 80,
        "sequence": 2,
        "number": 4,
        "queue": "dev/one",
        "job": MINE,
        "reason": "AT_POLICY_LIMIT",
        "message": "full",
    }


def test_a_restarted_feed_numbers_behind_what_feed_has(hall):
    projector = Projector(hall.state)
    projector.resume(FeedPlace(2, 7))
    projector.resume(FeedPlace(2, 5))
    assert projector.head(("acme", "dev", "one"), QueueHead(), 80)[:2] == (2, 8)


def test_what_is_closed_is_heard_by_its_owner_or_by_all(published):
    closing = {"author": "acme.root", "reason": "", "mode": "drain"}
    close = f.ObjectClosedV1(author="acme.root", kind="policy", tenant="acme", name="dev", mode="drain")
    assert published(close) == {"acme.policy.closed.dev": {"policy": "dev", **closing}}
    close = f.ObjectClosedV1(author="acme.root", kind="tenant", name="acme", mode="drain")
    assert published(close) == {"acme.tenant.closed.acme": {"tenant": "acme", **closing}}
    close = f.ObjectClosedV1(author="a.b", kind="profile", name="one", mode="freeze")
    frozen = {"profile": "one", "mode": "freeze"}
    assert published(close) == {f"{tenant}.profile.closed.one": frozen for tenant in ("acme", "default", "rival")}


def test_what_windows_and_budgets_say_is_heard_by_the_policys_tenant_and_clocks_are_not(published):
    gated = f.PolicyGatedV1(tenant="acme", policy="dev", spent=("gpu per day",))
    gate = {"policy": "dev", "shut": False, "stops": False, "spent": ["gpu per day"]}
    assert published(gated) == {"acme.policy.gated.dev": gate}
    assert published(f.CalendarStatedV1(zone="Europe/Berlin", offsets=((0, 3_600),), until=1)) == {}


def test_growth_is_heard_by_who_sees_the_pool_and_not_for_whom_it_is(published):
    published(f.PoolAppliedV1(author="a.b", pool=Pool(name="hall", selector={}, access=Access(allow=("acme",)))))
    asked = f.GrowthRequestedV1(pool="hall", nodes=2, jobs=(MINE,))
    assert published(asked) == {"acme.growth.requested.hall": {"pool": "hall", "nodes": 2}}
    ended = f.GrowthEndedV1(pool="hall", outcome="late", nodes=1, closed_until=7)
    assert published(ended)["acme.growth.ended.hall"] == {"pool": "hall", "nodes": 1, "outcome": "late", "closed_until": 7}
