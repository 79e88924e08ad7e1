"""Answers of the API as the views of `contracts.messages`: amounts in units, times in microseconds, names as keys. Pure.

JSON leaves out what is empty, and has 64-bit integers as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.contracts.messages.explanation import (
    ChangeView,
    Holder,
    KeyNeed,
    PoolNeed,
    ReclaimView,
    UnusableView,
    Waiter,
    WhyView,
)
from headrace.contracts.messages.queries import (
    ApplyAnswer,
    AttemptView,
    BudgetView,
    Change,
    DocumentView,
    FactView,
    JobView,
    PoolKeyView,
    PoolView,
    QueueView,
    ScopeView,
    UserUseView,
)
from headrace.contracts.messages.tokens import NODE_TENANT, PROVIDER_TENANT, TokenRole, TokenView
from headrace.contracts.values.amounts import GPU, GPU_MEMORY, parse_amount
from headrace.contracts.values.durations import parse_time
from headrace.contracts.values.gpu_memory import ModelShare
from headrace.contracts.values.ids import job_key

Json = Mapping[str, Any]


def units(key: str, text: str) -> int:
    """An amount in units of its key; 0 for an empty text."""
    return -parse_amount(key, text[1:]) if text.startswith("-") else parse_amount(key, text) if text else 0


def amounts(answer: Json | None) -> dict[str, int]:
    """Amounts in units, by key."""
    return {key: units(key, text) for key, text in (answer or {}).items()}


def moment(text: str | None) -> int:
    """Microseconds since 1970; 0 without a time."""
    return parse_time(text) if text else 0


def _moment_or_none(text: str | None) -> int | None:
    return parse_time(text) if text else None


def number(answer: Json, field: str) -> int:
    return int(answer.get(field, 0))


def plain(value: Any) -> Any:
    """A value of `google.protobuf.Struct`: whole numbers as integers."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def key_of(name: str, user: str) -> str:
    """The key of a job, from its name in the API and its owner; empty for an empty name."""
    _, _, rest = name.partition("/")
    tenant, _, job_id = rest.partition("/jobs/")
    return str(job_key(tenant, user, job_id)) if name else ""


def job(answer: Json) -> JobView:
    key = key_of(answer["name"], answer["user"])
    tenant, user, job_id = key.split(".")
    texts = ("queue", "state", "reason", "message", "checkpoint", "mig", "array")
    return JobView(
        id=job_id,
        job=key,
        tenant=tenant,
        user=user,
        **{name: answer.get(name, "") for name in texts},
        name=answer.get("display_name", ""),
        preemptible=answer.get("preemptible", False),
        priority=number(answer, "priority"),
        request=amounts(answer.get("request")),
        replicas=number(answer, "replicas"),
        admitted_at=moment(answer.get("admit_time")),
        ended_at=moment(answer.get("end_time")),
        preemptions=number(answer, "preemptions"),
        exit_code=answer.get("exit_code"),
        labels=answer.get("labels", {}),
        attempts=tuple(map(_attempt, answer.get("attempts", ()))),
        elements=answer.get("elements", {}),
        idle_at=moment(answer.get("idle_time")),
        idle_yields=answer.get("idle_yields", False),
        gpu_memory=parse_amount(GPU_MEMORY, answer.get("gpu_memory") or "0"),
        shares=tuple(map(_share, answer.get("shares", ()))),
    )


def _share(one: Json) -> ModelShare:
    return ModelShare(model=one["gpu_model"], gpu=parse_amount(GPU, one["gpu"]), mig=one.get("mig", ""))


def _attempt(answer: Json) -> AttemptView:
    return AttemptView(
        attempt=number(answer, "attempt"),
        pool=answer.get("pool", ""),
        nodes=tuple(answer.get("nodes", ())),
        devices=tuple(answer.get("devices", ())),
        granted_at=moment(answer.get("grant_time")),
        started_at=moment(answer.get("start_time")),
        ended_at=moment(answer.get("end_time")),
        exit_code=answer.get("exit_code"),
        cause=answer.get("cause", ""),
        resume_from=answer.get("resume_from", ""),
    )


def fact(answer: Json) -> FactView:
    """One line of a job's history."""
    return FactView(
        sequence=number(answer, "record"),
        at=moment(answer.get("time")),
        by=answer.get("by", ""),
        type=answer.get("type", ""),
        text=answer.get("text", ""),
        rule=answer.get("rule", ""),
    )


def why(answer: Json) -> WhyView:
    reclaim, cheapest = answer.get("reclaim"), answer.get("cheapest")
    return WhyView(
        job=key_of(answer["name"], answer.get("user", "")),
        state=answer.get("state", ""),
        reason=answer.get("reason", ""),
        message=answer.get("message", ""),
        blockers=tuple(answer.get("blockers", ())),
        position=number(answer, "position"),
        could_reclaim=answer.get("could_reclaim", False),
        expected_start=_moment_or_none(answer.get("expected_start_time")),
        assumption=answer.get("assumption", ""),
        pools=tuple(map(_pool_need, answer.get("pools", ()))),
        behind=tuple(
            Waiter(job=_job_in(one), request=amounts(one.get("request")))  # a line for each would be longer
            for one in answer.get("behind", ())
        ),
        behind_more=number(answer, "behind_more"),
        holders=tuple(map(_holder, answer.get("holders", ()))),
        holders_more=number(answer, "holders_more"),
        reclaim=None if reclaim is None else _reclaim(reclaim),
        cheapest=None if cheapest is None else _advice(cheapest),
        sequence=number(answer, "sequence"),
        now=moment(answer.get("time")),
        notes=tuple(answer.get("notes", ())),
    )


def _job_in(answer: Json) -> str:
    return key_of(answer.get("job", ""), answer.get("user", ""))


def _pool_need(answer: Json) -> PoolNeed:
    return PoolNeed(
        pool=answer.get("pool", ""),
        reason=answer.get("reason", ""),
        message=answer.get("message", ""),
        fit=answer.get("fit", ""),
        keys=tuple(
            KeyNeed(key=one["key"], **_units_of(one, ("asked", "free", "missing", "used", "kept", "unusable", "capacity")))
            for one in answer.get("keys", ())
        ),
        scope=answer.get("scope", ""),
        unusable=tuple(map(_unusable, answer.get("unusable", ()))),
    )


def _units_of(answer: Json, fields: Iterable[str]) -> dict[str, int]:
    return {field: units(answer["key"], answer.get(field, "")) for field in fields}


def _unusable(answer: Json) -> UnusableView:
    return UnusableView(
        key=answer["key"],
        node=answer.get("node", ""),
        cause=answer.get("cause", ""),
        amount=units(answer["key"], answer.get("amount", "")),
        by=answer.get("by", ""),
        since=moment(answer.get("since_time")),
        detail=answer.get("detail", ""),
    )


def _holder(answer: Json) -> Holder:
    return Holder(
        job=_job_in(answer),
        request=amounts(answer.get("request")),
        pool=answer.get("pool", ""),
        nodes=tuple(answer.get("nodes", ())),
        preemptible=answer.get("preemptible", False),
        until=_moment_or_none(answer.get("until_time")),
    )


def _reclaim(answer: Json) -> ReclaimView:
    return ReclaimView(
        could=answer.get("could", False),
        why=answer.get("why", ""),
        cause=answer.get("cause", ""),
        at=_moment_or_none(answer.get("from_time")),
        victims=tuple(map(_holder, answer.get("victims", ()))),
    )


def _advice(answer: Json) -> ChangeView:
    return ChangeView(
        kind=answer.get("kind", ""),
        text=answer.get("text", ""),
        start=_moment_or_none(answer.get("start_time")),
        pool=answer.get("pool", ""),
        job=_job_in(answer),
        queue=answer.get("queue", ""),
        request=amounts(answer.get("request")),
    )


def queue(answer: Json) -> QueueView:
    _, tenant, _, policy, profile = answer["name"].split("/")
    return QueueView(
        name=f"{policy}/{profile}",
        tenant=tenant,
        policy=policy,
        profile=profile,
        pending=number(answer, "pending"),
        running=number(answer, "running"),
        scopes=tuple(map(_scope, answer.get("scopes", ()))),
        closed=answer.get("closed", ""),
        shut=answer.get("shut", False),
        opens_at=moment(answer.get("opens_time")),
        budgets=tuple(map(_budget, answer.get("budgets", ()))),
        fair_among=answer.get("fair_among", ""),
        users=tuple(map(_user_use, answer.get("users", ()))),
    )


def _user_use(answer: Json) -> UserUseView:
    used, limit = amounts(answer.get("used")), amounts(answer.get("limit"))
    waiting, most = number(answer, "pending"), number(answer, "max_pending")
    return UserUseView(user=answer["user"], used=used, limit=limit, pending=waiting, max_pending=most)


def _scope(answer: Json) -> ScopeView:
    limit = answer.get("limit", "")
    return ScopeView(
        key=answer["key"],
        limit=units(answer["key"], limit) if limit else None,
        **_units_of(answer, ("used", "reservation", "reserved", "borrowed")),
    )


def _budget(answer: Json) -> BudgetView:
    return BudgetView(
        key=answer["key"],
        hours=number(answer, "hours"),
        per=answer.get("per", ""),
        then=answer.get("then", ""),
        used=answer.get("used", ""),
        spent=answer.get("spent", False),
        ends_at=moment(answer.get("ends_time")),
        warning=answer.get("warning", ""),
    )


def pool(answer: Json) -> PoolView:
    return PoolView(
        name=answer["name"].removeprefix("pools/"),
        nodes=number(answer, "nodes"),
        keys=tuple(
            PoolKeyView(
                key=one["key"],
                causes=tuple(map(_unusable, one.get("causes", ()))),
                **_units_of(one, ("capacity", "usable", "used", "free", "kept", "unusable")),
            )
            for one in answer.get("keys", ())
        ),
        running=number(answer, "running"),
        pending=number(answer, "pending"),
    )


def document(answer: Json) -> DocumentView:
    """A document in force, now or at an earlier time."""
    return DocumentView(
        kind=answer["kind"],
        name=answer["name"],
        revision=int(answer.get("etag") or answer.get("revision") or 0),
        document=plain(answer.get("document", {})),
        closed=answer.get("closed", ""),
    )


def plan(answer: Json) -> ApplyAnswer:
    return ApplyAnswer(
        changes=tuple(
            Change(
                kind=one.get("kind", ""),
                name=one.get("name", ""),
                action=one.get("action", ""),
                fields=tuple(one.get("fields", ())),
                revision=int(one.get("etag") or 0),
            )
            for one in answer.get("changes", ())
        ),
        warnings=tuple(answer.get("warnings", ())),
        applied=answer.get("applied", False),
        running=number(answer, "running"),
        pending=number(answer, "pending"),
        revision=int(answer.get("revision") or 0),
    )


def token(answer: Json) -> TokenView:
    owner, role = answer["name"].split("/"), answer.get("role", "")
    apart = NODE_TENANT if role == TokenRole.NODE else PROVIDER_TENANT
    return TokenView(
        id=owner[-1],
        role=role,
        tenant=owner[1] if len(owner) == 4 else apart,
        handle=answer.get("handle", ""),
        author=answer.get("author", ""),
        created_at=moment(answer.get("create_time")),
        expires_at=moment(answer.get("expire_time")),
        revoked_at=moment(answer.get("revoke_time")),
    )
