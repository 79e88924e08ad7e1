"""Admission on the bus: reads SUBMIT from its position in the ledger, seals the jobs' texts, and purges judged messages."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import TYPE_CHECKING

from headrace.admission.decide import Admission
from headrace.admission.trial import try_message
from headrace.bus.log import Log, LogError
from headrace.bus.log_clock import MICROSECONDS
from headrace.bus.nats.jetstream import JetStreamLog
from headrace.bus.process import Service
from headrace.bus.text_encryption import KEYS, Keyring
from headrace.contracts.facts import AnyFact, WishesJudgedV1
from headrace.contracts.facts.writers import ADMISSION
from headrace.contracts.messages.submissions import JobText
from headrace.contracts.messages.trials import TrialAnswer, TrialRequest
from headrace.contracts.transport.codec import decode, encode
from headrace.contracts.transport.subjects import SUBMIT_STREAM
from headrace.domain.state.required_keys import needs_key
from headrace.health.health import Health
from headrace.health.metrics import QUICK
from headrace.service.answering import Handler
from headrace.service.deciding import Deciding
from headrace.service.fold import wall_clock
from headrace.service.hosting import LedgerFollower, Part, Work
from headrace.service.intake import with_intake
from headrace.service.task_group import run_until_first_ends

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.bus.log import Message
    from headrace.domain.state.state import State

WAITING_MAX, WAITING_BYTES = 5_000, 32 * 1024 * 1024
"""Maximum number of messages, and of their bytes, in memory; further messages stay in the stream until these are judged."""
PURGE_EVERY = 2.0


async def prepare(service: Service, follower: LedgerFollower) -> Work:
    keys = Keyring(service.data / KEYS)

    def decider(state: State) -> Admission:
        def seal(_tenant: str, job: str, text: JobText) -> str:
            owner = job.rpartition(".")[0]
            if keys.is_missing(owner) and needs_key(state, owner):
                return keys.seal(owner, encode(text), job, beside=True)  # the slot of the missing key stays free
            return keys.seal(owner, encode(text), job)

        return Admission(state, seal)

    deciding = Deciding(service, follower, ADMISSION, decider)
    submits = JetStreamLog(service.connection, SUBMIT_STREAM)
    show(service.health, deciding, submits)
    handlers: dict[str, Handler] = {"judge": lambda _tenant, _user, payload: _try_message(deciding, payload)}
    return lambda: run_until_first_ends(
        deciding.run(handlers), _read_submissions(submits, deciding), _purge_judged(submits, deciding)
    )


PART = with_intake(Part(prepare))


def show(health: Health, deciding: Deciding, submits: Log) -> None:
    """Register the metrics of waiting submissions."""
    state, tip = deciding.fold.state, [0]
    waited = health.metrics.histogram("headrace_submit_to_admission_seconds", "time from SUBMIT to the durable decision", QUICK)

    async def read_tip() -> None:
        tip[0] = await submits.tip()

    def stated(facts: tuple[AnyFact, ...]) -> None:
        through, now = next((fact.through for fact in facts if isinstance(fact, WishesJudgedV1)), 0), wall_clock()
        for message in _admission(deciding).waiting:
            if message.sequence > through:
                break
            waited.observe(max(0, now - message.stamped) / MICROSECONDS)

    health.before_metrics(read_tip)
    health.metrics.gauge("headrace_submit_waiting_wishes", "submissions not judged yet", lambda: max(0, tip[0] - state.judged))
    deciding.on_stated = stated


def _admission(deciding: Deciding) -> Admission:
    decider = deciding.decider
    if not isinstance(decider, Admission):
        raise TypeError("admission reads submissions for its own decider only")
    return decider


def _try_message(deciding: Deciding, payload: bytes) -> TrialAnswer:
    """The verdict on a message by the current rules; governance asks for users that it has authenticated."""
    state = deciding.fold.state
    return try_message(state, decode(payload, TrialRequest), max(state.now, wall_clock()))


async def _read_submissions(submits: JetStreamLog, deciding: Deciding) -> None:
    """Hand messages of SUBMIT to the decider, in order, from the first that is not judged, within the limits of memory."""
    await deciding.caught_up.wait()
    decider = _admission(deciding)
    reader = await submits.read(decider.state.judged)
    unjudged = UnjudgedBytes()
    try:
        while True:
            batch = await reader.batch()
            unjudged.add(batch)
            decider.waiting += batch
            deciding.wake()
            while _is_enough(decider, unjudged):  # noqa: ASYNC110
                await asyncio.sleep(0.01)  # the decider is pure and has no event to wait for
    finally:
        await reader.close()


def _is_enough(decider: Admission, unjudged: UnjudgedBytes) -> bool:
    return len(decider.waiting) >= WAITING_MAX or unjudged.after(decider.state.judged) > WAITING_BYTES


class UnjudgedBytes:
    """Bytes of messages that have been read and are not judged, by batches."""

    def __init__(self) -> None:
        self._batches: deque[tuple[int, int]] = deque()
        self._bytes = 0

    def add(self, batch: Sequence[Message]) -> None:
        if batch:
            size = sum(len(message.payload) for message in batch)
            self._batches.append((batch[-1].sequence, size))
            self._bytes += size

    def after(self, judged: int) -> int:
        """Bytes after `judged`; a batch counts until its last message is judged."""
        while self._batches and self._batches[0][0] <= judged:
            self._bytes -= self._batches.popleft()[1]
        return self._bytes


async def _purge_judged(submits: JetStreamLog, deciding: Deciding) -> None:
    """Purge judged messages every `PURGE_EVERY` seconds, because they count against the subject's limit."""
    purged = 0
    while True:
        await asyncio.sleep(PURGE_EVERY)
        judged = deciding.fold.state.judged
        if judged > purged:
            with contextlib.suppress(LogError):
                await submits.purge_through(judged)
                purged = judged
