"""What keeping the use of GPUs costs: decoding and adding up samples, and PostgreSQL's answer to "GPU use of last month by team".

Nodes with 8 GPUs each send a sample every 5 seconds. The figures are seconds of CPU per second of real time (`core`), without the client of
NATS, and seconds until a minute is written and until the answer over a month of sums by hour. These take HEADRACE_POSTGRES_DSN, an empty
database that is filled.
"""

from __future__ import annotations

import asyncio
import os
import random
import time

from bench.options import options
from headrace.accounting.books.row_mapping import account_of
from headrace.accounting.books.utilization import LoadRow, Utilization
from headrace.accounting.reports import usage
from headrace.accounting.storage import load_store
from headrace.accounting.storage.database import Connection, Database
from headrace.accounting.storage.schema import migrate
from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, PolicyProfile, Pool, Profile
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.facts.records import Record
from headrace.contracts.messages.orders import DeviceSample, LeaseSample, Samples
from headrace.contracts.messages.usage import UsageRequest
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.contracts.values.durations import DAY, HOUR, MINUTE, SECOND
from headrace.contracts.values.ids import job_key, make_job_id
from headrace.domain.fold.apply import apply
from headrace.domain.state.state import State

EVERY = 5 * SECOND
START = 480_000 * HOUR
ACCOUNT = ("acme", "p1", "p1", "any", "u1", False, "hq")


def filled(nodes: int) -> State:
    """Nodes with 8 GPUs, and on each node a job that holds all of them."""
    state = State()
    pool, profile = Pool(name="hq", selector={"site": "hq"}), Profile(name="any", request={"gpu": GPU_UNITS}, pools=("hq",))
    policies = [Policy(tenant="acme", name=f"p{n}", group=f"p{n}", profiles=(PolicyProfile(name="any"),)) for n in range(50)]
    facts: list[f.AnyFact] = [f.PoolAppliedV1(author="a.b", pool=pool), f.ProfileAppliedV1(author="a.b", profile=profile)]
    facts += [f.PolicyAppliedV1(author="a.b", policy=policy) for policy in policies]
    devices = tuple(f.nodes.Device(device=f"gpu{n}", model="H100", memory=80_000) for n in range(8))
    steps: list[tuple[str, list[f.AnyFact]]] = [("governance", facts)]
    for number in range(nodes):
        node = f"n{number}"
        key = job_key("acme", "alice", make_job_id(number + 1, bytes(10)))
        registered = f.NodeRegisteredV1(node=node, labels={"site": "hq"}, devices=devices, cpu=10**6, memory=10**6, at=0)
        admitted = f.JobAdmittedV1(job=key, policy=f"p{number % 50}", profile="any", request={"gpu": 8 * GPU_UNITS})
        shares = tuple(DeviceShare(device=f"gpu{n}", units=GPU_UNITS) for n in range(8))
        amounts = {"gpu": 8 * GPU_UNITS, "job": 1}
        granted = f.LeaseGrantedV1(job=key, attempt=1, node=node, pool="hq", amounts=amounts, devices=shares)
        steps += [(f"node.{node}", [registered]), ("admission", [admitted]), ("allocator", [granted])]
        steps += [(f"node.{node}", [f.LeaseStartedV1(job=key, attempt=1, rank=0, at=1)])]
    for sequence, (by, facts) in enumerate(steps, 1):
        apply(state, Record(by=by, now=sequence, engine="bench", as_of=sequence - 1, facts=tuple(facts)), sequence)
    return state


def adding_up(nodes: int, minutes: int) -> float:
    """Share of a core that decoding and adding up the samples of these nodes takes."""
    state, chance = filled(nodes), random.Random(1)
    loads = Utilization(lambda job: account_of(job, service_account=False))
    payloads = []
    for node in state.nodes.values():
        devices = tuple(
            DeviceSample(
                device=device.name, busy=chance.randint(0, 100), memory_used=70_000, memory=80_000, held=MINUTE, average=50
            )
            for device in node.devices
        )
        (lease,) = node.leases.values()
        own = LeaseSample(
            lease=f"{lease.job.key}/1/0", cpu=8_000, memory=9_000, devices={device.device: 70_000 for device in devices}
        )
        payloads.append((node.name, encode(Samples(node=node.name, at=0, window=1, devices=devices, leases=(own,)))))
    spent, rows = 0.0, 0
    for look in range(minutes * MINUTE // EVERY + 1):
        now = START + look * EVERY
        began = time.process_time()
        for number, (name, payload) in enumerate(payloads):
            loads.enter(decode(payload, Samples), state.nodes[name], now + number * EVERY // nodes)
        rows += sum(len(found) for _, found in loads.complete(now))
        spent += time.process_time() - began
    if not rows:
        raise AssertionError("no minute was complete")
    return spent / (minutes * MINUTE / SECOND)


async def asking(accounts: int) -> tuple[float, float]:
    """Seconds until a minute of 8,000 GPUs is written, and until use of a month by group is answered."""
    database = Database(os.environ["HEADRACE_POSTGRES_DSN"])

    async def work(connection: Connection) -> tuple[float, float]:
        await migrate(connection)
        first = START // HOUR
        days, loads = "'gpu', 0, 3600000000, 0, 0, 0, 0, 0", "3600000000, 3600000000, 1800000000, 0"
        for table, start, last, rest in (("days", first // 24, 29, days), ("load_hours", first, 719, loads)):
            await connection.execute(f"TRUNCATE headrace.{table}")
            await connection.execute(
                f"INSERT INTO headrace.{table} "
                f"SELECT {start} + h, 'acme', 'g' || a % 50, 'p' || a % 50, 'any', 'u' || a, false, 'hq', {rest} "
                f"FROM generate_series(0, {last}) AS h, generate_series(1, {accounts}) AS a"
            )
        await connection.execute("UPDATE headrace.position SET sequence = 1, now = $1", START + 30 * DAY)
        await connection.execute(
            "INSERT INTO headrace.records VALUES (1, 'hr.ledger.bench', $1, $1, '', '', '') ON CONFLICT DO NOTHING", START
        )
        await connection.execute("ANALYZE headrace.days, headrace.load_hours")
        rows = [
            LoadRow(START // MINUTE, f"n{number // 8}", f"gpu{number % 8}", number // 8, 1, 1, 1, 0, 1, *ACCOUNT)
            for number in range(8_000)
        ]
        began = time.perf_counter()
        await load_store.add(connection, START // MINUTE, rows)
        written = time.perf_counter() - began
        began = time.perf_counter()
        answer = await usage.answer(connection, "acme", UsageRequest(since=START, until=START + 30 * DAY, by=("group",)))
        if not any(int(row.busy) for row in answer.rows):
            raise AssertionError("the answer has no use")
        return written, time.perf_counter() - began

    try:
        return await database.once(work)
    finally:
        await database.close()


if __name__ == "__main__":
    parser = options("bench.utilization", __doc__, "1 minute")
    parser.add_argument("--nodes", type=int, default=1_000, help="with 8 GPUs each")
    parser.add_argument("--minutes", type=int, default=3, help="of samples")
    parser.add_argument("--accounts", type=int, default=500, help="users with use in each hour of the month")
    asked = parser.parse_args()
    print(f"samples of {8 * asked.nodes} GPUs every 5 s: {100 * adding_up(asked.nodes, asked.minutes):.1f} % of a core")
    if os.environ.get("HEADRACE_POSTGRES_DSN"):
        written, answered = asyncio.run(asking(asked.accounts))
        print(f"a minute of 8,000 GPUs is written in {written:.2f} s; use of a month by group is answered in {answered:.2f} s")
    else:
        print("writing, and use of a month by group: not measured, HEADRACE_POSTGRES_DSN is not set")
