"""The books in a real PostgreSQL are the same as the sum of the facts alone. What happens when something dies: `failures/test_books`."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import random
import re
import signal
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from msgspec.structs import replace

from headrace.accounting.books.charges import days
from headrace.accounting.books.costs import decimal
from headrace.accounting.books.periods import month, periods, zone
from headrace.accounting.books.utilization import LoadRow
from headrace.accounting.reports import history as history_of
from headrace.accounting.reports import invoice_query, preemptions, timeline, usage
from headrace.accounting.sampling import Sampling
from headrace.accounting.service import Accounting
from headrace.accounting.storage import batching, load_store
from headrace.accounting.storage.database import Database, DatabaseRefused
from headrace.accounting.storage.schema import SchemaError, migrate
from headrace.bus.log import LogBroken, LogRefused, Message
from headrace.bus.loop import Fenced
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.nats.streams import ensure_streams
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Pool
from headrace.contracts.documents.yaml_text import read_tree
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.records import Record
from headrace.contracts.messages.audit import AuditLine, AuditRequest, PoolBins, TimelineAnswer, TimelineRequest
from headrace.contracts.messages.orders import DeviceSample, Samples
from headrace.contracts.messages.preemptions import PreemptionJobView, PreemptionsAnswer, PreemptionsRequest
from headrace.contracts.messages.queries import Answer
from headrace.contracts.messages.usage import StatementRequest, UsageAnswer, UsageRequest, UsageRow
from headrace.contracts.transport.codec import decode, decode_record, encode
from headrace.contracts.transport.subjects import LEDGER_STREAM, query
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import HOUR, SECOND
from headrace.contracts.values.money import MILLION
from headrace.domain.fold.ledger import FoldedLedger
from headrace.domain.state.state import State
from headrace.service.answering import Refused, serve
from headrace.service.fold import LedgerFold
from headrace.simulate.scenario import read_scenario
from headrace.simulate.world import World
from headrace.views.audit_lines import lines_of
from headrace.views.visibility import ALL_TENANTS
from tests.integration.books import TABLES, Postgres, Running, append, keep_books, keeping, memory_log, stored_usage
from tests.integration.ledgers import History, added_up, busy
from tests.patience import PATIENCE
from tests.properties.bookkeeper import Bookkeeper


async def test_the_books_are_what_the_facts_add_up_to(postgres: Postgres, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "BATCH_MESSAGES", 37)
    monkeypatch.setattr(batching, "READ_AT_ONCE", 37)
    history = busy(1, 300)
    await keep_books(memory_log(history), postgres.dsn)
    assert await stored_usage(postgres) == added_up(history)
    copies = await postgres.fetch("SELECT subject, payload FROM headrace.records ORDER BY sequence")
    assert [tuple(row) for row in copies] == history.records
    ((facts, bodies),) = await postgres.fetch("SELECT count(*), count(body) FROM headrace.fact_bodies")
    assert facts == bodies == sum(len(decode(payload, Record).facts) for _, payload in history.records)


async def test_postgres_that_is_away_at_the_start_is_waited_for(postgres: Postgres) -> None:
    history = busy(5, 20)
    log = memory_log(history)
    postgres.end(signal.SIGINT)
    async with keeping(log, postgres.dsn) as accounting:
        await asyncio.sleep(0.2)
        status = await accounting.status("", "", b"")
        assert (status.folded, status.detail["behind"]) == (0, log.last_sequence)
        await postgres.up()
        await accounting.reaches(log.last_sequence)
    assert await stored_usage(postgres) == added_up(history)


async def test_a_release_known_late_changes_what_is_stored(postgres: Postgres) -> None:
    history = History()
    history.begin("rnd")
    old, new = history.admit(1, "rnd", 5), history.admit(2, "rnd", 3)
    history.grant(old, 5)
    history.grant(new, 3)
    log = memory_log(history)
    async with keeping(log, postgres.dsn) as accounting:
        await accounting.reaches(log.last_sequence)
        history.now += 3_600 * SECOND
        history.release(old, 61 * SECOND)
        log.append_now(*history.records[-1], None)
        await accounting.reaches(log.last_sequence)
        answer = await accounting.usage("acme", "alice", encode(UsageRequest(by=("job",))))
    assert await stored_usage(postgres) == added_up(history)
    gpu = {row.group["job"]: (row.reserved, row.borrowed) for row in answer.rows if row.key == "gpu" and row.jobs}
    assert gpu == {
        old: (str(5 * 60 * GPU_UNITS * SECOND), "0"),
        new: (str(3 * 3_540 * GPU_UNITS * SECOND), str(3 * 60 * GPU_UNITS * SECOND)),
    }


SCENARIOS = Path(__file__).parents[1] / "scenarios"
MEASURED = ("reserved", "borrowed", "idle", "suspended", "waiting", "kept", "provider_lost", "lost")


QUESTIONS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("tenant", "group", "user", "pool", "policy", "profile"), "", "UTC"),
    (("user", "service_account", "queue"), "day", "UTC"),
    (("group",), "day", "Asia/Kolkata"),
    (("policy",), "hour", "UTC"),
    (("node",), "day", "Asia/Kolkata"),
    (("node", "label:project"), "month", "Europe/Berlin"),
    (("job",), "", "UTC"),
)


async def some_at_a_time(books: Database, question: UsageRequest) -> tuple[UsageRow, ...]:
    """By the pages that a very busy time has."""
    rows: tuple[UsageRow, ...] = ()
    for _ in range(1_000):
        page = await books.once(partial(usage.answer, tenant="acme", question=question))
        rows += page.rows
        if not page.more:
            break
        question = replace(question, after=page.more)
    return rows


async def test_usage_is_what_the_facts_add_up_to_by_whatever_it_is_asked_for(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R17, R25, R37; the bookkeeper has the bytes of the records and nothing else."""
    history = busy(11, 120, service_accounts=("ci",), step=HOUR)
    log = memory_log(history)
    await keep_books(log, postgres.dsn)
    keeper = Bookkeeper().read_all(log.messages_after(0))
    since, until = keeper.first + 5 * HOUR + 7, keeper.now - 3 * HOUR - 11
    books = Database(postgres.dsn)
    for fields, per, timezone in QUESTIONS:
        question = UsageRequest(since=since, until=until, by=fields, per=per, timezone=timezone)
        answer = await books.once(partial(usage.answer, tenant="acme", question=question))
        cut = periods(since, until, per, zone(timezone))
        bounds = [since, *(period.until for period in cut)]
        numbers = {period.label: number for number, period in enumerate(cut)}
        rows = {
            (numbers[row.group.get(per, "")], tuple(row.group[field] for field in fields), row.key): row for row in answer.rows
        }
        assert answer.lines == len(answer.rows) == len(rows)
        if fields == ("job",):
            monkeypatch.setattr(usage, "BUSY", 3)
            monkeypatch.setattr(usage, "JOBS_AT_ONCE", 25)
            assert await some_at_a_time(books, question) == answer.rows
        assert {
            place: (*(int(getattr(row, measure)) for measure in MEASURED), row.cost, row.lost_cost)
            for place, row in rows.items()
        } == {
            place: (
                *(int(line[measure]) for measure in MEASURED),
                *(decimal(round(line[cost] * MILLION)) for cost in ("cost", "lost_cost")),
            )
            for place, line in keeper.account(bounds, fields).items()
        }
        assert all(int(row.total) == int(row.reserved) + int(row.borrowed) for row in answer.rows)
        assert sum(Decimal(row.cost) for row in answer.rows) > 0
        held = {place[:2]: row.jobs for place, row in rows.items() if place[2] == "job" and row.jobs}
        assert held == jobs_that_held(keeper, bounds, fields)
    await books.close()


def jobs_that_held(keeper: Bookkeeper, bounds: list[int], fields: tuple[str, ...]) -> dict[tuple[int, tuple[str, ...]], int]:
    found: dict[tuple[int, tuple[str, ...]], set[str]] = {}
    for lease in keeper.leases.values():
        for number, (since, until) in enumerate(pairwise(bounds)):
            if lease.granted < until and (lease.ended or keeper.now) > max(since, lease.granted):
                found.setdefault((number, lease.job.names(fields, lease)), set()).add(lease.job.key)
    return {place: len(jobs) for place, jobs in found.items()}


async def test_the_answer_to_a_tenant_is_its_own_and_the_providers_is_that_of_all(postgres: Postgres) -> None:
    history = busy(5, 30)
    log = memory_log(history)
    async with keeping(log, postgres.dsn) as accounting:
        await accounting.reaches(log.last_sequence)
        everybody = await accounting.provider_handlers()["usage"]("default", "root", encode(UsageRequest(by=("tenant",))))
        assert {row.group["tenant"] for row in everybody.rows} == {"acme"}
        with pytest.raises(Refused, match="tenant: unknown tenant acmee, now and in the past"):
            await accounting.usage("acmee", "alice", b"")
        assert (await accounting.usage("default", "alice", b"")).rows == ()


async def test_a_statement_is_the_sum_of_its_charges_and_has_the_same_bytes_when_the_books_are_made_anew(
    postgres: Postgres,
) -> None:
    """The bookkeeper rounds each account's day once, and adds up; so do the CSV, the JSON, and the FOCUS export."""
    history = busy(12, 150, service_accounts=("ci",), step=12 * HOUR)
    log = memory_log(history)
    await keep_books(log, postgres.dsn)
    books = Database(postgres.dsn)

    async def texts(month: str, timezone: str) -> dict[str, str]:
        question = StatementRequest(month=month, timezone=timezone)
        found = await books.once(partial(invoice_query.read, tenant="acme", question=question, currency="EUR"))
        lasting = [lease for lease in keeper.leases.values() if lease.ended is None and lease.granted < found.heading.until]
        assert found.heading.final == (found.heading.until <= keeper.now and not lasting)
        return {form: found.text(form) for form in invoice_query.FORMS}

    keeper = Bookkeeper().read_all(log.messages_after(0))
    asked = [("1970-01", "UTC"), ("1970-02", "Asia/Kolkata"), ("1970-03", "UTC")]
    whole = {question: await texts(*question) for question in asked}
    for (name, timezone), forms in whole.items():
        wanted = month(name, zone(timezone))
        bounds = days(wanted.since, min(wanted.until, keeper.now))
        fields = ("group", "policy", "profile", "user", "pool")
        costs: dict[Any, int] = {}
        for kind in ("reserved", "borrowed"):  # each is a charge of its own
            for (_, names, key, _), cost in keeper.charges(bounds, (*fields, "service_account"), kind).items():
                costs[*names, key] = costs.get((*names, key), 0) + round(cost * MILLION)
        for form in ("csv", "focus"):
            rows = list(csv.DictReader(io.StringIO(forms[form])))
            cost = "cost" if form == "csv" else "BilledCost"
            lines = rows[:-1] if form == "csv" else rows
            assert sum(Decimal(row[cost]) for row in lines) * MILLION == sum(costs.values())
        assert Decimal(json.loads(forms["json"])["total"]) * MILLION == sum(costs.values()) > 0
        assert Decimal(list(csv.DictReader(io.StringIO(forms["csv"])))[-1]["cost"]) * MILLION == sum(costs.values())
    await make_anew(postgres)
    await keep_books(memory_log(history), postgres.dsn)
    assert {question: await texts(*question) for question in asked} == whole
    await books.close()


async def make_anew(postgres: Postgres) -> None:
    """Empty everything but the copies of the records, as a migration does that has to."""
    tables = ", ".join(f"headrace.{table}" for table in TABLES if table not in ("records", "position"))
    await postgres.execute(f"TRUNCATE {tables}; UPDATE headrace.position SET sequence = 0, digest = '', now = 'epoch'")


async def test_books_that_are_made_anew_find_the_copies_of_the_records_and_see_that_they_are_the_same(
    postgres: Postgres,
) -> None:
    history = busy(6, 20)
    await keep_books(memory_log(history), postgres.dsn)
    whole = await postgres.tables()
    await make_anew(postgres)
    await keep_books(memory_log(history), postgres.dsn)
    assert await postgres.tables() == whole
    await make_anew(postgres)
    await postgres.execute("UPDATE headrace.records SET digest = 'another' WHERE sequence = 3")
    with pytest.raises(LogBroken, match=r"record 3 of the ledger is not the one that headrace\.records has a copy of"):
        await keep_books(memory_log(history), postgres.dsn)


def played(name: str) -> World:
    """A scenario, and the ledger that it left."""
    world = World(read_scenario(read_tree((SCENARIOS / name).read_text("utf-8"))))
    for _ in world.run():
        pass
    return world


async def whole(books: Database, tenant: str, state: State, **asked: Any) -> list[AuditLine]:
    """Every page of an answer."""
    question = AuditRequest(**asked)
    lines: list[AuditLine] = []
    while True:
        page = await books.once(partial(history_of.answer, tenant=tenant, user="ann", question=question, state=state))
        lines += page.lines
        if not page.next:
            return lines
        question = replace(question, after=page.next)


async def test_the_history_is_read_page_by_page_by_whatever_it_is_filtered(
    postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = played("V21.yaml")
    await keep_books(world.log, postgres.dsn)
    books, state = Database(postgres.dsn), world.state
    everything = await whole(books, ALL_TENANTS, state)
    lines = [line for m in world.log.messages_after(0) for line in lines_of(decode_record(m.payload), m.sequence, "", state)]
    assert everything == lines
    monkeypatch.setattr(history_of, "STRETCH", 2)
    assert await whole(books, ALL_TENANTS, state, limit=1) == lines
    assert all(line.engine and line.as_of < line.sequence for line in lines)
    tenants = {line.about.partition(".")[0] for line in lines if line.about.count(".") == 2}
    assert len(tenants) == 2
    for tenant in tenants:
        own = await whole(books, tenant, state)
        assert own
        assert own == [
            line
            for m in world.log.messages_after(0)
            for line in lines_of(decode_record(m.payload), m.sequence, tenant, state)
            if re.split("[./]", line.about)[0] == tenant or line.type == "preemption.ordered.v1"
        ]
        (other,) = tenants - {tenant}
        assert re.search(rf"\b{other}(\.[a-z]+\.|/)", encode(own).decode()) is None
    (job,) = {line.about for line in lines if line.type == "preemption.ordered.v1"}
    story = await whole(books, ALL_TENANTS, state, job=job)
    assert story == [line for line in lines if line.about == job]
    assert await whole(books, job.partition(".")[0], state, job=job.rpartition(".")[2]) != []
    (order,) = (line for line in lines if line.type == "preemption.ordered.v1")
    victim = order.fact["victims"][0]["job"]
    assert "preemption.ordered.v1" in {line.type for line in await whole(books, ALL_TENANTS, state, job=victim)}
    granted = await whole(books, ALL_TENANTS, state, kinds=("lease.granted", "job"), user=job.split(".")[1])
    assert granted == [
        line
        for line in lines
        if line.about.split(".")[1:2] == job.split(".")[1:2] and line.type.startswith(("lease.granted.", "job."))
    ]
    (node,) = {line.about for line in lines if line.type == "node.registered.v1"}
    assert await whole(books, ALL_TENANTS, state, node=node) == [
        line for line in lines if node in (line.about, line.fact.get("node"), line.by.removeprefix("node."))
    ]
    middle = sorted({line.at for line in lines})[len({line.at for line in lines}) // 2]
    assert await whole(books, ALL_TENANTS, state, since=middle) == [line for line in lines if line.at >= middle]
    assert await whole(books, ALL_TENANTS, state, until=middle) == [line for line in lines if line.at < middle]
    await books.close()


async def test_causes_are_followed_both_ways_from_a_job_a_record_or_a_fact(postgres: Postgres) -> None:
    world = played("V02.yaml")
    await keep_books(world.log, postgres.dsn)
    books, state, job = Database(postgres.dsn), world.state, world.names["d"]
    lines = await whole(books, ALL_TENANTS, state, causes=job.rpartition(".")[2])
    by_type = {line.type: line for line in lines if line.about == job}
    ordered = by_type["preemption.ordered.v1"]
    proposed = by_type["preemption.proposed.v1"]
    assert ordered.because == (f"{proposed.sequence}.{proposed.place}",)
    assert f"{ordered.sequence}.{ordered.place}" in by_type["lease.granted.v1"].because
    victim = ordered.fact["victims"][0]["job"]
    assert {"stop.ordered.v1", "lease.ended.v1", "job.requeued.v1"} <= {line.type for line in lines if line.about == victim}
    fact = await whole(books, ALL_TENANTS, state, causes=f"{ordered.sequence}.{ordered.place}")
    assert {line.about for line in fact} == {job, victim}
    assert await whole(books, ALL_TENANTS, state, causes=str(ordered.sequence)) != []
    for text, complaint in (
        ("999999", "causes: record 999999 does not exist; the books reach to"),
        (f"{ordered.sequence}.999", f"causes: record {ordered.sequence} has facts 0 to"),
        ("nonsense", "causes: invalid value 'nonsense'; write a job's id, a record's number, or a fact's, such as 81234.2"),
        ("non.sense", "job: 'non.sense' is not a job id"),
        ("01jd3v8k5w2m4x6z8b0c2e4g6h", "job: the ledger has no job 01jd3v8k5w2m4x6z8b0c2e4g6h"),
    ):
        with pytest.raises(usage.InvalidQuery, match=re.escape(complaint)):
            await whole(books, ALL_TENANTS, state, causes=text)
    with pytest.raises(usage.InvalidQuery, match="is not of tenant stranger"):
        await whole(books, "stranger", state, causes=job)
    assert await whole(books, "stranger", state, causes=str(ordered.sequence)) == []
    await books.close()


async def test_a_void_record_and_a_text_with_nul_are_kept_like_all_others(postgres: Postgres) -> None:
    history = History()
    history.begin("rnd")
    key = history.admit(1, "rnd", 1, name="a\0b", labels={"k\0": "v\0"})
    history.append_bytes("node.n1", b"no record at all")
    log = memory_log(history)
    async with keeping(log, postgres.dsn) as accounting:
        await accounting.reaches(log.last_sequence)
    ((name, labels),) = await postgres.fetch("SELECT name, labels::text FROM headrace.jobs WHERE job = $1", key)
    assert (name, labels) == ("a\ufffdb", '{"k\ufffd": "v\ufffd"}')
    ((sequence, payload, now),) = await postgres.fetch("SELECT sequence, payload, now FROM headrace.records WHERE void <> ''")
    assert (sequence, payload, now) == (log.last_sequence, b"no record at all", None)
    ((state, cordoned),) = await postgres.fetch("SELECT state, cordoned FROM headrace.nodes WHERE node = 'n1'")
    assert state == "ready"
    assert cordoned.startswith(f"its record {log.last_sequence} was void: ")


async def test_what_was_good_before_the_ledger_broke_is_in_the_books(postgres: Postgres) -> None:
    history = History()
    history.begin("rnd")
    history.append_bytes("allocator", b"no record at all")
    with pytest.raises(LogBroken, match=r"record 5 on hr\.ledger\.allocator is void"):
        await Accounting(memory_log(history), LedgerFold(), postgres.dsn).run()
    assert [tuple(row) for row in await postgres.fetch("SELECT sequence FROM headrace.position")] == [(4,)]


async def test_another_ledger_is_refused(postgres: Postgres) -> None:
    await keep_books(memory_log(busy(6, 10)), postgres.dsn)
    with pytest.raises(LogBroken, match="this is another ledger, or it was changed"):
        await Accounting(memory_log(busy(7, 30)), LedgerFold(), postgres.dsn).run()


async def test_a_ledger_that_lost_its_end_is_refused(postgres: Postgres) -> None:
    history = busy(6, 10)
    await keep_books(memory_log(history), postgres.dsn)
    del history.records[-1]
    with pytest.raises(LogBroken, match="it lost its end"):
        await Accounting(memory_log(history), LedgerFold(), postgres.dsn).run()


async def test_of_two_that_write_the_same_books_one_goes(postgres: Postgres) -> None:
    history = busy(8, 20)
    log = memory_log(history)
    await keep_books(log, postgres.dsn)
    first = Running(log, postgres.dsn)
    await first.reaches(log.last_sequence)
    history.now += SECOND
    history.reserve("rnd", 1)
    late = memory_log(history)
    await keep_books(late, postgres.dsn)
    history.reserve("rnd", 2)
    log.append_now(*history.records[-2], None)
    log.append_now(*history.records[-1], None)
    with pytest.raises(Fenced, match="another process writes these books"):
        async with asyncio.timeout(PATIENCE):
            await first.task


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("CREATE SCHEMA headrace", "has a schema 'headrace' that is not the books'"),
        ("CREATE SCHEMA headrace; CREATE TABLE headrace.migrations (id int)", "is not the books'"),
    ],
)
async def test_a_schema_of_another_program_is_left_alone(postgres: Postgres, sql: str, text: str) -> None:
    await postgres.execute(sql)
    with pytest.raises(SchemaError, match=text):
        await Accounting(memory_log(busy(9, 1)), LedgerFold(), postgres.dsn).run()


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("INSERT INTO headrace.migrations (version, name, digest) VALUES (999, 'x', 'y')", "written by a newer Headrace"),
        ("UPDATE headrace.migrations SET digest = 'other'", r"migration 1 \(books\) .* nothing is changed"),
    ],
)
async def test_books_of_another_version_are_left_alone(postgres: Postgres, sql: str, text: str) -> None:
    database = Database(postgres.dsn)
    await database.run(migrate)
    await postgres.execute(sql)
    with pytest.raises(SchemaError, match=text):
        await database.run(migrate)
    await database.close()


async def test_a_wrong_password_is_an_error_and_not_waited_for(postgres: Postgres) -> None:
    with pytest.raises(DatabaseRefused, match="password authentication failed"):
        await Database(postgres.dsn.replace("secret", "guess")).run(migrate)


async def test_every_table_and_view_says_what_it_is(postgres: Postgres) -> None:
    database = Database(postgres.dsn)
    await database.run(migrate)
    await database.close()
    ours = "relnamespace = 'headrace'::regnamespace AND relkind IN ('r', 'v')"
    silent = f"SELECT relname FROM pg_class WHERE {ours} AND obj_description(oid) IS NULL"
    assert await postgres.fetch(silent) == []


async def test_waits_are_found_by_both_of_their_ends(postgres: Postgres) -> None:
    database = Database(postgres.dsn)
    await database.run(migrate)
    await database.close()
    connection = await asyncpg.connect(postgres.dsn, server_settings={"enable_seqscan": "off"})
    for column, index in (("granted_at", "attempts_granted"), ("waiting_since", "attempts_waiting")):
        plan = await connection.fetch(f"EXPLAIN SELECT FROM headrace.attempts WHERE {column} < now()")
        assert f"Bitmap Index Scan on {index}" in str(plan)
    await connection.close()


class Moment:
    """A clock that is set."""

    def __init__(self, now: int) -> None:
        self.now = now


async def test_how_much_gpus_computed_is_what_the_samples_add_up_to_by_whatever_it_is_asked_for(postgres: Postgres) -> None:
    """Samples of two nodes over three hours, and a restart between them; the recount adds up what was said of each job."""
    history = History()
    history.begin("rnd", "ops")
    jobs = [history.admit(number, policy, 2, user=user) for number, policy, user in ((1, "rnd", "alice"), (2, "ops", "bob"))]
    for number, (key, node) in enumerate(zip(jobs, ("n1", "n2"), strict=True)):
        shares = tuple(DeviceShare(device=f"gpu{2 * number + place}", units=GPU_UNITS) for place in (0, 1))
        amounts = {"gpu": 2 * GPU_UNITS, "job": 1}
        history.append_facts(
            "allocator", f.LeaseGrantedV1(job=key, attempt=1, node=node, pool="hq", amounts=amounts, devices=shares)
        )
        history.append_facts(f"node.{node}", f.LeaseStartedV1(job=key, attempt=1, rank=0, at=history.now))
    log, fold = memory_log(history), FoldedLedger()
    for sequence, (subject, payload) in enumerate(history.records, 1):
        fold.read(Message(sequence, subject, history.now, payload))
    clock, chance, database = Moment(4 * SECOND), random.Random(1), Database(postgres.dsn)
    measured: dict[tuple[str, int], list[int]] = defaultdict(lambda: [0, 0, 0])
    for _ in range(2):
        async with keeping(log, postgres.dsn) as accounting:
            await accounting.reaches(log.last_sequence)
            sampling = Sampling(lambda: fold.state, database, lambda: clock.now)
            previous = None
            for _ in range(1_200):
                for number, key in enumerate(jobs):
                    devices = [
                        (f"gpu{2 * number + place}", chance.choice((None, 0, 40, 100)), chance.random() < 0.3)
                        for place in (0, 1)
                    ]
                    samples = tuple(DeviceSample(device=name, busy=busy, idle=idle) for name, busy, idle in devices)
                    sampling.enter(Samples(node=f"n{number + 1}", at=0, window=1, devices=samples))
                    for _, busy, idle in devices:
                        if previous is not None and busy is not None:
                            for second in range(previous // SECOND, clock.now // SECOND):
                                sums = measured[key, second // 3_600]
                                for place, amount in enumerate((100, busy, 100 * idle)):
                                    sums[place] += GPU_UNITS // 100 * SECOND * amount
                previous = clock.now
                clock.now += chance.choice((4, 5, 6)) * SECOND
                await sampling.write()
            clock.now += 120 * SECOND
            await sampling.write()
    await database.close()
    history.now = clock.now
    history.append_facts("governance", f.PoolAppliedV1(author="a.b", pool=Pool(name="hq", selector={"site": "hq"})))
    append(log, history, log.last_sequence, len(history.records))
    async with keeping(log, postgres.dsn) as accounting:
        await accounting.reaches(log.last_sequence)
        for by, per in (
            (("job",), "hour"),
            (("policy",), "hour"),
            (("user", "node"), ""),
            (("tenant",), ""),
            (("policy", "label:x"), ""),
        ):
            answer = await accounting.usage("acme", "alice", encode(UsageRequest(by=by, per=per)))
            found = {
                tuple(row.group.values()): (row.measured, row.busy, row.idle_held)
                for row in answer.rows
                if row.key == "gpu" and row.total != "0"
            }
            names = {
                "job": jobs,
                "policy": ("rnd", "ops"),
                "user": ("alice", "bob"),
                "node": ("n1", "n2"),
                "tenant": ("acme",) * 2,
            }
            expected: dict[tuple[str, ...], list[int]] = defaultdict(lambda: [0, 0, 0])
            for (key, hour), sums in measured.items():
                place = tuple(names[name][jobs.index(key)] if name in names else "" for name in by)
                label = (f"1970-01-01T{hour:02}:00+00:00",) if per else ()
                expected[(*label, *place)] = [a + b for a, b in zip(expected[(*label, *place)], sums, strict=True)]
            assert found == {key: tuple(map(str, sums)) for key, sums in expected.items()}, by


async def test_minutes_are_kept_for_two_days_and_hours_for_thirteen_months(postgres: Postgres) -> None:
    database = Database(postgres.dsn)
    await database.run(migrate)
    account = ("acme", "rnd", "rnd", "any", "alice", False, "hq")
    months = 396 * 24 * 60
    for minute in (60, months - 2 * 24 * 60, months):
        row = LoadRow(minute, "n1", "gpu0", 1_000, 10, 10, 5, 0, 7, *account)
        for _ in range(2):  # the second time is after an answer that was lost
            await database.run(partial(load_store.add, minute=minute, rows=[row]))
    assert [tuple(row) for row in await postgres.fetch("SELECT hour, measured, busy FROM headrace.load_hours ORDER BY 1")] == [
        (1, 10, 5),
        ((months - 2 * 24 * 60) // 60, 10, 5),
        (months // 60, 10, 5),
    ]
    await database.run(partial(load_store.forget, now=(months + 120) * 60 * SECOND))
    await database.close()
    kept = {
        table: [row[0] for row in await postgres.fetch(f"SELECT {column} FROM headrace.{table} ORDER BY 1")]
        for table, column in (("load_minutes", "minute"), ("load_device_hours", "hour"), ("load_hours", "hour"))
    }
    hours = [(months - 2 * 24 * 60) // 60, months // 60]
    assert kept == {"load_minutes": [months], "load_device_hours": hours, "load_hours": hours}


async def ask(connection: Any, tenant: str, question: UsageRequest) -> Answer:
    return decode((await connection.ask(query("accounting", "usage", tenant, "alice"), encode(question))).data, Answer)


async def test_usage_is_answered_to_the_api_tenant_by_tenant_and_to_no_user_on_the_bus(
    postgres: Postgres, nats_server: Any, login: Callable[[str], Any]
) -> None:
    history = History()
    history.begin("rnd")
    history.reserve("dev", 5)
    history.reserve("rnd", 5, tenant="other")
    keys = [history.admit(number, "rnd", 3) for number in (1, 2, 3)]
    stranger = history.admit(9, "rnd", 1, tenant="other")
    for key in keys:
        history.grant(key, 3)
    history.grant(stranger, 1)
    history.now += 10 * SECOND
    history.release(keys[2], history.now)
    key = history.admit(4, "dev", 3)
    history.grant(key, 3)
    history.now += 5 * SECOND
    history.reserve("dev", 4)
    operator, service = await login("operator"), await login("accounting")
    await ensure_streams(operator)
    log = JetStreamLog(operator, LEDGER_STREAM)
    for subject, payload in history.records:
        await log.append(subject, payload, None)
    async with keeping(JetStreamLog(service, LEDGER_STREAM), postgres.dsn) as accounting:
        await serve(service, "accounting", LedgerFold(), accounting.handlers())
        await serve(service, "provider", LedgerFold(), accounting.provider_handlers())
        await accounting.reaches(len(history.records))
        api = await login("governance")
        answer = decode(bytes((await ask(api, "acme", UsageRequest(by=("group",), per="day"))).body), UsageAnswer)
        wrong = await ask(api, "acme", UsageRequest(by=("colour",)))
        before = await ask(api, "acme", UsageRequest(since=5, until=4))
        ahead = await ask(api, "acme", UsageRequest(since=history.now + 1))
        everybody = query("provider", "usage", "acme", "alice")
        for name in ("acme-alice", "owner"):
            stranger_here = await login(name)
            for subject in (everybody, query("accounting", "usage", "acme", "alice")):
                with pytest.raises(LogRefused, match="may not publish"):
                    await stranger_here.ask(subject, encode(UsageRequest(by=("tenant",))))
        of_all = decode((await api.ask(everybody, encode(UsageRequest(by=("tenant",))))).data, Answer)
        tenants = {row.group["tenant"] for row in decode(bytes(of_all.body), UsageAnswer).rows if row.jobs}
        assert tenants == {"acme", "other"}
    unit = GPU_UNITS * SECOND
    gpu = [row for row in answer.rows if row.key == "gpu"]
    assert answer.through == len(history.records)
    assert [(row.group, row.total, row.reserved, row.borrowed, row.lost, row.jobs) for row in gpu] == [
        ({"group": "dev", "day": "1970-01-01"}, str(15 * unit), str(15 * unit), "0", "0", 1),
        ({"group": "rnd", "day": "1970-01-01"}, str(120 * unit), str(75 * unit), str(45 * unit), "0", 3),
    ]
    assert (wrong.code, before.code, ahead.code) == ("INVALID", "INVALID", "INVALID")
    assert wrong.error.startswith("by: usage is not kept by 'colour'")


async def preemptions_of(books: Database, tenant: str, **asked: Any) -> PreemptionsAnswer:
    return await books.once(partial(preemptions.answer, tenant=tenant, question=PreemptionsRequest(**asked)))


async def test_a_preemption_tells_each_tenant_of_its_own_jobs_and_counts_those_of_others(postgres: Postgres) -> None:
    world = played("V21.yaml")
    await keep_books(world.log, postgres.dsn)
    books, names = Database(postgres.dsn), world.names
    (listed,) = (await preemptions_of(books, ALL_TENANTS)).preemptions
    (whole,) = (await preemptions_of(books, ALL_TENANTS, ordered=listed.ordered, place=listed.place)).preemptions
    assert (whole.preemptor.job, whole.preemptor.name, whole.preemptor.queue) == (names["y1"], "y1", "ya/g4")
    assert (whole.pool, whole.cause, whole.rule, whole.lost) == ("a", "reclaim", "R26", 1_580)
    assert whole.places == ((0, "n", ("gpu4", "gpu5", "gpu6", "gpu7")),)
    assert [(one.job.job, one.expected, int(one.lost)) for one in whole.victims] == [
        (names["x3"], 792, 792 * GPU_UNITS * SECOND),
        (names["x4"], 788, 788 * GPU_UNITS * SECOND),
    ]
    first = whole.victims[0]
    assert [(step.rank, step.rung, step.result) for step in first.steps] == [(0, "told", "ok")]
    assert first.attempt is not None
    assert (first.attempt.nodes, first.attempt.ended_at, first.next) == (("n",), whole.ordered_at, None)
    assert whole.started is not None
    assert (whole.started.attempt, whole.started.granted_at) == (1, whole.ordered_at)
    bare = [replace(one, attempt=None, steps=(), next=None) for one in whole.victims]
    assert listed == replace(whole, places=(), started=None, victims=tuple(bare))
    (taken,) = (await preemptions_of(books, "x", ordered=listed.ordered, place=listed.place)).preemptions
    assert taken == replace(whole, preemptor=PreemptionJobView(), places=(), started=None)
    (given,) = (await preemptions_of(books, "y", ordered=listed.ordered, place=listed.place)).preemptions
    assert given == replace(whole, victims=(), others=2)
    assert (await preemptions_of(books, "z")).preemptions == ()
    for tenant, place in (("z", listed.place), (ALL_TENANTS, listed.place + 1)):
        with pytest.raises(Refused, match=rf"name: fact {listed.ordered}.{place} ordered no preemption that concerns you"):
            await preemptions_of(books, tenant, ordered=listed.ordered, place=place)
    of_job = [len((await preemptions_of(books, "x", job=names[job].split(".")[2])).preemptions) for job in ("x1", "x3")]
    assert of_job == [0, 1]
    before = await preemptions_of(books, ALL_TENANTS, before=(listed.ordered, listed.place))
    assert (before.preemptions, before.more) == ((), False)
    await books.close()


async def test_a_timeline_shows_a_tenant_its_own_use_and_of_others_the_sum(postgres: Postgres) -> None:
    world = played("V21.yaml")
    await keep_books(world.log, postgres.dsn)
    books = Database(postgres.dsn)

    async def asked(tenant: str, **question: Any) -> TimelineAnswer:
        request = TimelineRequest(**question)
        return await books.once(partial(timeline.answer, tenant=tenant, question=request, state=world.state))

    everything = await asked(ALL_TENANTS, bins=4)
    # x grows by two GPUs every two seconds until second 6; at second 400, the end of the books, y takes four
    assert everything.pools == (
        PoolBins(
            pool="a",
            usable=(8_000,) * 4,
            used=(7_760, 8_000, 8_000, 8_000),
            reserved=(3_960, 4_000, 4_000, 4_000),
            borrowed=(3_800, 4_000, 4_000, 4_000),
            kept=(0,) * 4,
            preemptions=(0, 0, 0, 1),
            growth=(0,) * 4,
        ),
    )
    assert (everything.changes, everything.pending) == ((9, 0, 0, 0), (0,) * 4)
    assert (everything.before, everything.sequences[-1]) == (0, everything.through)
    (of_y,) = (await asked("y", bins=4)).pools
    assert of_y == replace(everything.pools[0], reserved=(0,) * 4, borrowed=(0,) * 4, growth=(0,) * 4)
    part = await asked(ALL_TENANTS, bins=2, since=everything.since + 2 * SECOND, until=everything.since + 6 * SECOND)
    assert [(pool.used, pool.reserved) for pool in part.pools] == [((4_000, 6_000), (4_000, 4_000))]
    with pytest.raises(usage.InvalidQuery, match="bins: write 1 to 1000"):
        await asked(ALL_TENANTS, bins=0)
    await books.close()


async def test_the_parts_of_a_timeline_are_what_usage_is_in_each_of_them(postgres: Postgres) -> None:
    history = busy(5, 3_000)
    await keep_books(memory_log(history), postgres.dsn)
    books = Database(postgres.dsn)
    request = TimelineRequest(bins=13)
    found = await books.once(partial(timeline.answer, tenant=ALL_TENANTS, question=request, state=State()))
    length = (found.until - found.since) / 13
    for number in range(13):
        since, until = (found.since + (found.until - found.since) * part // 13 for part in (number, number + 1))
        rows = await some_at_a_time(books, UsageRequest(since=since, until=until, by=("pool",)))
        expected = {row.group["pool"]: row for row in rows if row.key == "gpu"}
        for pool in found.pools:
            row = expected.get(pool.pool)
            held = 0 if row is None else int(row.total) + int(row.provider_lost)
            assert pool.used[number] == pytest.approx(held * 1_000 / (GPU_UNITS * length), abs=1)
    records = [decode_record(message.payload).now for message in memory_log(history).messages_after(0)]
    ends = [sum(now < found.since + (found.until - found.since) * (part + 1) // 13 for now in records) for part in range(12)]
    assert list(found.sequences[:-1]) == pytest.approx(ends, abs=3)  # times may go back by moments
    await books.close()
