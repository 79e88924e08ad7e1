"""Answers of the API about the past and the books as the views of `contracts.messages`. Pure."""

from __future__ import annotations

from headrace.client.answers import Json, amounts, document, moment, number, plain, pool, queue
from headrace.client.node_answers import node
from headrace.contracts.messages.audit import AuditLine
from headrace.contracts.messages.history import DiffView, LeaseView, PastJob, PastView, StateChange
from headrace.contracts.messages.usage import UsageRow
from headrace.contracts.messages.whatif import Difference, Moved, OutcomeNumbers, PoolNumbers, PoolSides, Sides
from headrace.contracts.values.durations import SECOND, parse_duration


def usage_row(answer: Json) -> UsageRow:
    return UsageRow(
        group=answer.get("group", {}),
        key=answer.get("key", ""),
        jobs=number(answer, "jobs"),
        cost=answer.get("cost", "0.000000"),
        lost_cost=answer.get("lost_cost", "0.000000"),
        **answer["exact_amounts"],
    )


def audit_line(answer: Json) -> AuditLine:
    return AuditLine(
        sequence=number(answer, "sequence"),
        place=number(answer, "place"),
        at=moment(answer.get("time")),
        by=answer.get("by", ""),
        type=answer.get("type", ""),
        about=answer.get("about", ""),
        text=answer.get("text", ""),
        rule=answer.get("rule", ""),
        as_of=int(answer.get("as_of") or 0),
        engine=answer.get("engine", ""),
        cause=answer.get("cause", ""),
        fact=plain(answer.get("fact", {})),
        because=tuple(answer.get("because", ())),
    )


def past(answer: Json) -> PastView:
    """A page of the state at an earlier time; `next` is the token of the following page."""
    return PastView(
        sequence=number(answer, "sequence"),
        now=moment(answer.get("time")),
        tip=number(answer, "tip"),
        documents=tuple(map(document, answer.get("documents", ()))),
        pools=tuple(map(pool, answer.get("pools", ()))),
        nodes=tuple(map(node, answer.get("nodes", ()))),
        queues=tuple(map(queue, answer.get("queues", ()))),
        counts={state: int(count) for state, count in sorted(answer.get("jobs", {}).items())},
        jobs=tuple(map(_past_job, answer.get("active", ()))),
        next=answer.get("next_page_token", ""),
    )


def _past_job(answer: Json) -> PastJob:
    return PastJob(
        job=answer["job"],
        name=answer.get("display_name", ""),
        queue=answer.get("queue", ""),
        state=answer.get("state", ""),
        since=moment(answer.get("since_time")),
        attempt=number(answer, "attempt"),
        request=amounts(answer.get("request")),
        replicas=number(answer, "replicas"),
        leases=tuple(map(_lease, answer.get("leases", ()))),
        reason=answer.get("reason", ""),
        message=answer.get("message", ""),
        kept_in=answer.get("kept_in", ""),
        yields_to=answer.get("yields_to", ""),
    )


def _lease(answer: Json) -> LeaseView:
    return LeaseView(
        rank=number(answer, "rank"),
        node=answer.get("node", ""),
        pool=answer.get("pool", ""),
        devices=tuple(answer.get("devices", ())),
        amounts=amounts(answer.get("amounts")),
        granted_at=moment(answer.get("granted_time")),
        started_at=moment(answer.get("started_time")),
        overdue=answer.get("overdue", False),
        suspended=answer.get("suspended", False),
    )


def difference(answer: Json) -> DiffView:
    return DiffView(
        before=number(answer, "before"),
        before_now=moment(answer.get("before_time")),
        after=number(answer, "after"),
        after_now=moment(answer.get("after_time")),
        changes=tuple(
            StateChange(
                kind=one.get("kind", ""),
                name=one.get("name", ""),
                change=one.get("change", ""),
                fields={each["field"]: (each.get("before", ""), each.get("after", "")) for each in one.get("fields", ())},
            )
            for one in answer.get("changes", ())
        ),
        more=number(answer, "more"),
    )


def what_if(answer: Json) -> tuple[Difference, int, int]:
    """Both simulations side by side, and the record and log time at which they begin to differ; times to the second."""
    since = moment(answer.get("time"))
    found = Difference(
        at=since,
        span=parse_duration(answer["span"]) if answer.get("span") else 0,
        assumptions=tuple(answer.get("assumptions", ())),
        total=_sides(answer.get("total", {})),
        groups={name: _sides(one) for name, one in sorted(answer.get("groups", {}).items())},
        policies={name: _sides(one) for name, one in sorted(answer.get("policies", {}).items())},
        pools={name: _pool_sides(one) for name, one in sorted(answer.get("pools", {}).items())},
        moved=tuple(map(_moved, answer.get("moved", ()))),
        moved_in_all=number(answer, "moved_in_all"),
        recorded=_outcome(answer["recorded"]) if "recorded" in answer else None,
    )
    return found, number(answer, "sequence"), since


def _sides(answer: Json) -> Sides:
    return Sides(before=_outcome(answer.get("before", {})), after=_outcome(answer.get("after", {})))


def _outcome(answer: Json) -> OutcomeNumbers:
    cost = answer.get("cost", "0.000000")
    return OutcomeNumbers(**{name: int(value) for name, value in answer.items() if name != "cost"}, cost=cost)


def _pool_sides(answer: Json) -> PoolSides:
    return PoolSides(before=_pool_numbers(answer.get("before", {})), after=_pool_numbers(answer.get("after", {})))


def _pool_numbers(answer: Json) -> PoolNumbers:
    return PoolNumbers(
        had=number(answer, "had"),
        used=number(answer, "used"),
        percent=answer.get("percent", "0.0"),
        cost=answer.get("cost", "0.000000"),
    )


def _moved(answer: Json) -> Moved:
    before, after = (int(answer[side]) * SECOND if answer.get(side) else None for side in ("before", "after"))
    return Moved(
        job=answer.get("job", ""),
        queue=answer.get("queue", ""),
        before=before,
        after=after,
        before_is=answer.get("before_is", ""),
        after_is=answer.get("after_is", ""),
    )
