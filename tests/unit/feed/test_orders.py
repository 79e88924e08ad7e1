"""What nodes are told."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Profile
from headrace.contracts.facts.fact import DeviceShare, Ladder
from headrace.contracts.messages.orders import NodeAnswer, StartOrder, StopOrder
from headrace.contracts.messages.submissions import JobText
from headrace.contracts.values.account_numbers import former_number
from headrace.contracts.values.amounts import GPU, GPU_UNITS, JOB
from headrace.contracts.values.durations import SECOND
from headrace.feed.orders import JobChanges, NodeOrders, answer, jobs_on, orders_for, to_start, unconfirmed

TEXT = JobText(
    command=("python", "train.py"),
    env={"SEED": "1"},
    secret_env=("TOKEN",),
    image="torch",
    workdir="/work",
    on_abort=("save",),
)
PREEMPTED = Ladder(cause="preempted", callback_grace=60 * SECOND, term_grace=30 * SECOND, then="requeue")


@pytest.fixture
def news(hall):
    """What the records of the story from here on change for nodes."""
    found = JobChanges()

    def note(record, sequence):
        for fact in record.facts:
            found.note(fact, sequence)

    hall.note = note
    return found


def text_of(job):
    return TEXT


def start(key, granted, **more):
    usual = {
        "lease": f"{key}/1/0",
        "job": key,
        "attempt": 1,
        "granted": granted,
        "peers": ("gpu01",),
        "devices": (DeviceShare(device="g0", units=GPU_UNITS),),
        "amounts": {GPU: GPU_UNITS, JOB: 1},
        "queue": "dev/one",
        "command": ("python", "train.py"),
        "env": {"SEED": "1"},
        "secret_env": ("TOKEN",),
        "image": "torch",
        "workdir": "/work",
        "on_abort": ("save",),
    }
    return StartOrder(**(usual | more))


def test_a_grant_becomes_a_start_order_with_the_text_and_the_trace(hall, news):
    job = hall.job(1)
    hall.admit(job, name="train", trace="00-1-2-01")
    hall.grant(job, ("gpu01", "g0"), resume_from="/ckpt/3")
    assert [waiting.key for waiting in to_start(hall.state, news)] == [job]
    assert orders_for(hall.state, news, text_of) == {
        "gpu01": NodeOrders([start(job, 4, name="train", resume_from="/ckpt/3", trace="00-1-2-01")], [])
    }


def test_a_start_carries_the_number_of_the_users_account_from_level_2_on(hall, news):
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    (before,) = orders_for(hall.state, news, text_of)["gpu01"].starts
    hall.append_facts("governance", f.InstallationLevelV1(level=2, release="0.2.0"))
    (order,) = orders_for(hall.state, news, text_of)["gpu01"].starts
    assert (before.account, order.account) == (0, former_number(*job.split(".")[:2]))


@pytest.mark.parametrize(("stated", "ordered"), [(None, "private"), ("private", "private"), ("host", "host"), ("none", "none")])
def test_a_container_is_told_the_network_of_its_profile_from_level_3_on_and_a_process_none(hall, news, stated, ordered):
    """R44."""
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    (before,) = orders_for(hall.state, news, text_of)["gpu01"].starts
    profile = Profile(name="one", request={GPU: GPU_UNITS}, pools=("hall",), network=stated)
    levels = (f.InstallationLevelV1(level=2, release="0.2.0"), f.InstallationLevelV1(level=3, release="0.3.0"))
    for level in levels:
        hall.append_facts("governance", level)
    hall.append_facts("governance", f.ProfileAppliedV1(author="acme.alice", profile=profile))
    (order,) = orders_for(hall.state, news, text_of)["gpu01"].starts
    (of_process,) = orders_for(hall.state, news, lambda _: JobText(command=("true",)))["gpu01"].starts
    assert (before.network, order.network, of_process.network) == ("", ordered, "")


def test_a_container_whose_profile_was_deleted_has_a_private_network(hall, news):
    """R44."""
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    for level in (2, 3):
        hall.append_facts("governance", f.InstallationLevelV1(level=level, release="0"))
    del hall.state.profiles["", "one"]
    (order,) = orders_for(hall.state, news, text_of)["gpu01"].starts
    assert order.network == "private"


def test_each_replica_of_a_gang_is_told_who_the_others_are(hall, news):
    hall.node("gpu02")
    job = hall.job(1)
    hall.admit(job, profile="pair", replicas=2)
    hall.grant(job, ("gpu01", "g0"), ("gpu02", "g3"))
    gang = {"replicas": 2, "peers": ("gpu01", "gpu02"), "queue": "dev/pair"}
    assert orders_for(hall.state, news, text_of) == {
        "gpu01": NodeOrders([start(job, 5, **gang)], []),
        "gpu02": NodeOrders(
            [
                start(
                    job,
                    5,
                    lease=f"{job}/1/1",
                    rank=1,
                    devices=(DeviceShare(device="g3", units=GPU_UNITS),),
                    amounts={GPU: GPU_UNITS},
                    **gang,
                )
            ],
            [],
        ),
    }


def test_the_others_are_told_by_where_their_nodes_say_that_they_are_reached(hall, news):
    """R35."""
    hall.node("gpu01", labels={"site": "hq", "address": "gpu01.hq.example"})
    hall.node("gpu02")
    job = hall.job(1)
    hall.admit(job, profile="pair", replicas=2)
    hall.grant(job, ("gpu01", "g0"), ("gpu02", "g3"))
    orders = orders_for(hall.state, news, text_of)
    assert [order.peers for node in orders.values() for order in node.starts] == [("gpu01.hq.example", "gpu02")] * 2


def test_a_job_that_is_suspended_is_told_with_that_until_it_is_to_go_on(hall, news):
    """R29."""
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    hall.start(job)
    suspend = Ladder(cause="preempted", callback_grace=0, term_grace=0, then="suspend")
    hall.append_facts("allocator", f.StopOrderedV1(job=job, attempt=1, ladder=suspend))
    hall.append_facts("node.gpu01", f.LeaseSuspendedV1(job=job, attempt=1, at=0))
    assert answer(hall.state, "gpu01", text_of).starts == (start(job, 4, started=True, suspended=True),)
    assert not unconfirmed(hall.state)
    news.jobs.clear()

    hall.append_facts("allocator", f.ResumeOrderedV1(job=job, attempt=1))
    assert orders_for(hall.state, news, text_of) == {"gpu01": NodeOrders([start(job, 4, started=True)], [])}
    assert list(unconfirmed(hall.state).jobs) == [job]

    hall.append_facts("node.gpu01", f.LeaseResumedV1(job=job, attempt=1, at=0))
    assert not unconfirmed(hall.state)


def test_a_stop_is_told_for_every_lease_that_is_still_held(hall, news):
    hall.node("gpu02")
    job = hall.job(1)
    hall.admit(job, profile="pair", replicas=2)
    hall.grant(job, ("gpu01", "g0"), ("gpu02", "g0"))
    hall.end(job, "gpu02", rank=1)
    hall.stop(job, "preempted")
    assert orders_for(hall.state, news, text_of) == {
        "gpu01": NodeOrders([], [StopOrder(lease=f"{job}/1/0", ordered=7, ladder=PREEMPTED)])
    }


@pytest.mark.parametrize(("tenant", "named"), [("acme", True), ("rival", False)])
def test_a_job_is_told_for_whom_it_stops_unless_that_is_another_tenants_job(hall, news, tenant, named):
    job, preemptor = hall.job(1), hall.job(2, tenant=tenant)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    hall.stop(job, "preempted", preemptor=preemptor)
    (stop,) = orders_for(hall.state, news, text_of)["gpu01"].stops
    assert stop.ladder.preemptor == (preemptor if named else "")


def test_a_lease_that_is_granted_and_stopped_at_once_is_told_as_stopped_only(hall, news):
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    hall.stop(job, "preempted")
    assert to_start(hall.state, news) == []
    assert orders_for(hall.state, news, text_of) == {
        "gpu01": NodeOrders([], [StopOrder(lease=f"{job}/1/0", ordered=5, ladder=PREEMPTED)])
    }


def test_what_is_over_already_is_not_told(hall, news):
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    hall.end(job)
    hall.finish(job)
    assert orders_for(hall.state, news, text_of) == {}


def test_other_facts_are_not_news_for_nodes(hall, news):
    hall.admit(hall.job(1))
    assert not news
    assert orders_for(hall.state, news, text_of) == {}


def test_a_job_whose_key_is_missing_is_withheld(hall, news):
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    (order,) = orders_for(hall.state, news, lambda _: None)["gpu01"].starts
    assert order == start(job, 4, command=(), env={}, secret_env=(), image="", workdir="", on_abort=(), withheld=True)


def test_a_node_that_is_back_has_to_let_go_of_what_was_taken_from_it(hall, news):
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    hall.append_facts("preemption", f.NodeLostV1(node="gpu01", silent_for=60))
    hall.node()
    news.jobs.clear()
    hall.append_facts("allocator", f.LeaseRevokedV1(job=job, attempt=1, cause="node_lost"))
    ladder = Ladder(cause="revoked", callback_grace=0, term_grace=30 * SECOND)
    assert orders_for(hall.state, news, text_of) == {
        "gpu01": NodeOrders([], [StopOrder(lease=f"{job}/1/0", ordered=7, ladder=ladder)])
    }


def test_a_node_that_is_away_is_told_nothing_of_what_was_taken_from_it(hall, news):
    job = hall.job(1)
    hall.admit(job)
    hall.grant(job, ("gpu01", "g0"))
    hall.append_facts("preemption", f.NodeLostV1(node="gpu01", silent_for=60))
    hall.append_facts("allocator", f.LeaseRevokedV1(job=job, attempt=1, cause="node_lost"))
    assert orders_for(hall.state, news, text_of) == {}


def test_a_feed_that_comes_up_tells_what_has_not_started_and_what_has_to_stop(hall):
    waiting, running, stopping, granted = (hall.job(number) for number in range(4))
    for job in (waiting, running, stopping, granted):
        hall.admit(job)
    for job, device in ((running, "g0"), (stopping, "g1"), (granted, "g2")):
        hall.grant(job, ("gpu01", device))
    hall.start(running)
    hall.start(stopping)
    hall.stop(stopping)
    assert unconfirmed(hall.state) == JobChanges({stopping: None, granted: None}, [])


def test_the_whole_answer_lists_starts_stops_and_the_last_record_of_the_node(hall):
    running, stopping = hall.job(1), hall.job(2)
    for job, device in ((running, "g0"), (stopping, "g1")):
        hall.admit(job)
        hall.grant(job, ("gpu01", device))
        hall.start(job)
    hall.stop(stopping, "preempted")
    assert [job.key for job in jobs_on(hall.state, "gpu01")] == [running]
    assert answer(hall.state, "gpu01", text_of) == NodeAnswer(
        node="gpu01",
        through=9,
        last_record=8,
        last_digest=hall.state.writers["node.gpu01"][1],
        starts=(start(running, 4, started=True),),
        stops=(StopOrder(lease=f"{stopping}/1/0", ordered=9, ladder=PREEMPTED, started=True),),
    )


def test_a_node_that_was_given_up_is_told_so(hall):
    """R32: it need not have noticed."""
    hall.append_facts("preemption", f.NodeLostV1(node="gpu01", silent_for=60 * SECOND))
    assert [answer(hall.state, node, text_of).lost for node in ("gpu01", "gpu02")] == [True, False]


def test_a_node_that_was_set_aside_is_asked_to_check_itself_until_it_has(hall):
    """R36."""
    hall.append_facts("allocator", f.NodeSetAsideV1(node="gpu01", reason="it refuses", until=hall.now))
    asked = [answer(hall.state, "gpu01", text_of).check]
    hall.state.terms.level = 2
    hall.append_facts("allocator", f.NodeCheckOrderedV1(node="gpu01"))
    asked.append(answer(hall.state, "gpu01", text_of).check)
    hall.append_facts("node.gpu01", f.NodeCheckedV1(node="gpu01", ordered=hall.state.sequence, passed=True, at=hall.now))
    asked.append(answer(hall.state, "gpu01", text_of).check)
    assert asked == [0, hall.state.sequence - 1, 0]


def test_an_unknown_node_has_nothing_to_run(hall):
    assert answer(hall.state, "gpu99", text_of) == NodeAnswer(node="gpu99", through=2, last_record=0)
