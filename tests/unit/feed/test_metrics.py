"""What happens is counted fact by fact, and how the installation stands is read from the state."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.feed.metrics import FeedCounts, InstallationMetrics, show
from headrace.feed.queue_heads import Heads
from headrace.health.health import Health
from headrace.health.prometheus_text import prometheus_text
from headrace.views.job_index import JobIndex, jobs_of


@pytest.fixture
def seen(hall, policy_of):
    """A story whose facts are all counted; `seen()` gives the figures of a name."""
    index, counted, health = JobIndex(hall.state), FeedCounts(hall.state), Health("feed")
    heads, last_reports = Heads(hall.state, index), {"gpu01": hall.now, "gone": 0}

    def note(record, _):
        heads.touch(index.note(record, jobs_of(record)).queues)
        for fact in record.facts:
            counted.note(fact)

    hall.note = note
    show(health.metrics, counted, InstallationMetrics(hall.state, index, heads, last_reports), lambda: hall.now + 7_000_000)
    wide = {"limit": {"gpu": 126_000}, "reservation": {"gpu": 63_000}}
    hall.append_facts("governance", f.PolicyAppliedV1(author="a.b", policy=policy_of("acme", **wide)))

    def metrics_of(name):
        list(heads.changes(hall.now))
        lines = prometheus_text(health.metrics).decode().splitlines()
        return {
            line.rpartition(" ")[0].removeprefix(name): float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith(name)
        }

    return metrics_of


def test_jobs_that_wait_and_hold_are_told_with_their_reasons(hall, seen):
    hall.admit(hall.job(1))
    hall.grant(hall.job(1), ("gpu01", "g0"))
    hall.admit(hall.job(2))
    hall.admit(hall.job(3))
    assert seen("headrace_pending_jobs") == {'{reason="AT_POLICY_LIMIT"}': 2}
    assert seen("headrace_holding_jobs") == {"": 1}
    assert {key: value for key, value in seen("headrace_policy_gpus").items() if "acme" in key} == {
        '{policy="dev",tenant="acme",what="leased"}': 1.0,
        '{policy="dev",tenant="acme",what="reservation"}': 0.5,
        '{policy="dev",tenant="acme",what="idle"}': 0.0,
        '{policy="dev",tenant="acme",what="borrowed"}': 0.5,
        '{policy="dev",tenant="acme",what="limit"}': 1.0,
    }
    gpus = {key: value for key, value in seen("headrace_pool_amount").items() if 'key="gpu"' in key}
    assert sum(value for key, value in gpus.items() if 'what="leased"' in key) == 1.0


def test_what_is_idle_on_a_cordoned_node_is_unusable_and_not_free(hall, seen):
    before = seen("headrace_pool_amount")
    hall.append_facts("governance", f.NodeCordonedV1(author="a.b", node="gpu01"))
    after = seen("headrace_pool_amount")

    def pool(metrics):
        words = ("capacity", "leased", "kept", "free", "unusable")
        labels = ('{{key="gpu",pool="{}",what="{}"}}'.format(hall.state.nodes["gpu01"].pool, word) for word in words)
        return [metrics[label] for label in labels]

    assert (pool(before), pool(after)) == ([4, 0, 0, 4, 0], [4, 0, 0, 0, 4])


def test_facts_waits_and_ends_are_counted(hall, seen):
    hall.admit(hall.job(1))
    hall.grant(hall.job(1), ("gpu01", "g0"))
    hall.end(hall.job(1))
    hall.finish(hall.job(1))
    facts = seen("headrace_facts_total")
    assert (facts['{type="job.admitted.v1"}'], facts['{type="lease.granted.v1"}'], facts['{type="job.ended.v1"}']) == (1, 1, 1)
    assert seen("headrace_jobs_ended_total") == {'{state="succeeded"}': 1}
    assert seen("headrace_admission_to_grant_seconds_count") == {"": 1}


def test_a_preemption_is_told_in_its_three_parts(hall, seen):
    settled = f.PreemptionSettledV1(
        preemption="p", job=hall.job(1), victims=2, lost=30, to_signal=4_000, grace=60_000_000, to_release=2_000_000
    )
    hall.append_facts("preemption", settled)
    assert seen("headrace_preemptions_total")['{outcome="settled"}'] == 1
    assert seen("headrace_work_lost_gpu_seconds_total") == {"": 30}
    assert seen("headrace_preemption_seconds_sum") == {'{part="signal"}': 0.004, '{part="grace"}': 60, '{part="release"}': 2}


def test_nodes_are_counted_by_status_and_the_longest_silence_is_of_one_that_is_there(hall, seen):
    before = seen("headrace_nodes")
    assert seen("headrace_node_silence_seconds") == {"": pytest.approx(7.0, abs=1.0)}
    hall.append_facts("preemption", f.NodeLostV1(node="gpu01", silent_for=1))
    after = seen("headrace_nodes")
    assert (after['{status="lost"}'], after['{status="ready"}']) == (1, before['{status="ready"}'] - 1)
    assert seen("headrace_node_silence_seconds") == {"": 0}
