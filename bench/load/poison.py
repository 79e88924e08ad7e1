"""Poison on every subject: bytes that are nothing, too much, too deep, in another user's name; and what became of each."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.load.installed import bus, counted, headrace
from headrace.bus.log import LogError
from headrace.contracts.values.ids import ENTROPY_BYTES, make_job_id
from headrace.nats_client.connection import Connection

DEEP = b'{"jobs":' * 20_000
NONSENSE = (
    b"",
    b"\x00\xff\xfe",
    b"{",
    b"[]",
    b"null",
    b"1e999",
    DEEP,
    b'{"id": "x"}',
    b'{"id":"\xff"}',
    b"{" + b'"a":1,' * 100_000 + b'"b":2}',
)
AUDIT = ("--all-tenants", "--kind", "wish")
QUEUE = "hr.submit.default.bench.bench.one"


def _id(age_s: float = 0.0) -> str:
    return make_job_id(int((time.time() - age_s) * 1_000), secrets.token_bytes(ENTROPY_BYTES))


def submissions() -> list[tuple[str, bytes]]:
    """Subject and bytes of submissions that are invalid, not allowed, or repeated."""
    known = _id()
    good = json.dumps({"id": known, "command": ["true"]}).encode()
    return [
        *((QUEUE, payload) for payload in NONSENSE),
        ("hr.submit.default.bench.bench.none", good),
        ("hr.submit.nobody.bench.bench.one", good),
        ("hr.submit.default.stranger.bench.one", json.dumps({"id": _id(), "command": ["true"]}).encode()),
        ("hr.submit.DEFAULT.bench.bench.one", good),
        (QUEUE, good),
        (QUEUE, good),
        (QUEUE, json.dumps({"id": known, "command": ["false"]}).encode()),
        (QUEUE, json.dumps({"id": _id(90_000), "command": ["true"]}).encode()),
        (QUEUE, json.dumps({"jobs": [{"id": _id(), "command": ["true"]} for _ in range(1_001)]}).encode()),
        (QUEUE, json.dumps({"id": _id(), "command": ["true"], "retries": 10**30}).encode()),
        (QUEUE, json.dumps({"id": _id(), "command": ["x" * 900_000]}).encode()),
        (QUEUE, json.dumps({"id": _id(), "command": ["true"], "unheard": "of"}).encode()),
        (f"hr.cancel.default.bench.{_id()}", b"{"),
        (f"hr.cancel.default.bench.{_id()}", b""),
        ("hr.cancel.default.bench.nonsense", b""),
        (f"hr.requeue.default.bench.{_id()}", DEEP),
    ]


async def _ask(connection: Connection, subject: str, payload: bytes) -> str:
    """What the server or a service says: `stored`, or its refusal."""
    try:
        answer = json.loads((await connection.ask(subject, payload, within=2.0)).data)
    except (LogError, ValueError) as error:
        return type(error).__name__
    return "stored" if "seq" in answer and "error" not in answer else "refused"


@asynccontextmanager
async def poisoned(folder: Path) -> AsyncIterator[list[str]]:
    """All of it, once; then a line for each kind with what became of it."""
    report: list[str] = []
    words = ("token", "create", "--node", "poison", "--data", str(folder))
    made = (await asyncio.to_thread(headrace, *words)).stdout.split()[-1]
    owner, operator = await bus(folder, "owner"), await bus(folder)
    async with counted(folder) as (count, _):
        node = await _as_node(folder, made)
        before = count.submissions.total() + count.rejected.total() + count.counted.total()
        stored = [await _ask(owner, subject, payload) for subject, payload in submissions()]
        stored.append(await _ask(owner, QUEUE, b"x" * (1024 * 1024 + 8_000)))
        others = [await _ask(owner, "hr.ledger.allocator", b"{}"), await _ask(node, "hr.ledger.node.vm", b"{}")]
        records = [await _ask(node, "hr.ledger.node.poison", payload) for payload in NONSENSE]
        for subject in ("hr.telemetry.poison.heartbeat", "hr.telemetry.poison.samples"):
            for payload in NONSENSE:
                await node.publish(subject, payload)
        here = _nodes(folder)
        for subject in (
            *(f"hr.orders.{name}" for name in here),
            "hr.presence.feed",
            "hr.turn.allocator",
            "hr.feed.default.job.ended.x",
        ):
            for payload in NONSENSE:
                await operator.publish(subject, payload)
        questions = ("feed.jobs", "feed.nonsense", "governance.apply", "accounting.usage", "admission.judge", "audit.verified")
        answers = [
            await _ask(operator, f"hr.query.{what}.default.operator", payload) for what in questions for payload in NONSENSE
        ]
        yield report
        refused = count.submissions.total() + count.rejected.total() + count.counted.total() - before
        report.append(
            f"SUBMIT: {len(stored)} sent, {stored.count('stored')} stored, {refused} refused in the ledger"
            f" ({dict(count.submissions)}, {dict(count.rejected)})"
        )
        report.append(f"another's subject: {len(others)} sent, {others.count('stored')} stored")
        report.append(f"a node's records: {len(records)} sent, {records.count('stored')} stored, void and counted")
        report.append(f"questions: {len(answers)} asked, {len(answers) - answers.count('LogUnavailable')} answered")
        log = (await asyncio.to_thread(headrace, "audit", "log", "--data", str(folder), *AUDIT)).stdout
        report.append(f"`headrace audit log` tells of {log.count('is refused: ')} submissions that were refused")
        status = json.loads((await asyncio.to_thread(headrace, "status", "--data", str(folder), "--json")).stdout)
        report.append(
            "restarts: "
            + (", ".join(f"{part['name']} {part['restarts']}" for part in status["parts"] if part["restarts"]) or "none")
        )
    for connection in (owner, operator, node):
        await connection.close()


def _nodes(folder: Path) -> list[str]:
    return [path.name for path in (folder / "nodes").iterdir()]


async def _as_node(folder: Path, token: str) -> Connection:
    from headrace.bus.nats.connection import connect
    from headrace.supervisor.installation import Installation

    url = json.loads(Installation(folder).endpoint.read_text("utf-8"))["url"]
    return await connect(url, "node_poison", token)
