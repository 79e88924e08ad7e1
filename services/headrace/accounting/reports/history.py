"""Answers audit queries from the copy of every record, a page at a time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from headrace.accounting.reports.usage import InvalidQuery
from headrace.accounting.storage.database import Connection
from headrace.accounting.storage.sql_statements import statements
from headrace.contracts.facts.derived_facts import with_implied_facts
from headrace.contracts.facts.records import Record
from headrace.contracts.messages.audit import AuditAnswer, AuditLine, AuditRequest
from headrace.contracts.transport.codec import decode_record
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import IdError, is_job_id, is_token, split_job_key
from headrace.domain.state.state import State
from headrace.views import audit_lines
from headrace.views.causes import Ref, StatedFact, around, causes, relatives
from headrace.views.pseudonyms import meant
from headrace.views.visibility import ALL_TENANTS, is_known, sees_node, tenants_of

STRETCH = 20_000
"""Maximum number of records that one page looks at."""
LINES_MAX = 1_000
APART = 5 * SECOND
"""How far the times of records may be out of order: a writer may be at most 2 s ahead (R34)."""
RELATIVES_MAX = 200
"""Maximum number of jobs that are searched for causes."""
STORY_MAX = 20_000
"""Maximum number of their records."""

_SQL = statements("history")


async def answer(connection: Connection, tenant: str, user: str, question: AuditRequest, state: State) -> AuditAnswer:
    """A page of the history as `tenant` (`ALL_TENANTS`: the provider) may read it. Raises `InvalidQuery`."""
    check(question)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        through = await connection.fetchval(_SQL["through"]) or 0
        await _check_names(connection, tenant, question, state)
        if question.causes:
            return await _causes(connection, tenant, user, question.causes, state, through)
        return await _page(connection, tenant, user, question, state, through)


def check(question: AuditRequest) -> None:
    """Raise `InvalidQuery` for invalid fields."""
    if min(question.after, question.since, question.until) < 0 or not 1 <= question.limit <= LINES_MAX:
        raise InvalidQuery(f"after, since, until, limit: they must not be negative, and limit is 1 to {LINES_MAX}")
    if question.until and question.since >= question.until:
        raise InvalidQuery("since, until: the time ends before it begins; exchange them")
    if question.user and not is_token(question.user):
        raise InvalidQuery(f"user: invalid name {question.user[:80]!r}")
    if question.node and not is_token(question.node):
        raise InvalidQuery(f"node: invalid name {question.node[:80]!r}")
    for kind in question.kinds:
        if not any(known == kind or known.startswith(f"{kind}.") for known in audit_lines.TYPES):
            nouns = ", ".join(sorted({known.partition(".")[0] for known in audit_lines.TYPES}))
            raise InvalidQuery(
                f"kinds: unknown kind {kind[:80]!r}; use one of {nouns}, or one of them with its verb, as in lease.granted"
            )


async def _check_names(connection: Connection, tenant: str, question: AuditRequest, state: State) -> None:
    """Raise `InvalidQuery` for a node or a user that appears in no record that the tenant may read."""
    node, user = question.node, question.user
    if node:
        there = state.nodes.get(node)
        is_seen = sees_node(state, tenant, there) if there is not None else await connection.fetchval(_SQL["is_named"], [node])
        if not is_seen:
            raise InvalidQuery(f"node: no record speaks of a node {node}; `headrace nodes` lists them")
    if user and not await _is_known(connection, tenant, user, state):
        raise InvalidQuery(
            f"user: no record speaks of a user {user}{f' of tenant {tenant}' if tenant else ''}; look at the name"
        )


async def _is_known(connection: Connection, tenant: str, user: str, state: State) -> bool:
    tenants = tenants_of(state) if tenant == ALL_TENANTS else (tenant,)
    handles = {owner: handle for owner in tenants if (handle := meant(state, owner, user)) is not None}
    if any(is_known(state, owner, handle) for owner, handle in handles.items()):
        return True
    if any(handle != user for handle in handles.values()):  # a pseudonym
        return True
    names = [f"{owner}{mark}{handle}" for owner, handle in handles.items() for mark in "./"]
    return bool(await connection.fetchval(_SQL["knows_user"], list(handles), user, names))


async def _page(
    connection: Connection, tenant: str, user: str, question: AuditRequest, state: State, through: int
) -> AuditAnswer:
    after = max(question.after, await _before(connection, question.since - APART, through) if question.since else 0)
    last = await _before(connection, question.until + APART, through) if question.until else through
    if question.job:
        job = await _job(connection, tenant, user, question.job)
        sequences = await _fetch(connection, "of_job", job, after, last, question.limit)
        until = last if len(sequences) < question.limit else sequences[-1]
    else:
        job = ""
        until = min(last, after + STRETCH)
        first, beyond = ("", "") if question.node else _names(tenant, _handle(state, tenant, question.user))
        kinds = [f"{kind}." for kind in question.kinds]
        sequences = await _fetch(connection, "of_all", after, until, first, beyond, kinds, question.node, question.limit)
        until = until if len(sequences) < question.limit else sequences[-1]
    lines = [
        line
        for sequence, record in await _records(connection, sequences)
        for line in audit_lines.lines_of(record, sequence, tenant, state)
        if _passes(line, question, job, "" if job or question.node else tenant)
    ]
    return AuditAnswer(through=through, lines=tuple(lines), next=until if until < last else 0)


def _passes(line: AuditLine, question: AuditRequest, job: str, tenant: str) -> bool:
    """True if the line passes the filters; other facts of its record may have been searched for. `tenant`: required owner, or ""."""
    first, beyond = _names(tenant, "")
    if tenant and not (first <= line.about < beyond or line.about == tenant or _victims(line)):
        return False
    if line.at < question.since or (question.until and line.at >= question.until):
        return False
    if job and line.about != job and job not in _victims(line):
        return False
    if question.user and line.about.split(".")[1:2] != [question.user]:
        return False
    if question.node and question.node not in (line.about, line.fact.get("node"), line.by.removeprefix("node.")):
        return False
    return not question.kinds or any(line.type.startswith(f"{kind}.") for kind in question.kinds)


def _handle(state: State, tenant: str, user: str) -> str:
    """The handle by which the records name a user."""
    return (meant(state, tenant, user) or user) if user and tenant != ALL_TENANTS else user


def _victims(line: AuditLine) -> list[str]:
    """Victims in an order or a plan; in other facts `victims` is a number."""
    victims = line.fact.get("victims", ())
    return [victim["job"] for victim in victims] if isinstance(victims, list | tuple) else []


def _names(tenant: str, user: str) -> tuple[str, str]:
    """Bounds of the names of a tenant's objects, or of its user's; empty for all tenants.

    A tenant's jobs begin with `tenant.`, its objects with `tenant/`, which comes next; `0` comes after both.
    """
    if user and tenant != ALL_TENANTS:
        return f"{tenant}.{user}.", f"{tenant}.{user}/"
    return ("", "") if tenant == ALL_TENANTS else (f"{tenant}.", f"{tenant}0")


async def _before(connection: Connection, moment: int, through: int) -> int:
    """The last record of a time before `moment`, or one near it: times hardly go back, so a binary search is good enough."""
    low, high = 0, through
    while low < high:
        middle = (low + high + 1) // 2
        now = await connection.fetchval(_SQL["time_of"], middle)
        low, high = (middle, high) if now is None or now < moment else (low, middle - 1)
    return low


async def _job(connection: Connection, tenant: str, user: str, text: str) -> str:
    """A job by its key, or by its id: the user's own first, else the tenant's one with that id."""
    if not is_job_id(text):
        try:
            owner, _, _ = split_job_key(text)
        except IdError:
            raise InvalidQuery(f"job: {text[:80]!r} is not a job id, which is a lower-case ULID of 26 characters") from None
        if tenant not in (ALL_TENANTS, owner):
            raise InvalidQuery(f"job: {text} is not of tenant {tenant}")
        return text
    found = [row[0] for row in await connection.fetch(_SQL["jobs_of_id"], tenant, text)]
    if not found:
        raise InvalidQuery(f"job: {'the ledger' if tenant == ALL_TENANTS else f'tenant {tenant}'} has no job {text}")
    own = f"{tenant}.{user}.{text}"
    return own if own in found else str(found[0])


async def _fetch(connection: Connection, statement: str, *arguments: object) -> list[int]:
    return [row[0] for row in await connection.fetch(_SQL[statement], *arguments)]


async def _records(connection: Connection, sequences: Sequence[int]) -> list[tuple[int, Record]]:
    return [
        (sequence, decode_record(payload)) for sequence, payload in await connection.fetch(_SQL["records"], list(sequences))
    ]


async def _causes(connection: Connection, tenant: str, user: str, text: str, state: State, through: int) -> AuditAnswer:
    """Causes and effects of a job, a record or a fact."""
    record, _, place = text.partition(".")
    by_place = record.isdecimal() and (not place or place.isdecimal())
    if by_place:
        wanted = await _records(connection, [int(record)])
        if not wanted:
            raise InvalidQuery(f"causes: record {record} does not exist; the books reach to {through}")
        facts = [fact for number, fact in with_implied_facts(wanted[0][1].facts) if not place or number == int(place)]
        if not facts:
            raise InvalidQuery(f"causes: record {record} has facts 0 to {len(wanted[0][1].facts) - 1}, not {place}")
        jobs = [job for fact in facts for job in audit_lines.jobs_in(fact)]
    elif "." not in text and not is_job_id(text):
        raise InvalidQuery(
            f"causes: invalid value {text[:80]!r}; write a job's id, a record's number, or a fact's, such as 81234.2"
        )
    else:
        jobs = [await _job(connection, tenant, user, text)]
    records = await _stories(connection, jobs, [int(record)] if by_place else [], through)
    stated = [
        StatedFact((sequence, number), fact)
        for sequence, each in sorted(records.items())
        for number, fact in with_implied_facts(each.facts)
    ]
    links = causes(stated)
    focus = [each.ref for each in stated if _is_meant(each, record if by_place else "", place, jobs)]
    return AuditAnswer(through=through, lines=tuple(_linked(records, links, around(links, focus), tenant, state)))


def _is_meant(stated: StatedFact, record: str, place: str, jobs: Sequence[str]) -> bool:
    if record:
        return stated.ref[0] == int(record) and (not place or stated.ref[1] == int(place))
    return getattr(stated.fact, "job", "") in jobs


def _linked(
    records: dict[int, Record], links: dict[Ref, tuple[Ref, ...]], reached: set[Ref], tenant: str, state: State
) -> Iterable[AuditLine]:
    for sequence in sorted({ref[0] for ref in reached}):
        for line in audit_lines.lines_of(records[sequence], sequence, tenant, state):
            if (line.sequence, line.place) in reached:
                because = tuple(f"{ref[0]}.{ref[1]}" for ref in sorted(links[line.sequence, line.place]))
                yield replace(line, because=because)


async def _stories(connection: Connection, jobs: Sequence[str], also: Sequence[int], through: int) -> dict[int, Record]:
    """The records about these jobs, about their victims and preemptors, and about the nodes they were on."""
    records = dict(await _records(connection, also))
    ahead, known = list(dict.fromkeys(jobs)), set(jobs)
    nodes: set[str] = set()
    for generation in range(2):
        following: list[str] = []
        for job in ahead:
            sequences = await _fetch(connection, "of_job", job, 0, through, STORY_MAX - len(records))
            for sequence, record in await _records(connection, [each for each in sequences if each not in records]):
                records[sequence] = record
                for _, fact in with_implied_facts(record.facts):
                    if job in audit_lines.jobs_in(fact):
                        following += relatives(fact)
                        nodes |= {getattr(fact, "node", "")} if generation == 0 else set()
        ahead = [job for job in dict.fromkeys(following) if job not in known][: RELATIVES_MAX - len(known)]
        known |= set(ahead)
    first, last = (min(records), max(records)) if records else (0, 0)
    for node in sorted(nodes - {""}):
        sequences = await _fetch(connection, "of_job", node, first - 1, last, STORY_MAX)
        records |= dict(await _records(connection, [each for each in sequences if each not in records]))
    return records
