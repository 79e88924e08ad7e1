"""The status of the installation: each service as it reports itself, and the servers that store the ledger."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.bus.log import LogError
from headrace.bus.nats.permissions import CALLOUT_USER, SERVICES, STANDBY, STANDBYS
from headrace.contracts.api import system_pb2 as pb
from headrace.contracts.facts.writers import GOVERNANCE
from headrace.contracts.messages.installation import StreamStatus
from headrace.contracts.messages.queries import Answer, ServiceView
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import Malformed, decode
from headrace.contracts.values.ids import DEFAULT_TENANT
from headrace.governance.api.messages import moment

if TYPE_CHECKING:
    from headrace.governance.api.context import CallContext
    from headrace.nats_client.connection import Connection

ANSWER_WITHIN = 2.0
NAMES = (*SERVICES, CALLOUT_USER, *(f"{name}{STANDBY}" for name in STANDBYS))


class _State(msgspec.Struct):
    last_seq: int = 0


class _Described(msgspec.Struct):
    state: _State | None = None
    cluster: StreamStatus | None = None


async def get_status(_request: Any, call: CallContext) -> pb.InstallationStatus:
    """The answers of all services, asked at once; who does not answer within two seconds is silent."""
    connection = call.backend.connection
    ledger, views = await asyncio.gather(_ledger(connection), asyncio.gather(*(_view(connection, name) for name in NAMES)))
    found = pb.InstallationStatus(
        tip="" if ledger.state is None else str(ledger.state.last_seq),
        services=[_service(name, view) for name, view in zip(NAMES, views, strict=True)],
    )
    led = ledger.cluster
    if led is not None:
        found.clustered, found.leader = True, led.leader
        found.followers.extend(
            pb.LedgerFollower(name=one.name, current=one.current, offline=one.offline, lag=one.lag)
            for one in led.replicas or ()
        )
    return found


async def _ledger(connection: Connection) -> _Described:
    try:
        reply = await connection.ask(f"$JS.API.STREAM.INFO.{subjects.LEDGER_STREAM}", within=ANSWER_WITHIN)
        return decode(reply.data, _Described)
    except (LogError, Malformed):
        return _Described()


async def _view(connection: Connection, name: str) -> ServiceView | None:
    """What a service reports; None without an answer in time."""
    try:
        reply = await connection.ask(subjects.query(name, "status", DEFAULT_TENANT, GOVERNANCE), within=ANSWER_WITHIN)
        return decode(bytes(decode(reply.data, Answer).body), ServiceView)
    except (LogError, Malformed):
        return None


def _service(name: str, view: ServiceView | None) -> pb.ServiceStatus:
    if view is None:
        return pb.ServiceStatus(name=name)
    return pb.ServiceStatus(
        name=name,
        answered=True,
        sequence=str(view.folded),
        time=moment(view.now),
        engine=view.engine,
        reads=view.reads,
        level=view.level,
        newest=view.newest,
        held_back=view.held_back,
        trouble=view.trouble,
        detail=view.detail,
    )
