"""What really came after a moment: jobs, requests to cancel, and how long jobs ran."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents.model import PreemptionTerms
from headrace.contracts.facts.records import Record
from headrace.contracts.values.durations import MINUTE, SECOND
from headrace.simulate.recorded_inputs import KnownEnds, RecordedInputs
from headrace.simulate.scenario import Moment
from tests.unit.domain.site import START, Site, place, policy


def record(*facts, by="anybody"):
    return Record(by=by, now=0, engine="test", as_of=0, facts=facts)


class Seen:
    """A site, and the inputs of all that is said there."""

    def __init__(self, *policies):
        self.site = Site(*policies)
        self.site.node()
        self.inputs = RecordedInputs(START, self.site.state)

    def append_facts(self, *facts, by="allocator", after=0):
        """A fact is stated this number of seconds later."""
        self.site.now += after * SECOND
        self.site.append_facts(*facts, by=by)
        self.inputs.note(record(*facts, by=by), self.site.state)

    def leave(self, job, *, after, by="node.n1", **more):
        """Its only lease ends."""
        self.site.now += after * SECOND
        self.append_facts(
            f.LeaseEndedV1(job=job.key, attempt=job.attempt, **({"outcome": "exited", "exited_at": 0, "at": 0} | more)), by=by
        )

    def behaviour(self, job, duration=None):
        return self.inputs.behaviour(job.key, ("default", "dev", "one"), TERMS, duration)


TERMS = PreemptionTerms(callback_grace=20 * SECOND, term_grace=10 * SECOND)
NO_AUTHOR = "ops"


def test_what_people_and_nodes_said_is_kept_with_its_moment_and_writer():
    seen = Seen(policy())
    came = f.JobAdmittedV1(job="default.ann.a", policy="dev", profile="one", request={})
    cancelled = f.JobCancelRequestedV1(job="default.ann.a", by="ann")
    lost = f.NodeLostV1(node="n1", silent_for=0)
    seen.append_facts(came, f.WishesJudgedV1(through=1), by="admission", after=5)
    seen.append_facts(cancelled, by="admission", after=1)
    seen.append_facts(lost, by="preemption")
    seen.append_facts(f.LeaseRevokedV1(job=came.job, attempt=1, cause="node_lost"))
    assert seen.inputs.moments == [
        Moment(at=5 * SECOND, stated=(came,), by="admission"),
        Moment(at=6 * SECOND, stated=(cancelled,), by="admission"),
        Moment(at=6 * SECOND, stated=(lost,), by="preemption"),
    ]
    assert seen.inputs.came() == [came]


def test_how_a_drained_object_came_to_its_end_is_left_to_follow():  # R11
    seen = Seen(policy(), policy("ops"))
    closed = f.ObjectClosedV1(author=NO_AUTHOR, kind="policy", tenant="default", name="dev", mode="drain")
    gone = f.PolicyDeletedV1(author=NO_AUTHOR, tenant="default", name="ops")
    seen.append_facts(closed, by="governance")
    seen.append_facts(f.PolicyDeletedV1(author=NO_AUTHOR, tenant="default", name="dev"), by="governance")
    seen.append_facts(gone, by="governance")
    assert [moment.stated for moment in seen.inputs.moments] == [(closed,), (gone,)]


def test_how_each_attempt_ended_by_itself_is_seen():
    seen = Seen(policy())
    job = seen.site.run("a", place("n1", 0))
    seen.leave(job, after=60, exit_code=3)
    seen.append_facts(f.JobRequeuedV1(job=job.key, attempt=1, cause="failed"))
    seen.site.grant(job, place("n1", 0))
    seen.site.now += 5 * SECOND
    seen.site.start(job)
    seen.leave(job, after=90, exit_code=0)
    assert seen.behaviour(job).ends == ((MINUTE, 3), (90 * SECOND, 0))
    assert seen.inputs.left_at(job.key, 1) == START + MINUTE
    assert seen.inputs.usual(("default", "dev", "one"), "") == 75 * SECOND
    assert seen.inputs.usual(("default", "dev", "one"), "", 80 * SECOND) == 90 * SECOND
    assert seen.inputs.usual(("default", "dev", "one"), "", 90 * SECOND) is None


def test_work_that_was_saved_counts_for_the_attempt_that_resumes_from_it():  # R29
    seen = Seen(policy())
    job = seen.site.run("a", place("n1", 0))
    saved = f.CheckpointRegisteredV1(job=job.key, attempt=1, uri="x", at=0)
    seen.append_facts(saved, by="node.n1", after=30)
    seen.site.stop(job, callback=20 * SECOND, term=10 * SECOND)
    seen.leave(job, after=12, stopping=True)
    seen.append_facts(f.JobRequeuedV1(job=job.key, attempt=1, cause="preempted"))
    lease = f.LeaseGrantedV1(job=job.key, attempt=2, node="n1", pool="hall", amounts={}, resume_from="x")
    seen.append_facts(lease)
    seen.site.start(job)
    seen.leave(job, after=10, exit_code=0)
    behaviour = seen.behaviour(job)
    assert (behaviour.ends, behaviour.abort_takes) == (((40 * SECOND, 0),), 12 * SECOND)
    assert (behaviour.checkpoint_every, behaviour.saves_on_abort) == (30 * SECOND, False)


def test_one_that_saves_when_it_is_told_to_stop_is_seen_to():
    seen = Seen(policy())
    job = seen.site.run("a", place("n1", 0))
    seen.site.stop(job, callback=20 * SECOND, term=10 * SECOND)
    seen.append_facts(f.CheckpointRegisteredV1(job=job.key, attempt=1, uri="x", at=0), by="node.n1", after=3)
    assert (seen.behaviour(job).saves_on_abort, seen.behaviour(job).checkpoint_every) == (True, None)


def test_of_whom_nothing_was_seen_others_of_its_policy_tell_or_its_terms():
    seen = Seen(policy())
    job, other = seen.site.run("a", place("n1", 0)), seen.site.admit("b", "dev/one")
    assert seen.behaviour(other, MINUTE).abort_takes == 30 * SECOND
    seen.site.stop(job, callback=20 * SECOND, term=10 * SECOND)
    seen.leave(job, after=4, stopping=True)
    behaviour = seen.behaviour(other, MINUTE)
    assert (behaviour.abort_takes, behaviour.duration, behaviour.ends) == (4 * SECOND, MINUTE, ())


def test_what_was_stopped_or_still_ran_lasts_longer_than_that():
    seen, queue = Seen(policy()), ("default", "dev", "one")
    done, stopped = (seen.site.run(name, place("n1", number)) for number, name in enumerate("ab"))
    seen.leave(done, after=30, exit_code=0)
    seen.site.stop(stopped)
    seen.leave(stopped, after=10, stopping=True)
    waits = seen.site.admit("c", "dev/one")
    still = seen.site.run("d", place("n1", 0))
    seen.site.now += 20 * SECOND
    seen.site.append_facts(f.WishesJudgedV1(through=1), by="admission")
    seen.inputs.close(seen.site.state)
    assert [seen.inputs.usual(queue, job.key) for job in (waits, still, stopped)] == [30 * SECOND, 30 * SECOND, None]


def test_a_node_that_suspended_something_can():  # R29
    seen = Seen(policy())
    job = seen.site.run("a", place("n1", 0))
    seen.append_facts(f.LeaseSuspendedV1(job=job.key, attempt=1, at=0), by="node.n1")
    assert seen.inputs.suspending == {"n1"}


def test_what_is_known_of_a_job_counts_more_than_what_is_usual():
    seen = Seen(policy())
    limited = seen.site.admit("a", "dev/one", time_limit=MINUTE)
    free, gone = seen.site.admit("b", "dev/one"), seen.site.run("c", place("n1", 0))
    nothing = KnownEnds(seen.site.state, START, RecordedInputs(START))
    assert (nothing.span(limited), nothing.span(free), nothing.by_history) == (MINUTE, None, False)
    seen.leave(gone, after=7, exit_code=0)
    ends = KnownEnds(seen.site.state, START, seen.inputs)
    assert (ends.span(limited), ends.span(free), ends.by_history) == (MINUTE, 7 * SECOND, True)
    assert ends.of(gone) == START + 7 * SECOND
