"""Judges admission's facts again with the ledger, but without the submissions. Pure.

Naive meaning: on the state that a record was decided on, take its facts in order, judge each again as far as the ledger contains the
submission, and report the differences.

Contents of a submission that no record contains are not guessed: the job's text (command, variables, image: sealed, or not stored if the
job was rejected), and so whether its group's rules allow them; the spelling of amounts and times; why a message could not be parsed;
which content came first under an id; which caller was authenticated. An omitted submission cannot be detected here either.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from msgspec import structs

from headrace.admission.amounts import RequestedJob
from headrace.admission.array_range import jobs_in, wrong_array
from headrace.admission.decide import REFUSALS_STATED, REQUEUED_FROM
from headrace.admission.guards import against_image, has_rules, id_too_old
from headrace.admission.judge import (
    MESSAGE_MAX,
    Asker,
    Declined,
    acting,
    amounts_of,
    not_on_behalf,
    queue_of,
    too_many,
    wrong_fields,
)
from headrace.admission.runtime import possible_uses, rules_of
from headrace.contracts import facts as f
from headrace.contracts.transport.subjects import asker_of, parse_cancel, parse_requeue, split_by
from headrace.contracts.values.amounts import GPU, GPU_MEMORY
from headrace.contracts.values.durations import SECOND
from headrace.contracts.values.ids import IdError, job_key
from headrace.contracts.values.reasons import RejectReason
from headrace.domain.fold.arrays import chosen, state_of
from headrace.domain.model.job_states import FINAL
from headrace.domain.queueing.admissible import Rejection, time_limit_of
from headrace.domain.state.account_numbers import next_number
from headrace.domain.state.gpu_shares import asked_by
from headrace.domain.state.used_ids import is_of_another, known_digest

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Profile
    from headrace.contracts.facts import AnyFact
    from headrace.contracts.facts.records import Record
    from headrace.contracts.values.amounts import Amounts
    from headrace.contracts.values.gpu_memory import ModelShare
    from headrace.domain.model.jobs import PolicyState
    from headrace.domain.state.state import State

EARLIER = frozenset({RejectReason.UNKNOWN_TENANT, RejectReason.UNKNOWN_QUEUE, RejectReason.QUEUE_DELETED})
"""Reasons that depend on asker and queue only."""


class Objection(NamedTuple):
    """A fact that does not follow from the state, the reason, and the fact that would have been stated, if that is known."""

    fact: AnyFact
    why: str
    instead: AnyFact | None = None


class _Made(NamedTuple):
    """Fields of an admitted job that profile and rules determine."""

    request: Amounts
    mig: str
    replicas: int
    contained: bool
    rules: tuple[str, ...]
    gpu_memory: int
    shares: tuple[ModelShare, ...]
    by_model: bool


class Review:
    """Judges one record.

    `objections`: facts that do not follow; `judged`: number of facts judged again; `unverifiable`: by reason, facts that depend on the
    submission.
    """

    def __init__(self, state: State, record: Record) -> None:
        self.objections: list[Objection] = []
        self.judged = 0
        self.unverifiable: Counter[str] = Counter()
        self._state = state
        self._now = record.now
        self._known: set[str] = set()
        self._ids: dict[tuple[str, str], str] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._fresh: Counter[str] = Counter()
        self._refused: Counter[tuple[str, str]] = Counter()
        self._kinds: dict[tuple[object, ...], Declined | _Made] = {}
        self._last_refused = state.judged
        self._counts = any(isinstance(fact, f.RefusalsCountedV1) for fact in record.facts)
        for fact in record.facts:
            self._judge(fact)

    def _judge(self, fact: AnyFact) -> None:
        before = sum(self.unverifiable.values())
        match fact:
            case f.AccountNumberedV1():
                self._numbered(fact)
            case f.JobAdmittedV1():
                self._admitted(fact)
            case f.JobRejectedV1():
                self._rejected(fact)
            case f.WishRefusedV1():
                self._wish_refused(fact)
            case f.JobCancelRequestedV1():
                self._cancel(fact)
            case f.JobRequeueRequestedV1():
                self._requeue(fact)
            case f.RefusalsCountedV1():
                self._counted(fact)
            case f.WishesJudgedV1():
                if fact.through <= self._state.judged:
                    self._object(fact, f"submissions through {self._state.judged} had been judged already")
            case _:
                return
        self.judged += sum(self.unverifiable.values()) == before

    def _object(self, fact: AnyFact, why: str, instead: AnyFact | None = None) -> None:
        self.objections.append(Objection(fact, why, instead))

    def _is_known(self, key: str) -> bool:
        return key in self._known or known_digest(self._state, key) is not None

    def _numbered(self, fact: f.AccountNumberedV1) -> None:
        user, number = (fact.tenant, fact.user), next_number(self._state, self._numbers.values())
        if user in self._state.accounts or user in self._numbers:
            self._object(fact, f"{fact.tenant}.{fact.user} had the number {self._state.accounts.get(user, number)} already")
        elif fact.number != number:
            instead = structs.replace(fact, number=number)
            self._object(fact, f"{fact.tenant}.{fact.user} is given {fact.number}, and {number} would be next", instead)
        self._numbers.setdefault(user, fact.number)

    def _is_of_another(self, fact: f.JobAdmittedV1 | f.JobRejectedV1) -> bool:
        """Object if another user of the tenant has a job of this id."""
        tenant, _, job_id = fact.job.split(".")
        first = self._ids.setdefault((tenant, job_id), fact.job)
        found = is_of_another(self._state, fact.job) or (first != fact.job and self._state.terms.amended)
        if found:
            self._object(fact, f"the id of job {fact.job} is already used by another user's job in {tenant} (R14)")
        return found

    def _admitted(self, fact: f.JobAdmittedV1) -> None:
        tenant, user, job_id = fact.job.split(".")
        asker = Asker(tenant, user, fact.policy, fact.profile, fact.submitted_by)
        if self._is_known(fact.job):
            self._object(fact, f"job {fact.job} had been judged already (R14)")
            return
        if self._is_of_another(fact):
            return
        again = self._admitted_again(fact, asker, job_id)
        if isinstance(again, Declined):
            (reason, message), retry_after = again
            instead = f.JobRejectedV1(
                job=fact.job,
                policy=fact.policy,
                profile=fact.profile,
                reason=reason,
                message=message[:MESSAGE_MAX],
                name=fact.name,
                digest=fact.digest,
                retry_after=retry_after,
                submitted_by=fact.submitted_by,
            )
            self._object(fact, f"job {fact.job} is admitted, and would be rejected: {reason}, {message}", instead)
        elif again != fact:
            others = ", ".join(name for name in fact.__struct_fields__ if getattr(fact, name) != getattr(again, name))
            self._object(fact, f"job {fact.job} is admitted, and its {others} would be otherwise", again)
        self._known.add(fact.job)
        count = jobs_in(fact.array)
        self._fresh.update({tenant: 1, f"{tenant}/{fact.policy}": count, f"{tenant}/{fact.policy}/{user}": count})

    def _admitted_again(self, fact: f.JobAdmittedV1, asker: Asker, job_id: str) -> Declined | f.JobAdmittedV1:
        """The rejection that an admitted job should have got; otherwise the fact as it would be stated."""
        if wrong := wrong_fields(fact.labels, fact.name, fact.priority, fact.max_retries) or self._wrong_after(fact, asker):
            return Declined(Rejection(RejectReason.MALFORMED, wrong))
        if (too_old := id_too_old(job_id, self._now)) is not None:
            return Declined(too_old)
        kind = (asker, tuple(fact.request.items()), fact.gpu_memory, fact.preemptible, fact.contained, fact.rules)
        made = self._kinds.get(kind)  # a record often has many jobs of one kind
        if made is None:
            made = self._kinds[kind] = self._made(fact, asker)
        if isinstance(made, Declined):
            return made
        policy, profile = self._state.policies[asker.tenant, asker.policy], self._state.profile(asker.tenant, asker.profile)
        limit = time_limit_of(policy.document, profile, fact.time_limit) if profile is not None else fact.time_limit
        if isinstance(limit, Rejection):
            return Declined(limit)
        if wrong := wrong_array(self._state, fact.array):
            return Declined(Rejection(RejectReason.MALFORMED, wrong))
        if (crowded := self._too_many(asker, policy, jobs_in(fact.array))) is not None:
            return crowded
        stated = (
            fact.request,
            fact.mig,
            fact.replicas,
            fact.contained,
            fact.rules,
            fact.gpu_memory,
            fact.shares,
            fact.by_model,
        )
        if made == stated and limit == fact.time_limit:
            return fact
        return structs.replace(fact, time_limit=limit, **made._asdict())

    def _made(self, fact: f.JobAdmittedV1, asker: Asker) -> Declined | _Made:
        """Fields that all jobs of this kind share while the state is unchanged, or their rejection."""
        queue = queue_of(self._state, asker, self._now)
        if isinstance(queue, Rejection):
            return Declined(queue)
        policy, profile = queue
        group = self._state.group(asker.tenant, policy.document.group)
        rules = rules_of(group)
        contained = fact.contained or bool(rules.default_image)
        if not contained and (forbidden := against_image(group, "")) is not None:
            return Declined(forbidden)
        asked = RequestedJob(_as_asked(self._state, profile, fact), fact.preemptible, contained)
        given = amounts_of(self._state, asker, queue, asked)
        if isinstance(given, Declined):
            return given
        always, perhaps = possible_uses(rules, contained=contained)
        lines = fact.rules if always <= set(fact.rules) <= perhaps else tuple(sorted(always))
        return _Made(given.request, given.mig, profile.replicas, contained, lines, *given[2:])

    def _wrong_after(self, fact: f.JobAdmittedV1, asker: Asker) -> str:
        for other in fact.after:
            is_ours = other.job.startswith(asker.tenant + ".") and other.when in ("ok", "any")
            # a submission that was refused and only counted is known to later ones of the record, but not named
            is_known = self._counts or self._is_known(other.job) or state_of(self._state, other.job) is not None
            if not is_ours or not is_known:
                return f"after: no job {other.job[:200]} is known"
        return ""

    def _too_many(self, asker: Asker, policy: PolicyState, count: int = 1) -> Declined | None:
        queue = f"{asker.tenant}/{asker.policy}"
        pending, fresh, own = (self._fresh[name] for name in (queue, asker.tenant, f"{queue}/{asker.user}"))
        return too_many(self._state, policy, asker.user, self._now, pending=pending, fresh=fresh, own=own, count=count)

    def _rejected(self, fact: f.JobRejectedV1) -> None:
        tenant, user, job_id = fact.job.split(".")
        asker = Asker(tenant, user, fact.policy, fact.profile, fact.submitted_by)
        self._refuse((tenant, user), fact)
        if self._is_known(fact.job):
            self._object(fact, f"job {fact.job} had been judged already (R14)")
            return
        if self._is_of_another(fact):
            return
        self._known.add(fact.job)
        again = self._verdict(fact, asker, job_id)
        if again is None:
            self.unverifiable[fact.reason] += 1
        elif not isinstance(again, Declined):
            self._object(fact, f"job {fact.job} is rejected with {fact.reason}, and would not be for that: {again}")
        elif (fact.reason, fact.message, fact.retry_after) != (
            again.rejection.reason,
            again.rejection.message[:MESSAGE_MAX],
            again.retry_after,
        ):
            (reason, message), retry_after = again
            instead = structs.replace(fact, reason=reason, message=message[:MESSAGE_MAX], retry_after=retry_after)
            why = f"job {fact.job} is rejected with {fact.reason}, and would be with {reason}: {message}"
            self._object(fact, why, instead)

    def _verdict(self, fact: f.JobRejectedV1, asker: Asker, job_id: str) -> Declined | str | None:
        """The rejection as it would be stated; a text if the job would not be rejected; None if that depends on the submission."""
        reason, too_old = fact.reason, id_too_old(job_id, self._now)
        if reason == RejectReason.MALFORMED and fact.request is None:
            return None
        if too_old is not None or reason == RejectReason.ID_TOO_OLD:
            return "its id is of today" if too_old is None else Declined(too_old)
        queue = queue_of(self._state, asker, self._now)
        if isinstance(queue, Rejection):
            return Declined(queue)
        if fact.request is not None:
            asked = RequestedJob(fact.request, fact.preemptible, fact.contained)
            amounts = amounts_of(self._state, asker, queue, asked)
            found = amounts if isinstance(amounts, Declined) else self._too_many(asker, queue[0])
            return "its request fits, and the queue is not full" if found is None else found
        if fact.on_behalf_of and acting(self._state, asker, fact.on_behalf_of, self._now) == asker:
            forbidden = not_on_behalf(asker, fact.on_behalf_of)
            return "its account may act for the user" if forbidden is None else Declined(forbidden)
        group = self._state.group(asker.tenant, queue[0].document.group)
        if reason == RejectReason.RUNTIME_RULE:
            return None if has_rules(group) else "its group forbids nothing"
        return "it may use the queue" if reason in EARLIER or reason == RejectReason.NOT_ALLOWED else None

    def _wish_refused(self, fact: f.WishRefusedV1) -> None:
        self._refuse(asker_of(fact.subject), fact)
        if fact.wish <= self._state.judged or fact.wish < self._last_refused:
            self._object(fact, f"submission {fact.wish} had been judged already")
            return
        self._last_refused = fact.wish
        key = _unknown_job(fact)
        if not key or self._counts:
            self.unverifiable[fact.reason] += 1
        elif self._is_known(key):
            self._object(fact, f"it calls job {key} unknown, but the job exists")

    def _cancel(self, fact: f.JobCancelRequestedV1) -> None:
        array = self._state.arrays.get(fact.job)
        job = self._state.jobs.get(fact.job) if array is None else array.job
        if not (fact.job in self._known or self._counts or (job is not None and job.state not in FINAL)):
            self._object(fact, f"job {fact.job} cannot be cancelled: it is not known or has ended")

    def _requeue(self, fact: f.JobRequeueRequestedV1) -> None:
        job, array = self._state.jobs.get(fact.job), self._state.arrays.get(fact.job)
        if array is not None and any(one.state in REQUEUED_FROM for one in chosen(array, fact.elements)):
            return
        if job is None or job.state not in REQUEUED_FROM or job.attempt != fact.attempt:
            self._object(
                fact, f"attempt {fact.attempt} of job {fact.job} cannot be requeued: it is not this job's running attempt (R29)"
            )

    def _refuse(self, who: tuple[str, str], fact: AnyFact) -> None:
        """Count one refusal that is stated singly (R14)."""
        if self._stated(who) >= REFUSALS_STATED:
            self._object(
                fact, f"it is refusal {self._stated(who) + 1} of {who[1]} in a second, and would only be counted (R14)"
            )
        self._refused[who] += 1

    def _counted(self, fact: f.RefusalsCountedV1) -> None:
        if self._stated((fact.tenant, fact.user)) < REFUSALS_STATED or fact.count < 1:
            self._object(
                fact, f"refusals of {fact.user} are counted before {REFUSALS_STATED} have been stated in a second (R14)"
            )

    def _stated(self, who: tuple[str, str]) -> int:
        second, stated = self._state.refusals.get(who, (0, 0))
        return self._refused[who] + (stated if second == self._now // SECOND else 0)


def _as_asked(state: State, profile: Profile, fact: f.JobAdmittedV1) -> Amounts:
    """A request that yields what one replica of the admitted job gets."""
    amounts = fact.request
    if GPU_MEMORY in profile.request:
        amounts = {key: amount for key, amount in amounts.items() if key != GPU} | {GPU_MEMORY: fact.gpu_memory}
        return amounts | {key: 0 for key in profile.request if key not in amounts}
    given = asked_by(state, profile)
    kept = {key: amount for key, amount in amounts.items() if not (profile.mig and (amount == given.get(key) or key == GPU))}
    return kept | {key: 0 for key in given if key not in amounts}


def _unknown_job(fact: f.WishRefusedV1) -> str:
    """Key of the job that a refusal calls unknown; empty for other refusals."""
    subject, _ = split_by(fact.subject)
    try:
        tenant, user, job_id = (parse_cancel if subject.startswith("hr.cancel.") else parse_requeue)(subject)
    except IdError:
        return ""
    return job_key(tenant, user, job_id) if fact.message == f"{user} has no job {job_id}" else ""
