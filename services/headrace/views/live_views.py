"""Views of the present, once per process: jobs by tenant and queue, the history of each job, and the last heartbeat of each node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.contracts.transport.subjects import telemetry
from headrace.contracts.values.ids import is_token
from headrace.views.history import History
from headrace.views.history_backfill import backfill_history
from headrace.views.job_index import IndexChanges, JobIndex, jobs_of

if TYPE_CHECKING:
    from nats.aio.msg import Msg

    from headrace.bus.log import Log, Message
    from headrace.contracts.facts.records import Record
    from headrace.nats_client.connection import Connection
    from headrace.service.hosting import LedgerFollower
    from headrace.service.snapshots import Snapshots

Listener = Callable[["Record", "Message", IndexChanges], None]


class LiveViews:
    """Views of the fold of one follower (`follower.shared(LiveViews)`). `last_seen`: node to this machine's microseconds since 1970.

    `listeners`: called with each folded record, its message, and what it has changed in `job_index`.
    """

    def __init__(self, follower: LedgerFollower) -> None:
        self.state = follower.fold.state
        self.job_index = JobIndex(self.state)
        self.history = History()
        self.last_seen: dict[str, int] = {}
        self.listeners: list[Listener] = []
        self._follower = follower
        self._began_after = follower.fold.sequence
        self._is_kept = False
        follower.fold.listeners.append(self._note)

    async def keep(self, connection: Connection, ledger: Log, snapshots: Snapshots | None, clock: Callable[[], int]) -> None:
        """Receive heartbeats of nodes and complete the histories, until cancelled. One service of the process does it for all."""
        await self._follower.caught_up.wait()
        if self._is_kept:
            await asyncio.get_running_loop().create_future()
        self._is_kept = True

        async def on_heartbeat(message: Msg) -> None:
            node = message.subject.split(".")[2]
            if is_token(node) and node in self.state.nodes:
                self.last_seen[node] = clock()

        await connection.subscribe(telemetry("*", "heartbeat"), cb=on_heartbeat)
        await backfill_history(self.history, self.state, self._began_after, ledger, snapshots)

    def _note(self, record: Record, message: Message) -> None:
        jobs = jobs_of(record)
        changes = self.job_index.note(record, jobs)
        self.history.note(jobs, message.sequence)
        for listen in self.listeners:
            listen(record, message, changes)
