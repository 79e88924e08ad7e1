"""Answers of the API about the past and the books as the views of `contracts.messages`. Pure."""

from __future__ import annotations

from headrace.client.answers import Json, amounts, document, moment, node, number, plain, pool, queue
from headrace.contracts.messages.audit import AuditLine
from headrace.contracts.messages.history import DiffView, LeaseView, PastJob, PastView, StateChange
from headrace.contracts.messages.usage import UsageRow


def usage_row(said: Json) -> UsageRow:
    return UsageRow(
        group=said.get("group", {}),
        key=said.get("key", ""),
        jobs=number(said, "jobs"),
        cost=said.get("cost", "0.000000"),
        lost_cost=said.get("lost_cost", "0.000000"),
        **said["exact_amounts"],
    )


def audit_line(said: Json) -> AuditLine:
    return AuditLine(
        sequence=number(said, "sequence"),
        place=number(said, "place"),
        at=moment(said.get("time")),
        by=said.get("by", ""),
        type=said.get("type", ""),
        about=said.get("about", ""),
        text=said.get("text", ""),
        rule=said.get("rule", ""),
        as_of=int(said.get("as_of") or 0),
        engine=said.get("engine", ""),
        cause=said.get("cause", ""),
        fact=plain(said.get("fact", {})),
        because=tuple(said.get("because", ())),
    )


def past(said: Json) -> PastView:
    """A page of the state at an earlier time; `next` is the token of the following page."""
    return PastView(
        sequence=number(said, "sequence"),
        now=moment(said.get("time")),
        tip=number(said, "tip"),
        documents=tuple(map(document, said.get("documents", ()))),
        pools=tuple(map(pool, said.get("pools", ()))),
        nodes=tuple(map(node, said.get("nodes", ()))),
        queues=tuple(map(queue, said.get("queues", ()))),
        counts={state: int(count) for state, count in sorted(said.get("jobs", {}).items())},
        jobs=tuple(map(_past_job, said.get("active", ()))),
        next=said.get("next_page_token", ""),
    )


def _past_job(said: Json) -> PastJob:
    return PastJob(
        job=said["job"],
        name=said.get("display_name", ""),
        queue=said.get("queue", ""),
        state=said.get("state", ""),
        since=moment(said.get("since_time")),
        attempt=number(said, "attempt"),
        request=amounts(said.get("request")),
        replicas=number(said, "replicas"),
        leases=tuple(map(_lease, said.get("leases", ()))),
        reason=said.get("reason", ""),
        message=said.get("message", ""),
        kept_in=said.get("kept_in", ""),
        yields_to=said.get("yields_to", ""),
    )


def _lease(said: Json) -> LeaseView:
    return LeaseView(
        rank=number(said, "rank"),
        node=said.get("node", ""),
        pool=said.get("pool", ""),
        devices=tuple(said.get("devices", ())),
        amounts=amounts(said.get("amounts")),
        granted_at=moment(said.get("granted_time")),
        started_at=moment(said.get("started_time")),
        overdue=said.get("overdue", False),
        suspended=said.get("suspended", False),
    )


def difference(said: Json) -> DiffView:
    return DiffView(
        before=number(said, "before"),
        before_now=moment(said.get("before_time")),
        after=number(said, "after"),
        after_now=moment(said.get("after_time")),
        changes=tuple(
            StateChange(
                kind=one.get("kind", ""),
                name=one.get("name", ""),
                change=one.get("change", ""),
                fields={each["field"]: (each.get("before", ""), each.get("after", "")) for each in one.get("fields", ())},
            )
            for one in said.get("changes", ())
        ),
        more=number(said, "more"),
    )
