"""Maps the shared fold and its facts to rows of the books. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.accounting.books.rollups import RollupAccount
from headrace.accounting.books.rows import ArrayPartRow, JobRow, LeaseRow, NodeRow, plain, plain_map
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Group
from headrace.contracts.facts.fact import Fact
from headrace.contracts.transport.subjects import asker_of
from headrace.contracts.values.amounts import without_models
from headrace.domain.model.job_states import FINAL, JobState
from headrace.domain.model.jobs import ArrayState, JobRecord, UnstartedElements
from headrace.domain.model.nodes import NodeState
from headrace.domain.state.state import State

ABOUT_MAX = 200
"""Maximum length in characters; a node may send any name, and an index of the database has a limit."""

_NAMED_BY = ("job", "node", "name", "handle")
_DOCUMENTS = ("tenant", "user", "group", "pool", "profile", "policy")


def about(fact: Fact) -> str:
    """The subject of a fact: the job key, else the node, else the document's name, `<tenant>/<name>` if it has a tenant.

    Of refused submissions without a job: the user, `<tenant>.<user>`.
    """
    describe = _ABOUT.get(type(fact))
    if describe is None:
        describe = _ABOUT[type(fact)] = _description(type(fact))
    return plain(describe(fact)[:ABOUT_MAX])


def _description(kind: type[Fact]) -> Callable[[Any], str]:
    fields = kind.__struct_fields__
    name = next((field for field in _NAMED_BY if field in fields), None)
    if name is not None:
        return _with_tenant(name) if "tenant" in fields else lambda fact: str(getattr(fact, name))
    document = next((field for field in _DOCUMENTS if field in fields), None)
    return (lambda fact: _document_name(getattr(fact, document))) if document is not None else lambda _fact: ""


def _with_tenant(name: str) -> Callable[[Any], str]:
    return lambda fact: f"{fact.tenant}/{getattr(fact, name)}" if fact.tenant else str(getattr(fact, name))


def _document_name(document: Any) -> str:
    if isinstance(document, str):
        return document
    tenant = getattr(document, "tenant", "")
    name = getattr(document, "name", "") or getattr(document, "handle", "")
    return f"{tenant}/{name}" if tenant else str(name)


_ABOUT: dict[type[Fact], Callable[[Any], str]] = {
    f.WishRefusedV1: lambda fact: ".".join(filter(None, asker_of(fact.subject))),
    f.RefusalsCountedV1: lambda fact: f"{fact.tenant}.{fact.user}",
    f.AccountNumberedV1: lambda fact: f"{fact.tenant}.{fact.user}",
}


def job_row(job: JobRecord, account: RollupAccount) -> JobRow:
    """A job as the fold has it now, with the account of its admission."""
    policy = job.policy.document
    return JobRow(
        job=job.key,
        tenant=policy.tenant,
        user_name=job.user,
        group_name=account.group,
        policy=policy.name,
        profile=job.profile,
        name=plain(job.name),
        request=without_models((job.request.first if job.state is JobState.PENDING else job.request).amounts),
        replicas=job.request.replicas,
        preemptible=job.preemptible,
        priority=job.priority,
        labels=plain_map(job.labels),
        admitted=job.order[0],
        admitted_at=job.admitted_at,
        state=job.state.value,
        reason=plain(job.reason),
        message=plain(job.message),
        attempts=job.attempt,
        preemptions=job.preemptions,
        exit_code=job.exit_code,
        ended_at=job.ended_at if job.state in FINAL else None,
        service_account=account.service_account,
        waiting_since=job.pending_since if job.state is JobState.PENDING and not _is_array(job) else None,
    )


def _is_array(job: JobRecord) -> bool:
    """True for an array as one: the waits of its elements are counted when they end."""
    return job.array is not None and job.array.job is job


def array_parts(array: ArrayState, gone: UnstartedElements) -> list[ArrayPartRow]:
    """Elements that ended without having been granted anything."""
    ranges, step = array.range.indices(gone.numbers), array.range.step
    return [
        ArrayPartRow(array.job.key, first, last, step, gone.state.value, plain(gone.reason), gone.at) for first, last in ranges
    ]


def rejected_row(fact: f.JobRejectedV1, sequence: int, now: int) -> JobRow:
    """A job that was rejected at once (R13)."""
    tenant, user, _ = fact.job.split(".")
    return JobRow(
        job=fact.job,
        tenant=tenant,
        user_name=user,
        group_name="",
        policy=fact.policy,
        profile=fact.profile,
        name=plain(fact.name),
        request={},
        replicas=1,
        preemptible=True,
        priority=0,
        labels={},
        admitted=sequence,
        admitted_at=now,
        state="rejected",
        reason=fact.reason,
        message=plain(fact.message),
        attempts=0,
        preemptions=0,
        exit_code=None,
        ended_at=now,
    )


def new_lease(job: JobRecord, fact: f.LeaseGrantedV1, number: int, now: int, *, service_account: bool = False) -> LeaseRow:
    """A lease that begins now."""
    policy = job.policy.document
    return LeaseRow(
        lease=number,
        job=job.key,
        attempt=fact.attempt,
        rank=fact.rank,
        tenant=policy.tenant,
        user_name=job.user,
        group_name=plain(policy.group),
        policy=policy.name,
        profile=job.profile,
        pool=fact.pool,
        node=fact.node,
        devices={plain(share.device): share.units for share in fact.devices},
        amounts=fact.amounts,
        preemptible=job.preemptible,
        granted_at=now,
        heard_at=now,
        service_account=service_account,
        over_budget=fact.over_budget,
    )


def account_of(job: JobRecord, *, service_account: bool) -> RollupAccount:
    """The account of a job by the present state; without a pool."""
    policy = job.policy.document
    return RollupAccount(policy.tenant, plain(policy.group), policy.name, job.profile, job.user, service_account, "")


def service_accounts(state: State) -> frozenset[tuple[str, str]]:
    """(tenant, user) of all service accounts that groups name."""
    groups = (written.document for written in state.groups.values())
    return frozenset((group.tenant, name) for group in groups if isinstance(group, Group) for name in group.service_accounts)


def node_row(node: NodeState) -> NodeRow:
    """A node as the fold has it now."""
    return NodeRow(
        node=node.name,
        pool=node.pool,
        state=node.status,
        cordoned=plain(node.cordoned),
        labels=plain_map(node.labels),
        model=plain(node.model),
        gpus=len(node.devices),
        cpu=node.cpu,
        memory=node.memory,
        registered_at=node.registered_at,
    )
