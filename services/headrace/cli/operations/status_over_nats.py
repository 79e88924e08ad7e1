"""The status of each service, asked by the operator over NATS: while the API is away, or where no `up` runs."""

from __future__ import annotations

import asyncio
import json

from headrace.bus.nats.permissions import CALLOUT_USER, SERVICES, STANDBY, STANDBYS
from headrace.client import HeadraceError
from headrace.contracts.messages.installation import InstallationView
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.supervisor.installation import Installation
from headrace.supervisor.nats.servers import standing
from headrace.supervisor.service_query import ask_service, operator_client

STATUS_WITHIN = 2.0
NAMES = (*SERVICES, CALLOUT_USER, *(f"{name}{STANDBY}" for name in STANDBYS))


async def ask(installation: Installation) -> tuple[InstallationView, str]:
    """What the services report, and a problem of all together."""
    try:
        async with operator_client(installation) as asking:
            stream = await asking.ask(f"$JS.API.STREAM.INFO.{LEDGER_STREAM}", within=STATUS_WITHIN)
            tip = int(json.loads(stream).get("state", {}).get("last_seq", 0))
            answers = await asyncio.gather(*(ask_service(asking, name) for name in NAMES))
            return InstallationView(tip=tip, services=dict(zip(NAMES, answers, strict=True)), ledger=standing(stream)), ""
    except HeadraceError as error:
        return InstallationView(tip=0, services=dict.fromkeys(NAMES)), str(error)
