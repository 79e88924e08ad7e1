"""Follows the ledger while everything around it breaks: what was stored when by whom, which jobs have ended, and who answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter, defaultdict
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from headrace.bus.log import LogError
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.client.client import Client
from headrace.client.errors import HeadraceError
from headrace.contracts.messages.queries import ServiceView
from headrace.contracts.transport.subjects import LEDGER_STREAM, telemetry
from headrace.nats_client.connection import Connection
from headrace.supervisor.installation import Installation
from headrace.supervisor.ledger_roles import roles
from headrace.supervisor.nats.servers import standing
from headrace.supervisor.service_query import ask_service, operator_client
from tests.chaos.load import Load
from tests.chaos.place import DOORS, EXECUTORS, SERVERS, Place

if TYPE_CHECKING:
    from nats.aio.msg import Msg

LOOK_EVERY = 0.05
SHOWN = 5
OVER = {"lease.ended.v1", "lease.revoked.v1"}
ASIDE = {"node.set_aside.v1", "node.lost.v1", "node.stopped.v1"}
ENDS = {"job.ended.v1", "job.rejected.v1", "job.dismissed.v1"}


class Watching:
    """`last`: when each writer's last record was stored, microseconds; `digests`: of every record that was seen, by sequence."""

    def __init__(self, place: Place, load: Load) -> None:
        self.last: dict[str, int] = {}
        self.granted = 0
        self.digests: dict[int, str] = {}
        self.holds: dict[str, set[str]] = defaultdict(set)
        """Node to the leases that it holds, as the ledger says."""
        self.set_aside: list[str] = []
        self.set_aside: set[str] = set()
        """Nodes that are set aside until an administrator uncordons them (R36)."""
        self._beats: dict[str, int] = {}
        self.counts: Counter[str] = Counter()
        self.troubles: list[str] = []
        self._place = place
        self._load = load
        self._bus: Connection | None = None
        self._client: Client | None = None

    async def follow(self) -> None:
        """Until cancelled. A reader that is stopped by what it reads is a finding."""
        self._bus = await self._place.operator()
        await self._bus.subscribe(telemetry("*", "heartbeat"), cb=self._receive)
        reader = await JetStreamLog(self._bus, LEDGER_STREAM).read(0)
        while True:
            try:
                messages = await reader.batch(wait=1.0)
            except LogError as error:
                self.troubles.append(f"a reader of the ledger was stopped: {error}")
                return
            for message in messages:
                self.digests[message.sequence] = blake2b(message.payload, digest_size=16).hexdigest()
                self._note(message.stamped, json.loads(message.payload))

    def _note(self, stamped: int, record: dict[str, Any]) -> None:
        self.last[record["by"]] = stamped
        for fact in record["facts"]:
            kind = fact["type"]
            self.counts[kind] += 1
            if kind == "lease.granted.v1":
                self.granted = stamped
                self.holds[fact["node"]].add(_lease(fact))
            elif kind in OVER:
                for leases in self.holds.values():
                    leases.discard(_lease(fact))
            elif kind == "node.uncordoned.v1" or (kind == "node.checked.v1" and fact["passed"]):
                self.set_aside.discard(fact["node"])
            elif kind in ASIDE:
                if kind == "node.set_aside.v1":
                    self.set_aside.add(fact["node"])
                self.set_aside.append(f"{fact['node']}: {kind} {fact.get('reason', '')}")
            elif kind in ENDS:
                self._load.ended(fact["job"])
            elif kind == "job.admitted.v1":
                self._load.admitted(fact["job"])

    async def _receive(self, message: Msg) -> None:
        self._beats[message.subject.split(".")[2]] = _now()

    async def rows(self) -> dict[str, dict[str, object]]:
        """What each server is to the ledger; empty without an answer."""
        if self._bus is not None:
            with contextlib.suppress(LogError):
                return roles(standing((await self._bus.ask(f"$JS.API.STREAM.INFO.{LEDGER_STREAM}")).data))
        return {}

    async def leader(self) -> str:
        """Which server leads the ledger; empty without an answer."""
        return next((part for part, row in (await self.rows()).items() if row["ledger"] == "leads"), "")

    async def until_written(self, since: int, patience: float) -> tuple[float, float]:
        """Seconds from `since` (microseconds) to the next record that is stored, and to the next grant."""
        deadline = time.monotonic() + patience
        first = 0
        while time.monotonic() < deadline:
            first = first or next((at for at in sorted(self.last.values()) if at > since), 0)
            if self.granted > since:
                return (first - since) / 1e6, (self.granted - since) / 1e6
            await asyncio.sleep(0.005)
        raise RuntimeError(f"nothing is granted {patience:g} s after the ledger could be written")

    async def tip(self) -> int:
        """The last record seen."""
        return max(self.digests, default=0)

    async def until_back(self, part: str, since: int, patience: float) -> float | None:
        """Seconds from `since` (microseconds) until the part does its work again; None if it does not within that time."""
        tip = await self.tip()
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            done = await self._is_back(part, since, tip)
            if done:
                return max(0.0, (done - since) / 1e6)
            await asyncio.sleep(LOOK_EVERY)
        return None

    async def _is_back(self, part: str, since: int, tip: int) -> int:
        """When it had done something behind `since`; 0: it has not."""
        match part:
            case "allocator" | "allocator-standby":
                return self.granted if self.granted > since else 0
            case "admission":
                return self._after(part, since)
            case _ if part in EXECUTORS:
                return self._node_after(part.removeprefix("node-"), since)
            case _ if part in SERVERS:
                return next((at for at in sorted(self.last.values()) if at > since), 0)
            case "gateway":
                return _now() if await self._place.is_well() else 0
            case "postgres":
                part = "accounting"
            case _ if part in DOORS:
                part = "callout"
        view = await self._view(part)
        return _now() if view is not None and (part == "callout" or view.folded >= tip) else 0

    def why(self, part: str) -> str:
        """What the ledger has to do with it that a part is not back; empty where that is nothing."""
        node = part.removeprefix("node-")
        if part not in EXECUTORS:
            return ""
        aside = [why for why in self.set_aside if why.startswith(f"{node}: ")]
        return f"; it holds {sorted(self.holds[node])[:SHOWN]}, was set aside: {aside[-SHOWN:]}"

    def _after(self, writer: str, since: int) -> int:
        at = self.last.get(writer, 0)
        return at if at > since else 0

    def _node_after(self, node: str, since: int) -> int:
        """A node that has nothing to run has nothing to say: then that it lives is all."""
        idle = 0 if self.holds[node] else self._beats.get(node, 0)
        return self._after(f"node.{node}", since) or (idle if idle > since else 0)

    async def _view(self, service: str) -> ServiceView | None:
        try:
            if self._client is None:
                client = operator_client(Installation(self._place.data))
                await client.__aenter__()
                self._client = client
            return await ask_service(self._client, service, 1.0)
        except HeadraceError:
            return None

    async def behind(self) -> dict[str, int | None]:
        """How many records each service is behind; None: it does not answer."""
        tip = await self.tip()
        found: dict[str, int | None] = {}
        for service in ("admission", "allocator", "preemption", "governance", "feed", "accounting", "audit"):
            view = await self._view(service)
            found[service] = None if view is None else max(0, tip - view.folded)
        return found

    async def close(self) -> None:
        """Leave."""
        for one in (self._bus, self._client):
            if one is not None:
                with contextlib.suppress(Exception):
                    await (one.close() if isinstance(one, Connection) else one.__aexit__())


def _lease(fact: dict[str, Any]) -> str:
    return f"{fact['job']}/{fact['attempt']}/{fact.get('rank', 0)}"


def _now() -> int:
    return time.time_ns() // 1_000
