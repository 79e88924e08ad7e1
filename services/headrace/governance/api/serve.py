"""The API in the process of *governance*: on its fold, once that has caught up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

import structlog

from headrace.bus.nats.jetstream import JetStreamLog
from headrace.contracts.facts.writers import ADMISSION
from headrace.contracts.transport.subjects import SUBMIT_STREAM
from headrace.governance.api.admission_watermark import AdmissionWatermark
from headrace.governance.api.call_metrics import Calls
from headrace.governance.api.context import ApiContext
from headrace.governance.api.interceptor import AuthInterceptor
from headrace.governance.api.server import Api
from headrace.identity.owner import OwnerLogin
from headrace.service.fold import wall_clock
from headrace.service.hosting import ledger_of
from headrace.service.recent_records import RecentRecords
from headrace.service.snapshots import Snapshots
from headrace.views.live_views import LiveViews
from headrace.views.past_queries import PastQueries
from headrace.views.queries import Queries, Sources
from headrace.views.state_at import PastStates

if TYPE_CHECKING:
    from headrace.bus.log import Message
    from headrace.bus.text_encryption import Keyring
    from headrace.contracts.facts.records import Record
    from headrace.contracts.messages.queries import ApplyAnswer
    from headrace.contracts.messages.tokens import Grant
    from headrace.governance.calendars import TimeZones
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


class ApiHost:
    """The API at one address, over the fold of the process."""

    def __init__(self, deciding: Deciding, functions: GovernanceFunctions, zones: TimeZones, address: str) -> None:
        service, follower, self._address = deciding.service, deciding.follower, address
        self._service, self._caught_up, self._verifier = service, follower.caught_up, functions.verifier
        self._views = views = follower.shared(LiveViews)
        self._ledger = ledger = ledger_of(service)
        self._snapshots = snapshots = Snapshots.over(service.connection, ledger)
        self._watermark = watermark = AdmissionWatermark(service.connection)
        self._recent = recent = RecentRecords(follower.fold.sequence)
        self._serving = False
        service.health.check("api", lambda: "" if self._serving else "the API is not served yet")
        follower.fold.listeners.append(self._note)
        state = follower.fold.state
        sources = Sources(
            state, views.job_index, views.history, ledger, service.connection, views.last_seen, wall_clock, snapshots
        )
        self._backend = ApiContext(
            state=state,
            job_index=views.job_index,
            history=views.history,
            recent=recent,
            queries=Queries(sources),
            past_queries=PastQueries(PastStates(ledger, snapshots, erased=state.tokens.erased), ledger, wall_clock),
            ledger=ledger,
            submits=JetStreamLog(service.connection, SUBMIT_STREAM),
            connection=service.connection,
            last_seen=views.last_seen,
            zones=zones,
            clock=wall_clock,
            decide=functions.decide,
            sign=functions.sign,
            texts=functions.texts,
            watermark=watermark,
            until=follower.until,
            environment=service.environment,
            alone=functions.verifier.alone,
        )

    async def run(self) -> None:
        """Serve until cancelled, once the fold has caught up."""
        await self._caught_up.wait()
        calls = Calls()
        calls.show(self._service.health.metrics)
        api = Api(AuthInterceptor(self._backend, self._verifier, calls, OwnerLogin(self._service.data)), self._address)
        await api.start()
        self._serving = True
        _log.info("api_ready", address=self._address, port=api.port)
        try:
            await self._views.keep(self._service.connection, self._ledger, self._snapshots, wall_clock)
        finally:
            await api.stop()

    def _note(self, record: Record, message: Message) -> None:
        if record.by == ADMISSION:
            self._watermark.has_read(record.as_of)
        self._recent.note(record, message.sequence)
