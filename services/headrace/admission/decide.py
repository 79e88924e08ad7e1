"""From waiting messages to one record (R13, R14). Pure.

Strategy: messages are judged in order until the record is full. The record ends with the last message that was judged whole; a message of
many jobs may fill several records, because a job that is known already, with the same content, yields no second fact.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from headrace.admission.judge import Asker, judge, wish_digest
from headrace.contracts import facts as f
from headrace.contracts.codec import Malformed, decode_cancel, decode_submit
from headrace.contracts.ids import IdError, is_job_id, job_key
from headrace.contracts.reasons import REJECT_SENTENCES, RejectReason
from headrace.contracts.subjects import parse_cancel, parse_submit
from headrace.contracts.wishes import JOBS_MAX, JobText, JobWish
from headrace.domain.state import FINAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.contracts.facts import AnyFact
    from headrace.domain.ledger import StoredMessage
    from headrace.domain.state import State

FACTS_MAX = 900
BYTES_MAX = 300 * 1024
"""Of sealed text in one record; the rest of it stays well under the record's own limit."""


class Admission:
    """The rules of admission over one state, and the messages of SUBMIT that wait to be judged."""

    def __init__(self, state: State, seal: Callable[[str, str, JobText], str]) -> None:
        self.state = state
        self.waiting: deque[StoredMessage] = deque()
        self._seal = seal
        self._facts: list[AnyFact] = []
        self._admitted: dict[str, int] = {}
        self._known: dict[str, str] = {}
        self._bytes = 0

    def decide(self, now: int) -> tuple[AnyFact, ...]:
        """The facts about the messages that wait, as many as a record holds, and the last message judged whole."""
        self._facts, self._admitted, self._known, self._bytes = [], {}, {}, 0
        through = self.state.judged
        while self.waiting and self.waiting[0].sequence <= through:
            self.waiting.popleft()
        for message in self.waiting:
            if self._full() or not self._judge_message(message, now):
                break
            through = message.sequence
        if through > self.state.judged:
            self._facts.append(f.WishesJudgedV1(through=through))
        return tuple(self._facts)

    def next_wakeup(self) -> int | None:
        """Admission waits for messages only."""
        return None

    def _full(self) -> bool:
        return len(self._facts) >= FACTS_MAX or self._bytes >= BYTES_MAX

    def _judge_message(self, message: StoredMessage, now: int) -> bool:
        """Judge one message; False when the record was full before its end."""
        try:
            if message.subject.startswith("hr.cancel."):
                self._facts += self._judge_cancel(message)
                return True
            asker = Asker(*parse_submit(message.subject))
            wishes = decode_submit(message.payload)
        except (IdError, Malformed) as error:
            self._refuse(message, RejectReason.MALFORMED, str(error))
            return True
        if not wishes or len(wishes) > JOBS_MAX:
            self._refuse(message, RejectReason.MALFORMED, f"jobs: between 1 and {JOBS_MAX} in one message, not {len(wishes)}")
            return True
        for wish in wishes:
            if self._full():
                return False
            self._judge_wish(message, asker, wish, now)
        return True

    def _judge_wish(self, message: StoredMessage, asker: Asker, wish: JobWish, now: int) -> None:
        if not is_job_id(wish.id):
            self._refuse(message, RejectReason.MALFORMED, f"id: {wish.id[:40]!r} is no lower-case ULID of 26 characters")
            return
        key = job_key(asker.tenant, asker.user, wish.id)
        known = self._known_digest(key)
        if known is not None:
            if known != wish_digest(asker, wish):
                self._refuse(message, RejectReason.ID_REUSED, f"{wish.id}: {REJECT_SENTENCES[RejectReason.ID_REUSED]}")
            return
        policy = f"{asker.tenant}/{asker.policy}"
        fact = judge(self.state, asker, wish, now, pending=self._admitted.get(policy, 0), batch=self._known, seal=self._seal)
        if isinstance(fact, f.JobAdmittedV1):
            self._admitted[policy] = self._admitted.get(policy, 0) + 1
            self._bytes += len(fact.text)
        self._known[key] = fact.digest
        self._facts.append(fact)

    def _known_digest(self, key: str) -> str | None:
        """The digest of the wish that first had this key (R14)."""
        job = self.state.jobs.get(key)
        if job is not None:
            return job.digest
        answered = self.state.answered.get(key)
        return answered.digest if answered is not None else self._known.get(key)

    def _judge_cancel(self, message: StoredMessage) -> Iterator[AnyFact]:
        tenant, user, job_id = parse_cancel(message.subject)
        wish = decode_cancel(message.payload)
        key = job_key(tenant, user, job_id)
        job = self.state.jobs.get(key)
        if key in self._known or (job is not None and job.state not in FINAL):
            yield f.JobCancelRequestedV1(job=key, by=f"{tenant}.{user}", reason=wish.reason[:256])
        elif job is None and key not in self.state.answered:
            yield self._refusal(message, RejectReason.NOT_ALLOWED, f"{user} has no job {job_id}")

    def _refuse(self, message: StoredMessage, reason: RejectReason, text: str) -> None:
        self._facts.append(self._refusal(message, reason, text))

    @staticmethod
    def _refusal(message: StoredMessage, reason: RejectReason, text: str) -> f.WishRefusedV1:
        return f.WishRefusedV1(wish=message.sequence, subject=message.subject[:256], reason=reason, message=text[:512])
