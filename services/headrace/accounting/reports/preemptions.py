"""Preemptions and what became of their jobs, as a tenant or the provider may know it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from headrace.accounting.reports.usage import InvalidQuery
from headrace.accounting.storage.sql_statements import statements
from headrace.contracts.facts import LeaseRungV1, PreemptionOrderedV1
from headrace.contracts.messages.preemptions import (
    AttemptView,
    PreemptionJobView,
    PreemptionsAnswer,
    PreemptionsRequest,
    PreemptionView,
    StepView,
    VictimView,
)
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.values.ids import is_job_id
from headrace.service.answering import Refused
from headrace.views.visibility import ALL_TENANTS, hide_others

if TYPE_CHECKING:
    from collections.abc import Iterable

    from headrace.accounting.storage.database import Connection

LIMIT_MAX = 1_000
LAST = (2**62, 2**31 - 1)
FOREVER = 32_503_680_000_000_000  # the year 3000
ID_LENGTH = 26

_SQL = statements("preemptions")
_THROUGH = statements("history")["through"]


class _Row(NamedTuple):
    preemption: str
    ordered: int
    place: int
    job: str
    pool: str
    cause: str
    rule: str
    ordered_at: int
    settled_at: int | None
    to_signal: int | None
    grace: int | None
    to_release: int | None
    lost: int | None
    unused: str


class _Victim(NamedTuple):
    job: str
    attempt: int
    lost: int


class _Details(NamedTuple):
    """What is known of the jobs of some preemptions, by job, or by job and attempt."""

    jobs: dict[str, PreemptionJobView]
    lost: dict[tuple[str, int], int]
    attempts: dict[tuple[str, int], AttemptView]
    steps: dict[tuple[str, int], list[StepView]]


def check(question: PreemptionsRequest) -> None:
    """Raise `InvalidQuery` for invalid fields."""
    if min(question.ordered, question.place, *question.before, question.since, question.until) < 0:
        raise InvalidQuery("ordered, place, before, since, until: they must not be negative")
    if not 1 <= question.limit <= LIMIT_MAX:
        raise InvalidQuery(f"limit: write 1 to {LIMIT_MAX}")
    if question.until and question.since >= question.until:
        raise InvalidQuery("since, until: the period ends before it begins; exchange them")
    if question.job and not is_job_id(question.job):
        raise InvalidQuery(f"job: {question.job[:80]!r} is not a job id, which is a lower-case ULID of {ID_LENGTH} characters")


async def answer(connection: Connection, tenant: str, question: PreemptionsRequest) -> PreemptionsAnswer:
    """A page of preemptions, or one, as `tenant` (`ALL_TENANTS`: the provider) may know it. Raises `InvalidQuery`, `Refused`."""
    check(question)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        through = await connection.fetchval(_THROUGH) or 0
        if question.ordered:
            return PreemptionsAnswer(through=through, preemptions=(await _one(connection, tenant, question),))
        rows = [_Row(*row) for row in await connection.fetch(_SQL["page"], *_page_of(tenant, question))]
        page = rows[: question.limit]
        victims = await _victims(connection, page)
        details = await _details(connection, page, victims)
    views = tuple(_view(row, victims.get(row.preemption, []), details, tenant) for row in page)
    return PreemptionsAnswer(through=through, preemptions=views, more=len(rows) > question.limit)


def _page_of(tenant: str, question: PreemptionsRequest) -> tuple[object, ...]:
    before = question.before if question.before[0] else LAST
    return (tenant, *before, question.since, question.until or FOREVER, question.job, question.limit + 1)


async def _one(connection: Connection, tenant: str, question: PreemptionsRequest) -> PreemptionView:
    found = await connection.fetchrow(_SQL["one"], question.ordered, question.place)
    row = None if found is None else _Row(*found)
    victims = {} if row is None else await _victims(connection, [row])
    if row is None or not any(_is_own(job, tenant) for job in (row.job, *(one.job for one in victims[row.preemption]))):
        fact = f"{question.ordered}.{question.place}"
        raise Refused("NOT_FOUND", f"name: fact {fact} ordered no preemption that concerns you; list them to see their names")
    details = await _details(connection, [row], victims, whole=True)
    view = _view(row, victims[row.preemption], details, tenant)
    if not _is_own(row.job, tenant):
        return view
    begun = await connection.fetchval(_SQL["started"], row.job, row.ordered_at)
    attempts = {} if begun is None else await _attempts(connection, [(row.job, begun)])
    return replace(view, places=await _places(connection, row), started=attempts.get((row.job, begun or 0)))


def _is_own(job: str, tenant: str) -> bool:
    return tenant == ALL_TENANTS or job.startswith(f"{tenant}.")


async def _victims(connection: Connection, rows: Iterable[_Row]) -> dict[str, list[_Victim]]:
    found: dict[str, list[_Victim]] = {row.preemption: [] for row in rows}
    for preemption, *victim in await connection.fetch(_SQL["victims"], list(found)):
        found[preemption].append(_Victim(*victim))
    return found


async def _details(
    connection: Connection, rows: Iterable[_Row], victims: dict[str, list[_Victim]], *, whole: bool = False
) -> _Details:
    rows, stopped = list(rows), [victim for each in victims.values() for victim in each]
    jobs = {row.job for row in rows} | {victim.job for victim in stopped}
    named = {
        job: PreemptionJobView(job=job, name=name, user=user, queue=f"{policy}/{profile}")
        for job, name, user, policy, profile in await connection.fetch(_SQL["jobs"], sorted(jobs))
    }
    pairs = [victim.job for victim in stopped], [victim.attempt for victim in stopped]
    lost = {(job, attempt): int(units) for job, attempt, units in await connection.fetch(_SQL["lost"], *pairs)}
    if not whole:
        return _Details(named, lost, {}, {})
    attempts = await _attempts(connection, list(zip(*pairs, strict=True)))
    return _Details(named, lost, attempts, await _steps(connection, rows[0].ordered, stopped))


async def _attempts(connection: Connection, wanted: list[tuple[str, int]]) -> dict[tuple[str, int], AttemptView]:
    """These attempts, and the one after each."""
    found = {}
    jobs, numbers = [job for job, _ in wanted], [number for _, number in wanted]
    for job, attempt, pool, granted, started, ended, resumed, checkpoint, saved, nodes in await connection.fetch(
        _SQL["attempts"], jobs, numbers
    ):
        found[job, attempt] = AttemptView(
            attempt=attempt,
            pool=pool,
            nodes=tuple(nodes),
            granted_at=granted,
            started_at=started,
            ended_at=ended,
            resume_from=resumed,
            checkpoint=checkpoint,
            checkpoint_at=saved,
        )
    return found


async def _steps(connection: Connection, ordered: int, victims: list[_Victim]) -> dict[tuple[str, int], list[StepView]]:
    attempts = {(victim.job, victim.attempt) for victim in victims}
    found: dict[tuple[str, int], list[StepView]] = {}
    for _, payload in await connection.fetch(_SQL["steps"], sorted({job for job, _ in attempts}), ordered):
        for fact in decode_record(payload).facts:
            if isinstance(fact, LeaseRungV1) and (fact.job, fact.attempt) in attempts:
                step = StepView(rank=fact.rank, rung=fact.rung, at=fact.at, took=fact.took, result=fact.result)
                found.setdefault((fact.job, fact.attempt), []).append(step)
    return found


async def _places(connection: Connection, row: _Row) -> tuple[tuple[int, str, tuple[str, ...]], ...]:
    """(rank, node, devices) of the preemptor, as ordered."""
    payload = await connection.fetchval(_SQL["record"], row.ordered)
    fact = decode_record(payload).facts[row.place]
    places = fact.places if isinstance(fact, PreemptionOrderedV1) else ()
    return tuple((rank, place.node, tuple(share.label for share in place.devices)) for rank, place in enumerate(places))


def _view(row: _Row, victims: list[_Victim], details: _Details, tenant: str) -> PreemptionView:
    own = [victim for victim in victims if _is_own(victim.job, tenant)]
    fields: dict[str, Any] = {name: value for name, value in row._asdict().items() if name not in ("preemption", "job")}
    fields["unused"] = hide_others(row.unused, tenant)
    return PreemptionView(
        **fields,
        preemptor=_job(row.job, details, tenant),
        victims=tuple(
            VictimView(
                job=_job(victim.job, details, tenant),
                expected=victim.lost,
                lost=str(details.lost.get((victim.job, victim.attempt), 0)),
                attempt=details.attempts.get((victim.job, victim.attempt)),
                steps=tuple(details.steps.get((victim.job, victim.attempt), ())),
                next=details.attempts.get((victim.job, victim.attempt + 1)),
            )
            for victim in own
        ),
        others=len(victims) - len(own),
    )


def _job(job: str, details: _Details, tenant: str) -> PreemptionJobView:
    return details.jobs.get(job, PreemptionJobView(job=job)) if _is_own(job, tenant) else PreemptionJobView()
