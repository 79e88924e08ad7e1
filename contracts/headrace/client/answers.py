"""Answers of the API as the views of `contracts.messages`: amounts in units, times in microseconds, names as keys. Pure.

JSON leaves out what is empty, and has 64-bit integers as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.contracts.messages.burst import InstanceView, OfferView, PlanAnswer, PlannedInstance
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
    NodeView,
    PoolKeyView,
    PoolView,
    QueueView,
    ScopeView,
    UserUseView,
)
from headrace.contracts.messages.tokens import NODE_TENANT, PROVIDER_TENANT, TokenRole, TokenView
from headrace.contracts.values.amounts import CPU, GPU, MEMORY, parse_amount
from headrace.contracts.values.durations import parse_time
from headrace.contracts.values.ids import job_key

Json = Mapping[str, Any]


def units(key: str, text: str) -> int:
    """An amount in units of its key; 0 for an empty text."""
    return -parse_amount(key, text[1:]) if text.startswith("-") else parse_amount(key, text) if text else 0


def amounts(said: Json | None) -> dict[str, int]:
    """Amounts in units, by key."""
    return {key: units(key, text) for key, text in (said or {}).items()}


def moment(text: str | None) -> int:
    """Microseconds since 1970; 0 without a time."""
    return parse_time(text) if text else 0


def _moment_or_none(text: str | None) -> int | None:
    return parse_time(text) if text else None


def number(said: Json, field: str) -> int:
    return int(said.get(field, 0))


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


def job(said: Json) -> JobView:
    key = key_of(said["name"], said["user"])
    tenant, user, job_id = key.split(".")
    return JobView(
        id=job_id,
        job=key,
        tenant=tenant,
        user=user,
        name=said.get("display_name", ""),
        queue=said.get("queue", ""),
        state=said.get("state", ""),
        preemptible=said.get("preemptible", False),
        priority=number(said, "priority"),
        request=amounts(said.get("request")),
        replicas=number(said, "replicas"),
        admitted_at=moment(said.get("admit_time")),
        ended_at=moment(said.get("end_time")),
        preemptions=number(said, "preemptions"),
        reason=said.get("reason", ""),
        message=said.get("message", ""),
        exit_code=said.get("exit_code"),
        checkpoint=said.get("checkpoint", ""),
        labels=said.get("labels", {}),
        attempts=tuple(map(_attempt, said.get("attempts", ()))),
        mig=said.get("mig", ""),
    )


def _attempt(said: Json) -> AttemptView:
    return AttemptView(
        attempt=number(said, "attempt"),
        pool=said.get("pool", ""),
        nodes=tuple(said.get("nodes", ())),
        devices=tuple(said.get("devices", ())),
        granted_at=moment(said.get("grant_time")),
        started_at=moment(said.get("start_time")),
        ended_at=moment(said.get("end_time")),
        exit_code=said.get("exit_code"),
        cause=said.get("cause", ""),
        resume_from=said.get("resume_from", ""),
    )


def fact(said: Json) -> FactView:
    """One line of a job's history."""
    return FactView(
        sequence=number(said, "record"),
        at=moment(said.get("time")),
        by=said.get("by", ""),
        type=said.get("type", ""),
        text=said.get("text", ""),
        rule=said.get("rule", ""),
    )


def why(said: Json) -> WhyView:
    reclaim, cheapest = said.get("reclaim"), said.get("cheapest")
    return WhyView(
        job=key_of(said["name"], said.get("user", "")),
        state=said.get("state", ""),
        reason=said.get("reason", ""),
        message=said.get("message", ""),
        blockers=tuple(said.get("blockers", ())),
        position=number(said, "position"),
        could_reclaim=said.get("could_reclaim", False),
        expected_start=_moment_or_none(said.get("expected_start_time")),
        assumption=said.get("assumption", ""),
        pools=tuple(map(_pool_need, said.get("pools", ()))),
        behind=tuple(
            Waiter(job=_job_in(one), request=amounts(one.get("request")))  # a line for each would be longer
            for one in said.get("behind", ())
        ),
        behind_more=number(said, "behind_more"),
        holders=tuple(map(_holder, said.get("holders", ()))),
        holders_more=number(said, "holders_more"),
        reclaim=None if reclaim is None else _reclaim(reclaim),
        cheapest=None if cheapest is None else _advice(cheapest),
        sequence=number(said, "sequence"),
        now=moment(said.get("time")),
        notes=tuple(said.get("notes", ())),
    )


def _job_in(said: Json) -> str:
    return key_of(said.get("job", ""), said.get("user", ""))


def _pool_need(said: Json) -> PoolNeed:
    return PoolNeed(
        pool=said.get("pool", ""),
        reason=said.get("reason", ""),
        message=said.get("message", ""),
        fit=said.get("fit", ""),
        keys=tuple(
            KeyNeed(key=one["key"], **_units_of(one, ("asked", "free", "missing", "used", "kept", "unusable", "capacity")))
            for one in said.get("keys", ())
        ),
        scope=said.get("scope", ""),
        unusable=tuple(map(_unusable, said.get("unusable", ()))),
    )


def _units_of(said: Json, fields: Iterable[str]) -> dict[str, int]:
    return {field: units(said["key"], said.get(field, "")) for field in fields}


def _unusable(said: Json) -> UnusableView:
    return UnusableView(
        key=said["key"],
        node=said.get("node", ""),
        cause=said.get("cause", ""),
        amount=units(said["key"], said.get("amount", "")),
        by=said.get("by", ""),
        since=moment(said.get("since_time")),
        detail=said.get("detail", ""),
    )


def _holder(said: Json) -> Holder:
    return Holder(
        job=_job_in(said),
        request=amounts(said.get("request")),
        pool=said.get("pool", ""),
        nodes=tuple(said.get("nodes", ())),
        preemptible=said.get("preemptible", False),
        until=_moment_or_none(said.get("until_time")),
    )


def _reclaim(said: Json) -> ReclaimView:
    return ReclaimView(
        could=said.get("could", False),
        why=said.get("why", ""),
        cause=said.get("cause", ""),
        at=_moment_or_none(said.get("from_time")),
        victims=tuple(map(_holder, said.get("victims", ()))),
    )


def _advice(said: Json) -> ChangeView:
    return ChangeView(
        kind=said.get("kind", ""),
        text=said.get("text", ""),
        start=_moment_or_none(said.get("start_time")),
        pool=said.get("pool", ""),
        job=_job_in(said),
        queue=said.get("queue", ""),
        request=amounts(said.get("request")),
    )


def queue(said: Json) -> QueueView:
    _, tenant, _, policy, profile = said["name"].split("/")
    return QueueView(
        name=f"{policy}/{profile}",
        tenant=tenant,
        policy=policy,
        profile=profile,
        pending=number(said, "pending"),
        running=number(said, "running"),
        scopes=tuple(map(_scope, said.get("scopes", ()))),
        closed=said.get("closed", ""),
        shut=said.get("shut", False),
        opens_at=moment(said.get("opens_time")),
        budgets=tuple(map(_budget, said.get("budgets", ()))),
        fair_among=said.get("fair_among", ""),
        users=tuple(map(_user_use, said.get("users", ()))),
    )


def _user_use(said: Json) -> UserUseView:
    used, limit = amounts(said.get("used")), amounts(said.get("limit"))
    waiting, most = number(said, "pending"), number(said, "max_pending")
    return UserUseView(user=said["user"], used=used, limit=limit, pending=waiting, max_pending=most)


def _scope(said: Json) -> ScopeView:
    limit = said.get("limit", "")
    return ScopeView(
        key=said["key"],
        limit=units(said["key"], limit) if limit else None,
        **_units_of(said, ("used", "reservation", "reserved", "borrowed")),
    )


def _budget(said: Json) -> BudgetView:
    return BudgetView(
        key=said["key"],
        hours=number(said, "hours"),
        per=said.get("per", ""),
        then=said.get("then", ""),
        used=said.get("used", ""),
        spent=said.get("spent", False),
        ends_at=moment(said.get("ends_time")),
        warning=said.get("warning", ""),
    )


def pool(said: Json) -> PoolView:
    return PoolView(
        name=said["name"].removeprefix("pools/"),
        nodes=number(said, "nodes"),
        keys=tuple(
            PoolKeyView(
                key=one["key"],
                causes=tuple(map(_unusable, one.get("causes", ()))),
                **_units_of(one, ("capacity", "usable", "used", "free", "kept", "unusable")),
            )
            for one in said.get("keys", ())
        ),
        running=number(said, "running"),
        pending=number(said, "pending"),
    )


def node(said: Json) -> NodeView:
    return NodeView(
        name=said["name"].removeprefix("nodes/"),
        pool=said.get("pool", ""),
        state=said.get("state", ""),
        labels=said.get("labels", {}),
        model=said.get("model", ""),
        gpus=number(said, "gpus"),
        gpu_free=units(GPU, said.get("gpu_free", "")),
        cpu=units(CPU, said.get("cpu", "")),
        cpu_free=units(CPU, said.get("cpu_free", "")),
        memory=units(MEMORY, said.get("memory", "")),
        memory_free=units(MEMORY, said.get("memory_free", "")),
        leases=number(said, "leases"),
        last_heard=moment(said.get("heard_time")),
        slices={one["device"]: tuple(one.get("slices", ())) for one in said.get("slices", ())},
        dedicated_to=said.get("dedicated_to", ""),
        isolation=said.get("isolation", {}),
        unfit=said.get("unfit", {}),
        unapproved=tuple(said.get("unapproved", ())),
        reason=said.get("cordoned", ""),
    )


def instance(said: Json) -> InstanceView:
    """An instance of a pool that creates its nodes."""
    names = ("pool", "stage", "cause", "message", "provider", "provider_id", "offer", "market", "price", "cost")
    return InstanceView(
        instance=said["name"].removeprefix("instances/"),
        **{name: said.get(name, "") for name in names},
        ordered_at=moment(said.get("order_time")),
        joined_at=moment(said.get("join_time")),
        ended_at=moment(said.get("end_time")),
        jobs=number(said, "jobs"),
    )


def offer(said: Json) -> OfferView:
    """An offer of a pool as it stands now."""
    names = ("pool", "offer", "provider", "type", "region", "zone", "market", "price", "max_price", "closed")
    return OfferView(**{name: said.get(name, "") for name in names}, closed_until=moment(said.get("closed_until_time")))


def growth_plan(said: Json) -> PlanAnswer:
    """What would be ordered."""
    names = ("offer", "market", "price", "estimate")
    planned = (PlannedInstance(**{name: one.get(name, "") for name in names}) for one in said.get("instances", ()))
    return PlanAnswer(
        pool=said.get("pool", ""),
        provider=said.get("provider", ""),
        instances=tuple(planned),
        estimate=said.get("estimate", ""),
        notes=tuple(said.get("notes", ())),
    )


def document(said: Json) -> DocumentView:
    """A document in force, now or at an earlier time."""
    return DocumentView(
        kind=said["kind"],
        name=said["name"],
        revision=int(said.get("etag") or said.get("revision") or 0),
        document=plain(said.get("document", {})),
        closed=said.get("closed", ""),
    )


def plan(said: Json) -> ApplyAnswer:
    return ApplyAnswer(
        changes=tuple(
            Change(
                kind=one.get("kind", ""),
                name=one.get("name", ""),
                action=one.get("action", ""),
                fields=tuple(one.get("fields", ())),
                revision=int(one.get("etag") or 0),
            )
            for one in said.get("changes", ())
        ),
        warnings=tuple(said.get("warnings", ())),
        applied=said.get("applied", False),
        running=number(said, "running"),
        pending=number(said, "pending"),
        revision=int(said.get("revision") or 0),
    )


def token(said: Json) -> TokenView:
    owner, role = said["name"].split("/"), said.get("role", "")
    apart = NODE_TENANT if role == TokenRole.NODE else PROVIDER_TENANT
    return TokenView(
        id=owner[-1],
        role=role,
        tenant=owner[1] if len(owner) == 4 else apart,
        handle=said.get("handle", ""),
        author=said.get("author", ""),
        created_at=moment(said.get("create_time")),
        expires_at=moment(said.get("expire_time")),
        revoked_at=moment(said.get("revoke_time")),
    )
