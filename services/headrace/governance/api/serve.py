"""The API in the process of *governance*: on the fold that it keeps anyway, once that has caught up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import structlog

from headrace.archive.history import ARCHIVE, WholeLedger
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.contracts.facts.writers import ADMISSION
from headrace.contracts.transport.subjects import LEDGER_STREAM, SUBMIT_STREAM, telemetry
from headrace.contracts.values.ids import is_token
from headrace.governance.api.admission_watermark import Judges
from headrace.governance.api.call_metrics import Calls
from headrace.governance.api.context import ApiContext
from headrace.governance.api.interceptor import AuthInterceptor
from headrace.governance.api.server import Api
from headrace.service.fold import wall_clock
from headrace.service.snapshots import Snapshots
from headrace.views.history import History
from headrace.views.history_backfill import tell_stories
from headrace.views.job_index import JobIndex, jobs_of
from headrace.views.past_queries import Then
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


class Hands(NamedTuple):
    """What the API has others do: judge and state a wish, sign a token, keep the keys of texts, tell who shows a token."""

    decide: Callable[[Operation], Awaitable[ApplyAnswer]]
    sign: Callable[[Grant], str]
    texts: Keyring
    verifier: Verifier


async def host(deciding: Deciding, hands: Hands, zones: Zones, address: str) -> None:
    """Serve the API until cancelled."""
    service, fold = deciding.service, deciding.fold
    roster, history, heard = JobIndex(fold.state), History(), dict[str, int]()
    judges, serving = Judges(service.connection), list[str]()
    service.health.check("api", lambda: "" if serving else "the API is not served yet")
    begun_behind = fold.sequence

    def note(record: Record, sequence: int) -> None:
        if record.by == ADMISSION:
            judges.has_read(record.as_of)
        jobs = jobs_of(record)
        roster.note(record, jobs)
        history.note(jobs, sequence)

    async def hear(message: Msg) -> None:
        node = message.subject.split(".")[2]
        if is_token(node) and node in fold.state.nodes:
            heard[node] = wall_clock()

    fold.listeners.append(note)
    ledger = WholeLedger(JetStreamLog(service.connection, LEDGER_STREAM), service.data / ARCHIVE)
    snapshots = Snapshots.over(service.connection, ledger)
    sources = Sources(fold.state, roster, history, ledger, service.connection, heard, wall_clock, snapshots)
    office = ApiContext(
        state=fold.state,
        roster=roster,
        history=history,
        queries=Queries(sources),
        then=Then(Past(ledger, snapshots, erased=fold.state.tokens.erased), ledger, wall_clock),
        ledger=ledger,
        submits=JetStreamLog(service.connection, SUBMIT_STREAM),
        connection=service.connection,
        heard=heard,
        zones=zones,
        clock=wall_clock,
        decide=hands.decide,
        sign=hands.sign,
        texts=hands.texts,
        judges=judges,
        alone=hands.verifier.alone,
    )
    await deciding.caught_up.wait()
    await service.connection.subscribe(telemetry("*", "heartbeat"), cb=hear)
    calls = Calls()
    calls.show(service.health.figures)
    api = Api(AuthInterceptor(office, hands.verifier, calls), address)
    await api.start()
    serving.append(address)
    _log.info("api_ready", address=address, port=api.port)
    try:
        await tell_stories(history, fold.state, begun_behind, ledger, snapshots)
    finally:
        await api.stop()
