"""Decides on waiting messages: one record per call (R13, R14). Pure.

Strategy: messages are judged in order until the record is full. The record ends with the last message that was judged completely; a
message of many jobs may fill several records, because a job that is known already, with the same content, yields no second fact.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from headrace.admission.array_range import jobs_in
from headrace.admission.judge import acting, asker_of_submit, judge
from headrace.contracts import facts as f
from headrace.contracts.facts.records import RECORD_FACTS_MAX
from headrace.contracts.messages.submissions import JobSubmission, JobText
from headrace.contracts.transport.codec import Malformed, decode_cancel, decode_cancel_many, decode_requeue, decode_submit
from headrace.contracts.transport.digests import submission_digest
from headrace.contracts.transport.subjects import (
    asker_of,
    is_cancel_many,
    parse_cancel,
    parse_cancel_many,
    parse_requeue,
    split_by,
)
from headrace.contracts.values.arrays import ArrayError, parse_part
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import IdError, array_of, index_of, is_job_id, is_ulid, job_key
from headrace.contracts.values.reasons import REJECT_SENTENCES, RejectReason
from headrace.domain.fold.arrays import chosen, state_of
from headrace.domain.fold.record_size import RecordCapacity
from headrace.domain.model.job_states import FINAL, JobState
from headrace.domain.queueing.access import may_act
from headrace.domain.state.account_numbers import next_number
from headrace.domain.state.used_ids import ID_OF_ANOTHER, is_of_another, known_digest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.admission.judge import Asker
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.values.arrays import Ranges
    from headrace.domain.fold.ledger import StoredMessage
    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State


REQUEUED_FROM = (JobState.STARTING, JobState.RUNNING, JobState.SUSPENDED)
"""States in which a job can be requeued by its owner (R29)."""
REFUSALS_STATED = 50
"""Maximum refusals of one user per second that are stated singly; further ones are counted, one fact per reason (R14)."""


class _NotYet(Exception):
    """The job is in the record under construction: its queue, and who is trusted there, can be read only after that record."""


class _NotTrusted(Exception):
    """A service account acts on the job of a user who has not trusted it. The text is one line with the way out."""


class Admission:
    """The rules of admission over one state. `waiting`: messages of SUBMIT to be judged."""

    def __init__(self, state: State, seal: Callable[[str, str, JobText], str]) -> None:
        self.state = state
        self.waiting: deque[StoredMessage] = deque()
        self._seal = seal
        self._second = 0
        self._begin()

    def _begin(self) -> None:
        self._capacity = RecordCapacity(RECORD_FACTS_MAX - 1)  # the last fact is the position
        self._facts: list[AnyFact] = []
        self._admitted: dict[str, int] = {}
        self._known: dict[str, str] = {}
        self._ids: dict[tuple[str, str], str] = {}  # (tenant, id) to the key
        self._numbers: dict[tuple[str, str], int] = {}
        self._refused: Counter[tuple[str, str]] = Counter()
        self._counted: Counter[tuple[str, str, str]] = Counter()

    def decide(self, now: int) -> tuple[AnyFact, ...]:
        """Facts about the waiting messages, as many as a record holds, and the last message judged completely."""
        self._begin()
        through = self.state.judged
        while self.waiting and self.waiting[0].sequence <= through:
            self.waiting.popleft()
        self._second = now // SECOND
        for message in self.waiting:
            if not self.judge_message(message, now):
                break
            through = message.sequence
        self._facts += [f.RefusalsCountedV1(tenant=t, user=u, reason=r, count=n) for (t, u, r), n in self._counted.items()]
        if through > self.state.judged:
            self._facts.append(f.WishesJudgedV1(through=through))
        return tuple(self._facts)

    def next_wakeup(self) -> int | None:
        """None: admission waits for messages only."""
        return None

    def _state_all(self, facts: Sequence[AnyFact]) -> bool:
        """Add the facts to the record if it has space for all of them. Returns whether it had."""
        if not self._capacity.takes(facts):
            return False
        self._facts += facts
        return True

    def judge_message(self, message: StoredMessage, now: int) -> bool:
        """Judge one message. Returns False if the record was full before the message's end."""
        try:
            if message.subject.startswith("hr.cancel."):
                return (
                    self._judge_cancels(message, now) if is_cancel_many(message.subject) else self._judge_cancel(message, now)
                )
            if message.subject.startswith("hr.requeue."):
                return self._judge_requeue(message, now)
            asker, submissions = asker_of_submit(message.subject), decode_submit(message.payload)
        except (IdError, Malformed) as error:
            return self._refuse(message, RejectReason.MALFORMED, str(error))
        except _NotTrusted as error:
            return self._refuse(message, RejectReason.NOT_ALLOWED, str(error))
        except _NotYet:
            return False
        refused: dict[RejectReason, list[str]] = {}
        for submission in submissions:
            if not is_ulid(submission.id):
                refused.setdefault(RejectReason.MALFORMED, []).append(
                    f"id: {submission.id[:40]!r} is not a lower-case ULID of 26 characters"
                )
                continue
            whose = acting(self.state, asker, submission.on_behalf_of, now)
            known = self._known_digest(key := job_key(whose.tenant, whose.user, submission.id))
            if self._is_of_another(key):
                refused.setdefault(RejectReason.ID_REUSED, []).append(f"{submission.id}: {ID_OF_ANOTHER}")
            elif known is None:
                if not self._judge_new(whose, submission, now):
                    return False
            elif known != submission_digest(whose.policy, whose.profile, submission):
                text = f"{submission.id}: {REJECT_SENTENCES[RejectReason.ID_REUSED]}"
                refused.setdefault(RejectReason.ID_REUSED, []).append(text)
        return all(self._refuse(message, reason, *texts) for reason, texts in refused.items())

    def _judge_new(self, asker: Asker, submission: JobSubmission, now: int) -> bool:
        """Judge a job that is not known yet. Returns False if the record has no space for it."""
        policy = f"{asker.tenant}/{asker.policy}"
        user = f"{policy}/{asker.user}"
        pending, fresh, own = (self._admitted.get(name, 0) for name in (policy, asker.tenant, user))
        fact = judge(
            *(self.state, asker, submission, now),
            pending=pending,
            fresh=fresh,
            own=own,
            batch=self._known,
            seal=self._seal,
        )
        if isinstance(fact, f.JobRejectedV1):
            if not self._state_refusal((asker.tenant, asker.user), fact):
                return False
        elif not self._state_all((*(numbered := self._numbered(asker)), fact)):
            return False
        else:
            self._numbers.update({(one.tenant, one.user): one.number for one in numbered})
            count = jobs_in(fact.array)
            self._admitted |= {policy: pending + count, asker.tenant: fresh + 1, user: own + count}
        self._known[fact.job] = fact.digest
        self._ids.setdefault((asker.tenant, submission.id), fact.job)
        return True

    def _numbered(self, asker: Asker) -> tuple[f.AccountNumberedV1, ...]:
        """Fact of a new user's account number; empty if the user has one."""
        user = (asker.tenant, asker.user)
        if not self.state.terms.amended or user in self.state.accounts or user in self._numbers:
            return ()
        number = next_number(self.state, self._numbers.values())
        return (f.AccountNumberedV1(tenant=asker.tenant, user=asker.user, number=number),)

    def _is_of_another(self, key: str) -> bool:
        """True if another user of the tenant has a job of this id, in this record or before it (R14)."""
        tenant, _, job_id = key.split(".")
        other = self._ids.get((tenant, job_id), key)
        return is_of_another(self.state, key) or (other != key and self.state.terms.amended)

    def _known_digest(self, key: str) -> str | None:
        """The digest of the submission that first had this key (R14); None for a new key."""
        known = known_digest(self.state, key)
        return self._known.get(key) if known is None else known

    def _judge_cancel(self, message: StoredMessage, now: int) -> bool:
        subject, by = split_by(message.subject)
        tenant, user, job_id = parse_cancel(subject)
        request = decode_cancel(message.payload)
        key = self._key(tenant, user, job_id, request.on_behalf_of, now)
        job, elements = self._addressed(key, request.elements)
        if key in self._known or (job is not None and job.state not in FINAL):
            by = by or f"{tenant}.{user}"
            return self._state_all((_cancel_requested(job, key, by, request.reason, elements),))
        if job is None and key not in self.state.answered:
            return self._refuse(message, RejectReason.NOT_ALLOWED, f"{user} has no job {job_id}")
        return True

    def _addressed(self, key: str, elements: str) -> tuple[JobRecord | None, Ranges]:
        """The job or array, and the part of the array that is meant; a waiting element is a part of its array.

        Raises Malformed if a part is named and the job is not an array, _NotYet.
        """
        state = self.state
        if elements and key not in state.arrays and key not in self._known:
            raise Malformed(f"elements: {key.rpartition('.')[2]} is not an array; leave elements out")
        try:
            part = parse_part(elements) if elements else ()
        except ArrayError as error:
            raise Malformed(f"elements: {error}") from None
        if array_of(key) in self._known:
            raise _NotYet
        job, array = state.jobs.get(key), state.arrays.get(key) or state.arrays.get(array_of(key))
        if job is not None or array is None:
            return job, part
        if array.job.key == key:
            return array.job, part
        return (array.job, ((index_of(key),) * 2,)) if state_of(state, key) is JobState.PENDING else (None, ())

    def _judge_cancels(self, message: StoredMessage, now: int) -> bool:
        """Cancel several jobs in one record: pending jobs first, so that none of them starts when the running ones end."""
        subject, by = split_by(message.subject)
        tenant, user = parse_cancel_many(subject)
        request = decode_cancel_many(message.payload)
        waiting: list[AnyFact] = []
        holding: list[AnyFact] = []
        unknown: list[str] = []
        for job_id in dict.fromkeys(request.jobs):
            if not is_job_id(job_id):
                raise Malformed(f"jobs: {job_id[:40]!r} is not a lower-case ULID of 26 characters")
            key = self._key(tenant, user, job_id, request.on_behalf_of, now)
            job, elements = self._addressed(key, "")
            if job is None and key not in self._known:
                unknown += [] if key in self.state.answered else [f"{user} has no job {job_id}"]
            elif job is None or not (job.state in FINAL or key in self.state.cancels or _is_cancelled(job)):
                fact = _cancel_requested(job, key, by or f"{tenant}.{user}", request.reason, elements)
                (waiting if job is None or job.state is JobState.PENDING else holding).append(fact)
        facts = (*waiting, *holding)
        if facts and not self._state_all(facts) and (self._facts or not all(self._state_all((fact,)) for fact in facts)):
            return False  # the next record has space for all of them, or for the rest
        return not unknown or self._refuse(message, RejectReason.NOT_ALLOWED, *unknown)

    def _key(self, tenant: str, user: str, job_id: str, for_whom: str, now: int) -> str:
        """Key of the job addressed: the sender's own, or that of a member for whom a service account may act.

        Raises _NotYet, _NotTrusted.
        """
        key = job_key(tenant, for_whom or user, job_id)
        if for_whom in ("", user):
            return key
        if key in self._known:
            raise _NotYet
        job, _ = self._addressed(key, "")
        if job is None or not may_act(self.state, tenant, job.policy.document.group, user, for_whom, now):
            raise _NotTrusted(f"on_behalf_of: {user} may not act for {for_whom} here; the group has to name it in on_behalf")
        return key

    def _judge_requeue(self, message: StoredMessage, now: int) -> bool:
        """Requeue a job that holds leases and is not being stopped (R29); refuse it otherwise, with the reason."""
        subject, by = split_by(message.subject)
        tenant, user, job_id = parse_requeue(subject)
        request = decode_requeue(message.payload)
        key = self._key(tenant, user, job_id, request.on_behalf_of, now)
        (job, elements), answered = self._addressed(key, request.elements), self.state.answered.get(key)
        if job is not None and job.array is not None and job.array.job is job and job.state not in FINAL:
            if any(one.state in REQUEUED_FROM for one in chosen(job.array, elements)):
                by = by or f"{tenant}.{user}"
                requested = f.JobRequeueRequestedV1(
                    job=job.key, attempt=0, by=by, reason=request.reason[:256], elements=elements
                )
                return self._state_all((requested,))
            return self._refuse(message, RejectReason.NOT_ALLOWED, f"no element of {job_id} that is meant runs")
        if job is None:
            ended = answered.state if answered is not None else None
            if ended is None and key not in self._known:
                return self._refuse(message, RejectReason.NOT_ALLOWED, f"{user} has no job {job_id}")
        elif job.state in REQUEUED_FROM:
            by = by or f"{tenant}.{user}"
            return self._state_all((f.JobRequeueRequestedV1(job=key, attempt=job.attempt, by=by, reason=request.reason[:256]),))
        else:
            ended = job.state if job.state in FINAL else None
        if ended is not None:
            why = f"job {job_id} has ended: it is {ended}; submit it again, as a new job"
        elif job is not None and job.stop is not None:
            why = f"job {job_id} is being stopped already: {job.stop.cause}, then {job.stop.then}"
        else:
            why = f"job {job_id} is waiting already"
        return self._refuse(message, RejectReason.NOT_ALLOWED, why)

    def _refuse(self, message: StoredMessage, reason: RejectReason, *texts: str) -> bool:
        return self._state_refusal(asker_of(message.subject), _refusal(message, reason, *texts))

    def _state_refusal(self, who: tuple[str, str], fact: f.JobRejectedV1 | f.WishRefusedV1) -> bool:
        """State a refusal, or count it if `who` has been refused too often. Returns False if the record has no space."""
        second, stated = self.state.refusals.get(who, (0, 0))
        before = self._refused[who] + (stated if second == self._second else 0)
        key = (*who, str(fact.reason))
        if before < REFUSALS_STATED:
            if not self._state_all((fact,)):
                return False
            self._refused[who] += 1
            return True
        if key not in self._counted and not self._capacity.takes(
            (f.RefusalsCountedV1(tenant=who[0], user=who[1], reason=key[2], count=1),)
        ):
            return False
        self._counted[key] += 1
        return True


def _cancel_requested(job: JobRecord | None, key: str, by: str, reason: str, elements: Ranges) -> f.JobCancelRequestedV1:
    return f.JobCancelRequestedV1(job=key if job is None else job.key, by=by, reason=reason[:256], elements=elements)


def _is_cancelled(job: JobRecord) -> bool:
    """True if the job is being stopped because of a cancellation."""
    return job.stop is not None and job.stop.cause == "cancelled"


def _refusal(message: StoredMessage, reason: RejectReason, text: str, *more: str) -> f.WishRefusedV1:
    """One refusal for all errors of one kind in a message, so that a message of a thousand jobs causes one fact (R14)."""
    joined = f"{text[:480]} (and {len(more)} more like it)" if more else text[:512]
    return f.WishRefusedV1(wish=message.sequence, subject=message.subject[:256], reason=reason, message=joined)
