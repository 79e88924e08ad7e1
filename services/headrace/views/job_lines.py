"""Facts about one job as lines for people: what happened, by which rule, without the names of other tenants' jobs. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.contracts import facts as f
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.messages.queries import FactView
from headrace.contracts.values.amounts import JOB, format_amounts
from headrace.contracts.values.durations import format_duration, format_time
from headrace.contracts.values.gpu_memory import memory_text
from headrace.contracts.values.ids import split_job_key
from headrace.views.pseudonyms import with_handles
from headrace.views.visibility import OTHER_TENANT, hide_others

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.records import Record
    from headrace.domain.state.state import State

    Line = tuple[str, str]
    """What happened, and the rule."""


def lines_of(record: Record, sequence: int, job: str, state: State) -> Iterator[FactView]:
    """Lines of one record that are about `job`, in order; erased people appear under their pseudonym."""
    for _, fact in with_implied_facts(record.facts):
        line = sentence_of(fact, job)
        if line is not None:
            text, rule = line
            kind = f.fact_type(type(fact))
            text = with_handles(state, hide_others(text, job.partition(".")[0]), fact)
            yield FactView(sequence=sequence, at=record.now, by=record.by, type=kind, text=text, rule=rule)


def sentence_of(fact: AnyFact, job: str) -> Line | None:
    """Text of a fact in the history of `job`; None if the fact is not about it."""
    if getattr(fact, "job", "") == job:
        words = _OF_THE_JOB.get(type(fact))
        return words(fact) if words is not None else None
    if isinstance(fact, f.PreemptionOrderedV1):
        victim = next((victim for victim in fact.victims if victim.job == job), None)
        if victim is not None:
            return (
                f"has to yield to {_named(fact.job, job)} ({fact.cause} in pool {fact.pool}); {_loss(victim.lost)}",
                fact.rule,
            )
    return None


def _loss(lost: int) -> str:
    return f"at most {lost} GPU-seconds of work are lost" if lost else "no work is lost"


def _named(other: str, job: str) -> str:
    """Another job as the owner of `job` may know it: its id, with the user if that is another one."""
    if other.partition(".")[0] != job.partition(".")[0]:
        return f"a job of {OTHER_TENANT}"
    tenant, user, job_id = split_job_key(other)
    return job_id if job.startswith(f"{tenant}.{user}.") else f"{user}'s {job_id}"


def _replica(rank: int) -> str:
    return f" (replica {rank})" if rank else ""


def _by(how: str) -> str:
    return f" ({how})" if how else ""


def _code(exit_code: int | None) -> str:
    return "" if exit_code is None else f", exit code {exit_code}"


def _admitted(fact: f.JobAdmittedV1) -> Line:
    asks = (
        (memory_text(fact.gpu_memory, fact.shares) + "; " if fact.gpu_memory else "")
        + format_amounts(fact.request)
        + (f" (slice {fact.mig})" if fact.mig else "")
        + (f", {fact.replicas} times" if fact.replicas > 1 else "")
    )
    return f"admitted to {fact.policy}/{fact.profile}: asks for {asks}" + (
        ("" if fact.preemptible else ", non-preemptible")
        + (f", on behalf of {fact.on_behalf_of}" if fact.on_behalf_of else "")
        + (f"; submitted by {fact.submitted_by}" if fact.submitted_by else "")
        + (f"; by the group's rules: {', '.join(fact.rules)}" if fact.rules else "")
    ), "R13"


def _granted(fact: f.LeaseGrantedV1) -> Line:
    amounts = format_amounts({key: value for key, value in fact.amounts.items() if key != JOB})
    devices = ", ".join(share.label for share in fact.devices)
    where = f"{fact.node} of pool {fact.pool}" + (f" ({devices})" if devices else "")
    share = "inside the reservation" if fact.inside else "borrowed"
    again = f"; resumes from {fact.resume_from}" if fact.resume_from else ""
    return f"attempt {fact.attempt} granted {amounts} on {where}{_replica(fact.rank)}, {share}{again}", fact.rule


def _stop(fact: f.StopOrderedV1) -> Line:
    ladder = fact.ladder
    cause = ladder.cause.replace("_", " ")
    why = f"{cause} for {_named(ladder.preemptor, fact.job)}" if ladder.preemptor else cause
    graces = f"{format_duration(ladder.callback_grace)} for its callback, {format_duration(ladder.term_grace)} after SIGTERM"
    return f"told to stop: {why}; {graces}; then {ladder.then}", "R28"


def _forced(fact: f.PreemptionForcedV1) -> Line:
    """Text of a forced preemption; author and reason within the tenant only."""
    is_own = fact.author.partition(".")[0] == fact.job.partition(".")[0]
    return f"{fact.author} takes its units by force: {fact.reason}" if is_own else "an operator takes its units by force", "R24"


_REQUEUED_BY = {
    "preempted": "R29",
    "requeued": "R29",
    "moved": "R29",
    "drain": "R28",
    "interrupted": "R38",
    "refused": "R36",
    "start_timeout": "R35",
}
"""Rule by which a job was requeued, by cause; R32 for other causes."""


def _requeued(fact: f.JobRequeuedV1) -> Line:
    held_back = f", not before {format_time(fact.not_before)}" if fact.not_before else ""
    avoids = f", kept away from {', '.join(fact.avoid)} until {format_time(fact.avoid_until)}" if fact.avoid else ""
    overlaps = "; its old attempt may still run" if fact.may_overlap else ""
    last = ", behind all that wait" if fact.last else ""
    rule = _REQUEUED_BY.get(fact.cause, "R32")
    return f"pending again: {fact.cause.replace('_', ' ')}{last}{held_back}{avoids}{overlaps}", rule


def _lease_ended(fact: f.LeaseEndedV1) -> Line:
    message = f": {fact.message}" if fact.message else ""
    finished = ", declared finished" if fact.finished else ""
    return f"{fact.outcome.replace('_', ' ')}{_code(fact.exit_code)}{finished}{_replica(fact.rank)}{message}", "R30"


def _preempts(fact: f.PreemptionOrderedV1) -> Line:
    tenant = fact.job.partition(".")[0]
    own = [_named(victim.job, fact.job) for victim in fact.victims if victim.job.startswith(f"{tenant}.")]
    others = [f"jobs of {OTHER_TENANT}"] if len(own) < len(fact.victims) else []
    nodes = ", ".join(sorted({place.node for place in fact.places}))
    return f"takes back from {', '.join([*own, *others])} ({fact.cause}), kept for it on {nodes}", fact.rule


def _moves(fact: f.MoveOrderedV1) -> Line:
    nodes = ", ".join(sorted({place.node for place in fact.places}))
    return f"goes on elsewhere, from its checkpoint: units are kept for it in pool {fact.pool}, on {nodes}", fact.rule


def _kept_on(fact: f.HoldPlacedV1) -> str:
    return f"units are kept in pool {fact.pool}, on {', '.join(sorted({place.node for place in fact.places}))},"


def _matched(fact: f.JobMatchedV1) -> Line:
    charged = ", and is charged by model" if fact.by_model else ""
    models = ", or ".join(dict.fromkeys(share.model for share in fact.shares))
    return f"documents or nodes have changed: it may be given {models}{charged}", "R43" if fact.by_model else "R42"


def _settled(fact: f.PreemptionSettledV1) -> Line:
    parts = (("signal", fact.to_signal), ("grace", fact.grace), ("release", fact.to_release))
    return "all victims have left: " + ", ".join(f"{name} {format_duration(span)}" for name, span in parts), "R27"


_USED = {
    "busy": "its GPUs are used again",
    "unmeasured": "its node no longer tells how much they compute",
    "policy": "its policy has no idle_after any more",
}
"""Why a lease is no longer marked as idle, by cause."""

_OF_THE_JOB: dict[type, Callable[[Any], Line]] = {
    f.JobAdmittedV1: _admitted,
    f.JobRejectedV1: lambda fact: (f"rejected: {fact.reason}: {fact.message}", "R13"),
    f.JobCancelRequestedV1: lambda fact: (f"{fact.by} wants it to end" + (f": {fact.reason}" if fact.reason else ""), "R14"),
    f.JobRequeueRequestedV1: lambda fact: (
        f"{fact.by} wants it back in line" + (f": {fact.reason}" if fact.reason else ""),
        "R29",
    ),
    f.LeaseGrantedV1: _granted,
    f.LeaseRevokedV1: lambda fact: (f"its lease was taken back: {fact.cause.replace('_', ' ')}{_replica(fact.rank)}", "R32"),
    f.PreemptionForcedV1: _forced,
    f.StopOrderedV1: _stop,
    f.JobRequeuedV1: _requeued,
    f.JobEndedV1: lambda fact: (f"{fact.state}: {fact.cause.replace('_', ' ')}{_code(fact.exit_code)}", "R30"),
    f.JobDismissedV1: lambda fact: (f"dismissed: {fact.reason}: {fact.message}", "R10"),
    f.JobMatchedV1: _matched,
    f.HoldPlacedV1: lambda fact: (f"it has waited long: {_kept_on(fact)} for it from those who rank below it", fact.rule),
    f.HoldLiftedV1: lambda fact: (f"nothing is kept for it in pool {fact.pool} any more: {fact.why}", "R16"),
    f.ReclaimOpenedV1: lambda fact: (f"may take back ({fact.cause}): victims are looked for in pool {fact.pool}", "R19"),
    f.PreemptionNoneV1: lambda fact: (f"no job has to yield for it in pool {fact.pool}: {fact.why}", "R26"),
    f.PreemptionOrderedV1: _preempts,
    f.PreemptionDismissedV1: lambda fact: (f"the plan for it was dropped: {fact.why}", "R26"),
    f.NominationEndedV1: lambda fact: (f"nothing is kept for it any more: {fact.why}", "R27"),
    f.PreemptionSettledV1: _settled,
    f.LeaseIdledV1: lambda fact: (
        f"idle for {format_duration(fact.idle_for)}, its GPUs at most {fact.average} % busy, says {fact.node}{_replica(fact.rank)}",
        "R39",
    ),
    f.LeaseUsedV1: lambda fact: (f"it counts as idle no more: {_USED[fact.cause]}{_replica(fact.rank)}", "R39"),
    f.LeaseOverdueV1: lambda fact: (f"{fact.node} has not stopped it in time{_replica(fact.rank)}", "R28"),
    f.LeaseStartedV1: lambda fact: (f"started, isolation {fact.isolation}{_replica(fact.rank)}", "R35"),
    f.LeaseOverranV1: lambda fact: (
        f"held {fact.used} MiB of {fact.device}, {fact.limit} MiB are its own: killed{_replica(fact.rank)}",
        "R28",
    ),
    f.LeaseSuspendedV1: lambda fact: (
        f"suspended{_replica(fact.rank)}: its devices are free for others, its place in memory is kept" + _by(fact.how),
        "R29",
    ),
    f.MoveOrderedV1: _moves,
    f.ResumeOrderedV1: lambda _fact: ("goes on where it was suspended", "R29"),
    f.LeaseResumedV1: lambda fact: (f"runs again{_replica(fact.rank)}", "R29"),
    f.LeaseRungV1: lambda fact: (f"{fact.rung}: {fact.result}, took {format_duration(fact.took)}{_replica(fact.rank)}", "R28"),
    f.CheckpointRegisteredV1: lambda fact: (f"saved its work at step {fact.step}: {fact.uri}", "R25"),
    f.LeaseEndedV1: _lease_ended,
}
