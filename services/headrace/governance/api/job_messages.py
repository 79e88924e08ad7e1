"""Jobs and explanations as messages. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.api import jobs_pb2 as pb
from headrace.contracts.values.amounts import GPU, GPU_MEMORY, format_amount
from headrace.governance.api.messages import moment, texts, unusable
from headrace.governance.api.names import job_name, user_of

if TYPE_CHECKING:
    from headrace.contracts.messages.explanation import ChangeView, Holder, PoolNeed, ReclaimView, WhyView
    from headrace.contracts.messages.queries import AttemptView, FactView, JobView


def job_message(view: JobView, sequence: int) -> pb.Job:
    return pb.Job(
        name=job_name(view.job),
        user=view.user,
        display_name=view.name,
        queue=view.queue,
        state=view.state,
        reason=view.reason,
        message=view.message,
        preemptible=view.preemptible,
        priority=view.priority,
        request=texts(view.request),
        mig=view.mig,
        replicas=view.replicas,
        labels=view.labels,
        admit_time=moment(view.admitted_at),
        end_time=moment(view.ended_at),
        preemptions=view.preemptions,
        exit_code=view.exit_code,
        checkpoint=view.checkpoint,
        attempts=map(_attempt, view.attempts),
        sequence=str(sequence),
        array=view.array,
        elements=view.elements,
        idle_time=moment(view.idle_at),
        idle_yields=view.idle_yields,
        gpu_memory=format_amount(GPU_MEMORY, view.gpu_memory) if view.gpu_memory else "",
        shares=[pb.ModelShare(gpu_model=one.model, gpu=format_amount(GPU, one.gpu), mig=one.mig) for one in view.shares],
    )


def _attempt(view: AttemptView) -> pb.Attempt:
    return pb.Attempt(
        attempt=view.attempt,
        pool=view.pool,
        nodes=view.nodes,
        devices=view.devices,
        grant_time=moment(view.granted_at),
        start_time=moment(view.started_at),
        end_time=moment(view.ended_at),
        exit_code=view.exit_code,
        cause=view.cause,
        resume_from=view.resume_from,
    )


def fact_message(view: FactView) -> pb.JobFact:
    """One line of a job's history."""
    return pb.JobFact(
        record=str(view.sequence), time=moment(view.at), by=view.by, type=view.type, text=view.text, rule=view.rule
    )


def explanation(view: WhyView, sequence: int, now: int) -> pb.Explanation:
    """Explanation why a job waits."""
    return pb.Explanation(
        name=job_name(view.job),
        user=user_of(view.job),
        state=view.state,
        reason=view.reason,
        message=view.message,
        blockers=view.blockers,
        position=view.position,
        expected_start_time=moment(view.expected_start),
        assumption=view.assumption,
        pools=map(_need, view.pools),
        behind=[pb.Waiter(job=job_name(one.job), user=user_of(one.job), request=texts(one.request)) for one in view.behind],
        behind_more=view.behind_more,
        holders=map(_holder, view.holders),
        holders_more=view.holders_more,
        reclaim=_reclaim(view.reclaim),
        cheapest=_advice(view.cheapest),
        sequence=str(view.sequence or sequence),
        time=moment(view.now or now),
        could_reclaim=view.could_reclaim,
        notes=view.notes,
    )


def _need(need: PoolNeed) -> pb.PoolNeed:
    keys = [
        pb.KeyNeed(
            key=one.key,
            asked=format_amount(one.key, one.asked),
            free=format_amount(one.key, one.free),
            missing=format_amount(one.key, one.missing),
            used=format_amount(one.key, one.used),
            kept=format_amount(one.key, one.kept),
            unusable=format_amount(one.key, one.unusable),
            capacity=format_amount(one.key, one.capacity),
        )
        for one in need.keys
    ]
    return pb.PoolNeed(
        pool=need.pool,
        reason=need.reason,
        message=need.message,
        fit=need.fit,
        keys=keys,
        scope=need.scope,
        unusable=map(unusable, need.unusable),
    )


def _holder(holder: Holder) -> pb.Holder:
    return pb.Holder(
        job=job_name(holder.job),
        user=user_of(holder.job),
        request=texts(holder.request),
        pool=holder.pool,
        nodes=holder.nodes,
        preemptible=holder.preemptible,
        until_time=moment(holder.until),
    )


def _reclaim(view: ReclaimView | None) -> pb.Reclaim | None:
    if view is None:
        return None
    return pb.Reclaim(
        could=view.could, why=view.why, cause=view.cause, from_time=moment(view.at), victims=map(_holder, view.victims)
    )


def _advice(view: ChangeView | None) -> pb.Advice | None:
    if view is None:
        return None
    return pb.Advice(
        kind=view.kind,
        text=view.text,
        start_time=moment(view.start),
        pool=view.pool,
        job=job_name(view.job),
        user=user_of(view.job),
        queue=view.queue,
        request=texts(view.request),
    )
