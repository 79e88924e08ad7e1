"""Cache of the jobs' texts, sealed as in the ledger, for the time when a lease is granted; opened only into an order.

Strategy: the fold keeps no text, so sealed texts are cached here from admission on, up to a number of bytes. Texts that were evicted,
oldest first, are read again from the log: the job knows its record and its position in it. A record read again brings back the texts of
all its jobs, because jobs that were admitted together tend to be granted together.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import structlog

from headrace.bus.log import LogUnavailable
from headrace.bus.text_encryption import KeyGone, SealError
from headrace.contracts.facts import JobAdmittedV1
from headrace.contracts.messages.submissions import JobText
from headrace.contracts.transport.codec import Malformed, decode, decode_record

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from headrace.bus.log import Log
    from headrace.domain.model.jobs import JobRecord

Open = Callable[[str, str, str], bytes]
"""`open(owner, sealed, job key)`: the text's bytes; raises `SealError`."""

BYTES_MAX = 64 * 1024**2
RETRY = 0.2
NONE = JobText(command=())
"""Text of a job whose text is lost for good: its node, which alone may, ends the job."""

_log = structlog.get_logger("headrace.feed")


class SealedTextCache:
    """Sealed texts of jobs that have not ended. `open_sealed` is the keyring's; `log` the ledger; `erased`: people without a key."""

    def __init__(
        self, log: Log, open_sealed: Open, erased: Container[tuple[str, str]] = (), bytes_max: int = BYTES_MAX
    ) -> None:
        self._log = log
        self._open = open_sealed
        self._erased = erased
        self._bytes_max = bytes_max
        self._bytes = 0
        self._sealed: OrderedDict[str, str] = OrderedDict()
        """Ordered by time of arrival. Not a `dict`, whose first key is found only after all deleted ones before it."""

    def add(self, key: str, sealed: str) -> None:
        """Add the text of a job, as admission sealed it."""
        self.drop(key)
        self._sealed[key] = sealed
        self._bytes += len(sealed)
        while self._bytes > self._bytes_max and len(self._sealed) > 1:
            self._bytes -= len(self._sealed.popitem(last=False)[1])

    def drop(self, key: str) -> None:
        """Remove the text of a job that has ended; a missing text does no harm."""
        self._bytes -= len(self._sealed.pop(key, ""))

    async def of(self, jobs: Iterable[JobRecord]) -> dict[str, str]:
        """Sealed text by job key, for all `jobs`; waits while the log is unavailable. A text that no record holds is empty."""
        texts: dict[str, str] = {}
        for job in jobs:
            if job.key not in texts:
                sealed = self._sealed.get(admitted_as(job))
                texts[job.key] = await self._fetch(job) if sealed is None else sealed
        return texts

    async def _fetch(self, job: JobRecord) -> str:
        found = await self._read(job.order[0])
        for key, sealed in found.items():
            self.add(key, sealed)
        return found.get(admitted_as(job), "")

    async def _read(self, sequence: int) -> dict[str, str]:
        """Sealed text by job key, for all jobs admitted by one record."""
        while True:
            try:
                message = await self._log.get(sequence)
                facts = decode_record(message.payload).facts if message is not None else ()
            except LogUnavailable:
                await asyncio.sleep(RETRY)
            except Malformed as error:
                _log.error("record_unreadable", sequence=sequence, reason=str(error))
                return {}
            else:
                return {fact.job: fact.text for fact in facts if isinstance(fact, JobAdmittedV1)}

    def open(self, job: JobRecord, sealed: str) -> JobText | None:
        """Opened text of a job; None if its key is missing and may come back, `NONE` if it can never be opened again."""
        try:
            return decode(self._open(f"{job.tenant}.{job.user}", sealed, admitted_as(job)), JobText)
        except KeyGone as error:
            if (job.tenant, job.user) in self._erased:
                return NONE
            _log.warning("key_missing", job=job.key, reason=str(error), help="it is not started before the key is put back")
            return None
        except (SealError, Malformed) as error:
            _log.error("text_unreadable", job=job.key, reason=str(error), help="its order goes out without a command")
            return NONE


def admitted_as(job: JobRecord) -> str:
    """The key under which a text was sealed: an array has one text for all its elements."""
    return job.key if job.array is None else job.array.job.key
