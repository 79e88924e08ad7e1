"""What really came after a moment: jobs, wishes to cancel, and how long jobs ran."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.durations import MINUTE, SECOND
from headrace.contracts.records import Record
from headrace.simulate.aftermath import Aftermath, KnownEnds
from headrace.simulate.scenario import Moment
from tests.unit.domain.site import START, Site, place, policy


def record(*facts):
    return Record(by="anybody", now=0, engine="test", as_of=0, facts=facts)


def test_what_admission_said_is_kept_with_its_moment_and_the_rest_is_not():
    site, aftermath = Site(policy()), Aftermath(START)
    came = f.JobAdmittedV1(job="default.ann.a", policy="dev", profile="one", request={})
    cancelled = f.JobCancelRequestedV1(job="default.ann.a", by="ann")
    site.now += 5 * SECOND
    site.say(came, by="admission")
    aftermath.note(record(came, f.WishesJudgedV1(through=1)), site.state)
    site.now += SECOND
    requeued = f.JobRequeueRequestedV1(job="default.ann.a", attempt=1, by="ann")
    site.say(cancelled, by="admission")
    aftermath.note(record(cancelled), site.state)
    aftermath.note(record(requeued), site.state)
    aftermath.note(record(f.NodeLostV1(node="n1", silent_for=0)), site.state)
    assert aftermath.moments == [
        Moment(at=5 * SECOND, stated=(came,)),
        Moment(at=6 * SECOND, stated=(cancelled,)),
        Moment(at=6 * SECOND, stated=(requeued,)),
    ]
    assert aftermath.came() == [came]


def test_how_long_jobs_ran_is_known_once_they_have_ended_by_themselves():
    site, aftermath = Site(policy()), Aftermath(START)
    site.node()
    jobs = [site.run(name, place("n1", number)) for number, name in enumerate("ab")]
    for job, state in zip(jobs, ("succeeded", "cancelled"), strict=True):
        site.now += MINUTE
        site.leave(job)
        end = f.JobEndedV1(job=job.key, attempt=1, state=state, cause="exited")
        site.say(end, by="allocator")
        aftermath.note(record(end), site.state)
    assert aftermath.runs == {jobs[0].key: MINUTE}


def test_what_is_known_of_a_job_counts_more_than_its_limit():
    site = Site(policy())
    job = site.admit("a", "dev/one", time_limit=MINUTE)
    assert KnownEnds(site.state, START, {job.key: 7}).span(job) == 7
    assert KnownEnds(site.state, START, {}).span(job) == MINUTE
