"""The API in the process of *governance*: on its fold, once that has caught up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import structlog

from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.contracts.facts.writers import ADMISSION
from headrace.contracts.transport.subjects import LEDGER_STREAM, SUBMIT_STREAM, telemetry
from headrace.contracts.values.ids import is_token
from headrace.governance.api.admission_watermark import AdmissionWatermark
from headrace.governance.api.call_metrics import Calls
from headrace.governance.api.context import ApiContext
from headrace.governance.api.interceptor import AuthInterceptor
from headrace.governance.api.server import Api
from headrace.identity.owner import OwnerLogin
from headrace.service.fold import wall_clock
from headrace.service.recent_records import RecentRecords
from headrace.service.snapshots import Snapshots
from headrace.views.history import History
from headrace.views.history_backfill import backfill_history
from headrace.views.job_index import JobIndex, jobs_of
from headrace.views.past_queries import PastQueries
from headrace.views.queries import Queries, Sources
from headrace.views.state_at import Past

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from headrace.bus.text_encryption import Keyring
    from headrace.contracts.facts.records import Record
    from headrace.contracts.messages.queries import ApplyAnswer
    from headrace.contracts.messages.tokens import Grant
    from headrace.governance.calendars import Zones
    from headrace.governance.decide import Operation
    from headrace.identity.verifier import Verifier
    from headrace.service.deciding import Deciding

_log = structlog.get_logger("headrace.api")


class GovernanceFunctions(NamedTuple):
    """Functions of governance that the API uses: judge and state an operation, sign a token, the keys of texts, verify a token."""

    decide: Callable[[Operation], Awaitable[ApplyAnswer]]
    sign: Callable[[Grant], str]
    texts: Keyring
    verifier: Verifier


async def host(deciding: Deciding, functions: GovernanceFunctions, zones: Zones, address: str) -> None:
    service, fold = deciding.service, deciding.fold
    job_index, history, heard = JobIndex(fold.state), History(), dict[str, int]()
    watermark, serving = AdmissionWatermark(service.connection), list[str]()
    service.health.check("api", lambda: "" if serving else "the API is not served yet")
    started_at = fold.sequence
    recent = RecentRecords(started_at)

    def note(record: Record, sequence: int) -> None:
        if record.by == ADMISSION:
            watermark.has_read(record.as_of)
        jobs = jobs_of(record)
        job_index.note(record, jobs)
        history.note(jobs, sequence)
        recent.note(record, sequence)

    async def hear(message: Msg) -> None:
        node = message.subject.split(".")[2]
        if is_token(node) and node in fold.state.nodes:
            heard[node] = wall_clock()

    fold.listeners.append(note)
    ledger = WholeLedger(JetStreamLog(service.connection, LEDGER_STREAM), service.data / ARCHIVE)
    snapshots = Snapshots.over(service.connection, ledger)
    sources = Sources(fold.state, job_index, history, ledger, service.connection, heard, wall_clock, snapshots)
    backend = ApiContext(
        state=fold.state,
        job_index=job_index,
        history=history,
        recent=recent,
        queries=Queries(sources),
        past_queries=PastQueries(Past(ledger, snapshots, erased=fold.state.tokens.erased), ledger, wall_clock),
        ledger=ledger,
        submits=JetStreamLog(service.connection, SUBMIT_STREAM),
        connection=service.connection,
        heard=heard,
        zones=zones,
        clock=wall_clock,
        decide=functions.decide,
        sign=functions.sign,
        texts=functions.texts,
        watermark=watermark,
        alone=functions.verifier.alone,
    )
    await deciding.caught_up.wait()
    await service.connection.subscribe(telemetry("*", "heartbeat"), cb=hear)
    calls = Calls()
    calls.show(service.health.metrics)
    api = Api(AuthInterceptor(backend, functions.verifier, calls, OwnerLogin(service.data)), address)
    await api.start()
    serving.append(address)
    _log.info("api_ready", address=address, port=api.port)
    try:
        await backfill_history(history, fold.state, started_at, ledger, snapshots)
    finally:
        await api.stop()
