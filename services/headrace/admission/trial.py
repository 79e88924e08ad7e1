"""Verdicts on a message as if it were published: the same judgement without stating facts. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.admission.array_range import jobs_in
from headrace.admission.judge import acting, asker_of_submit, judge
from headrace.contracts import facts as f
from headrace.contracts.messages.trials import TrialAnswer, Verdict
from headrace.contracts.transport.codec import decode_submit
from headrace.contracts.transport.digests import submission_digest
from headrace.contracts.values.gpu_memory import memory_text
from headrace.contracts.values.ids import is_ulid, job_key
from headrace.contracts.values.reasons import REJECT_SENTENCES, RejectReason
from headrace.domain.explain.growth_cost import growth_costs
from headrace.domain.model.requests import is_steady, make_request
from headrace.domain.state.used_ids import ID_OF_ANOTHER, is_of_another, known_digest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headrace.contracts.messages.trials import TrialRequest
    from headrace.domain.state.state import State


def try_message(state: State, request: TrialRequest, now: int) -> TrialAnswer:
    """A verdict for each job of the message, as if those before it had been admitted. Raises IdError, Malformed."""
    asker = asker_of_submit(request.subject)
    admitted: Counter[str] = Counter()
    batch: dict[str, str] = {}
    ids: dict[str, str] = {}  # id to the key that came first in the message
    verdicts: list[Verdict] = []
    would_be: list[f.JobAdmittedV1] = []
    for submission in decode_submit(bytes(request.message)):
        if not is_ulid(submission.id):
            message = f"id: {submission.id[:40]!r} is not a lower-case ULID of 26 characters"
            verdicts.append(Verdict(job="", reason=RejectReason.MALFORMED, message=message))
            continue
        whose = acting(state, asker, submission.on_behalf_of, now)
        key, digest = (
            job_key(whose.tenant, whose.user, submission.id),
            submission_digest(whose.policy, whose.profile, submission),
        )
        if is_of_another(state, key) or (ids.setdefault(submission.id, key) != key and state.terms.amended):
            verdicts.append(Verdict(job=key, reason=RejectReason.ID_REUSED, message=ID_OF_ANOTHER))
            continue
        known = known_digest(state, key) or batch.get(key)
        if known is not None:
            reason = "" if known == digest else RejectReason.ID_REUSED
            verdicts.append(Verdict(job=key, reason=reason, message=REJECT_SENTENCES[RejectReason.ID_REUSED] if reason else ""))
            continue
        policy = f"{whose.tenant}/{whose.policy}"
        user = f"{policy}/{whose.user}"
        before = {"pending": admitted[policy], "fresh": admitted[whose.tenant], "own": admitted[user]}
        fact = judge(state, whose, submission, now, **before, batch=batch, seal=lambda *_: "")
        if isinstance(fact, f.JobRejectedV1):
            verdicts.append(Verdict(job=key, reason=fact.reason, message=fact.message))
            continue
        batch[key] = digest
        would_be.append(fact)
        count = jobs_in(fact.array)
        admitted.update({policy: count, whose.tenant: 1, user: count})
        shares = memory_text(fact.gpu_memory, fact.shares) if fact.shares else ""
        verdicts.append(Verdict(job=key, message=shares))
    return TrialAnswer(verdicts=tuple(verdicts), costs=tuple(_costs(state, would_be, now)))


def _costs(state: State, jobs: Sequence[f.JobAdmittedV1], now: int) -> Iterator[str]:
    """What nodes would cost that are created for these jobs, a line for each pool and kind of job."""
    counts: Counter[tuple[object, ...]] = Counter()
    first: dict[tuple[object, ...], f.JobAdmittedV1] = {}
    for fact in jobs:
        kind: tuple[object, ...] = (
            fact.profile,
            tuple(sorted(fact.request.items())),
            fact.shares,
            fact.preemptible,
            fact.contained,
            fact.time_limit,
        )
        counts[kind] += jobs_in(fact.array)
        first.setdefault(kind, fact)
    for kind, fact in first.items():
        profile = state.profile(fact.job.partition(".")[0], fact.profile)
        if profile is not None:
            steady = is_steady(profile, state.terms.level, preemptible=fact.preemptible)
            request = make_request(
                *(fact.request, fact.replicas, profile, fact.mig),
                contained=fact.contained,
                steady=steady,
                memory=fact.gpu_memory,
                shares=fact.shares,
                by_model=fact.by_model,
            )
            yield from growth_costs(state, profile, request, counts[kind], fact.time_limit, now)
