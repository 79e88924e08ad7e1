"""Admission on the bus: reads SUBMIT behind its own position in the ledger, seals the jobs' texts, and lets go of what is judged."""

from __future__ import annotations

import asyncio
import contextlib

from headrace.admission.decide import Admission
from headrace.admission.trial import tried
from headrace.bus.jetstream import JetStreamLog
from headrace.bus.log import LogError
from headrace.bus.process import Service
from headrace.bus.sealing import KEYS, Keyring
from headrace.contracts.codec import decode, encode
from headrace.contracts.queries import TrialAnswer, TrialRequest
from headrace.contracts.subjects import SUBMIT_STREAM
from headrace.contracts.wishes import JobText
from headrace.contracts.writers import ADMISSION
from headrace.service.answering import Handler
from headrace.service.deciding import Deciding
from headrace.service.fold import wall_clock
from headrace.service.together import together

WAITING_MAX = 5_000
"""Messages held before more are read: what is not judged yet waits on the disk, not in memory."""
PURGE_EVERY = 2.0


async def main(service: Service) -> None:
    """Run until cancelled."""
    keys = Keyring(service.data / KEYS)

    def seal(_tenant: str, job: str, text: JobText) -> str:
        return keys.seal(job.rpartition(".")[0], encode(text), job)

    deciding = await Deciding.begin(service, ADMISSION, lambda state: Admission(state, seal))
    submits = JetStreamLog(service.connection, SUBMIT_STREAM)
    handlers: dict[str, Handler] = {"judge": lambda _tenant, _user, payload: _tried(deciding, payload)}
    await together(deciding.run(handlers), _read_wishes(submits, deciding), _forget_judged(submits, deciding))


def _tried(deciding: Deciding, payload: bytes) -> TrialAnswer:
    """What would come of a message, by the rules as they are now; governance asks it for whom it has authenticated."""
    state = deciding.fold.state
    return tried(state, decode(payload, TrialRequest), max(state.now, wall_clock()))


async def _read_wishes(submits: JetStreamLog, deciding: Deciding) -> None:
    """Hand messages of SUBMIT to the decider, in order, from the first that is not judged; never more than it can hold."""
    await deciding.caught_up.wait()
    decider = deciding.decider
    if not isinstance(decider, Admission):
        raise TypeError("admission reads wishes for its own decider only")
    reader = await submits.read(decider.state.judged)
    try:
        while True:
            decider.waiting += await reader.batch()
            deciding.nudge()
            while len(decider.waiting) >= WAITING_MAX:  # noqa: ASYNC110  # the decider is pure and tells nobody
                await asyncio.sleep(0.01)
    finally:
        await reader.close()


async def _forget_judged(submits: JetStreamLog, deciding: Deciding) -> None:
    """Purge what is judged, now and then: until then it only takes room in the subject's cap."""
    purged = 0
    while True:
        await asyncio.sleep(PURGE_EVERY)
        judged = deciding.fold.state.judged
        if judged > purged:
            with contextlib.suppress(LogError):
                await submits.purge_through(judged)
                purged = judged
