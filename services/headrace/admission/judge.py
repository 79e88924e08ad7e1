"""The tests of R13, in their order; the first that fails is the reason. Pure: values in, a fact out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.admission.amounts import GivenAmounts, RequestedJob, given_to
from headrace.admission.array_range import jobs_in, read_array
from headrace.admission.guards import against_rules, id_too_old, network_unstated, too_fast
from headrace.admission.runtime import NO_RULES, default_request, rules_of, text_of, uses, with_defaults
from headrace.contracts import facts as f
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.messages.submissions import COMMAND_MAX, TEXT_MAX
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.digests import submission_digest
from headrace.contracts.transport.subjects import parse_submit, split_by
from headrace.contracts.values.amounts import AmountError, is_key, parse_amount
from headrace.contracts.values.arrays import ArrayError
from headrace.contracts.values.durations import DurationError, parse_duration
from headrace.contracts.values.ids import job_key
from headrace.contracts.values.reasons import REJECT_SENTENCES, RejectReason
from headrace.domain.fold.arrays import state_of
from headrace.domain.queueing.access import is_member, may_act
from headrace.domain.queueing.admissible import Rejection, open_pools, time_limit_of
from headrace.domain.queueing.freeze_drain import GOING, pool_closing, queue_closing, sentence
from headrace.domain.state.gpu_shares import most_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from headrace.contracts.documents.model import PolicyProfile, Profile
    from headrace.contracts.messages.submissions import JobSubmission, JobText
    from headrace.contracts.values.amounts import Amounts
    from headrace.contracts.values.arrays import ArrayRange
    from headrace.domain.model.jobs import PolicyState
    from headrace.domain.state.state import State

    Queue = tuple[PolicyState, Profile]

RETRY_AFTER = 10_000_000
LABELS_MAX = 64
NAME_MAX, MESSAGE_MAX = 256, 512
AFTER_MAX = 100
TRACE_MAX = 128
"""Maximum length of a traceparent; a longer one is dropped."""
PRIORITY_MAX = 1_000_000
RETRIES_MAX = 1_000


class Asker(NamedTuple):
    """User and queue of a submission. `by`: the submitting account if it is not the user, as facts name it (`acme.ci`).

    All of it comes from the subject, because the bus checks only the subject; the payload names only the member for whom a service account
    acts.
    """

    tenant: str
    user: str
    policy: str
    profile: str
    by: str = ""

    @property
    def names(self) -> frozenset[str]:
        """Handles, in the tenant, of the user and of the account that acts for it."""
        tenant, _, handle = self.by.partition(".")
        return frozenset((self.user, handle)) if tenant == self.tenant else frozenset((self.user,))


def asker_of_submit(subject: str) -> Asker:
    """Asker and queue of a subject of SUBMIT. Raises IdError if malformed."""
    plain, by = split_by(subject)
    return Asker(*parse_submit(plain), by)


def acting(state: State, asker: Asker, user: str, now: int) -> Asker:
    """The asker acting for `user` if the queue's group trusts it to (`on_behalf`); otherwise the unchanged asker."""
    if user in ("", asker.user) or asker.by:
        return asker
    policy = state.policies.get((asker.tenant, asker.policy))
    if policy is None or not may_act(state, asker.tenant, policy.document.group, asker.user, user, now):
        return asker
    return asker._replace(user=user, by=f"{asker.tenant}.{asker.user}")


class Declined(NamedTuple):
    """A rejection, and the microseconds after which a new attempt can succeed; None if waiting does not help."""

    rejection: Rejection
    retry_after: int | None = None


class _Read(NamedTuple):
    """The fields of a well-formed submission, in the units of facts."""

    request: Amounts
    time_limit: int | None
    after: tuple[Dependency, ...]
    array: ArrayRange | None


def judge(
    state: State,
    asker: Asker,
    submission: JobSubmission,
    now: int,
    *,
    pending: int,
    fresh: int = 0,
    own: int = 0,
    batch: Collection[str],
    seal: Callable[[str, str, JobText], str],
) -> f.JobAdmittedV1 | f.JobRejectedV1:
    """The fact about one submission with a valid, new id; `asker` as returned by `acting`.

    `pending`: jobs of the policy admitted already in this record, `own`: of its user there, `fresh`: of the tenant; `batch`: keys of jobs
    admitted in it, on which others may depend; `seal(tenant, job, text)` returns the job's text as the record contains it.
    """
    key, digest = job_key(*asker[:2], submission.id), submission_digest(asker.policy, asker.profile, submission)
    if isinstance(read := _read(state, asker, submission, now, batch), Rejection):
        return _rejected(key, asker, submission, digest, Declined(read))
    if isinstance(queue := queue_of(state, asker, now), Rejection):
        return _rejected(key, asker, submission, digest, Declined(queue))
    policy, profile = queue
    group = state.group(asker.tenant, policy.document.group)
    submission = with_defaults(rules := rules_of(group), submission)
    forbidden = not_on_behalf(asker, submission.on_behalf_of) or against_rules(group, submission)
    if forbidden is not None:
        return _rejected(key, asker, submission, digest, Declined(forbidden))
    if isinstance(limit := time_limit_of(policy.document, profile, read.time_limit), Rejection):
        return _rejected(key, asker, submission, digest, Declined(limit))
    wanted = read.request or default_request(rules, most_of(state, profile))
    asked = RequestedJob(wanted, submission.preemptible, contained=bool(submission.image))
    given = amounts_of(state, asker, queue, asked)
    if isinstance(given, Declined):
        return _rejected(key, asker, submission, digest, given, asked)
    count = jobs_in(read.array)
    if (crowded := too_many(state, policy, asker.user, now, pending=pending, fresh=fresh, own=own, count=count)) is not None:
        return _rejected(key, asker, submission, digest, crowded, asked)
    return f.JobAdmittedV1(
        job=key,
        policy=asker.policy,
        profile=asker.profile,
        **given._asdict(),
        replicas=profile.replicas,
        preemptible=submission.preemptible,
        priority=submission.priority,
        max_retries=submission.retries,
        time_limit=limit,
        after=read.after,
        name=submission.name,
        labels=submission.labels,
        digest=digest,
        text=seal(asker.tenant, key, text := text_of(rules, submission)),
        trace=submission.trace if len(submission.trace) <= TRACE_MAX else "",
        submitted_by=asker.by,
        rules=uses(rules, submission, text),
        contained=asked.contained,
        array=read.array,
    )


def amounts_of(state: State, asker: Asker, queue: Queue, asked: RequestedJob) -> GivenAmounts | Declined:
    """What one replica gets; a rejection if the profile does not allow it or no node could ever run it."""
    if asked.contained and (unstated := network_unstated(state, queue[1])) is not None:
        return Declined(unstated)
    given = given_to(state, queue, asked, beyond=asker.user in queue[0].document.beyond_limit)
    return Declined(given) if isinstance(given, Rejection) else given


def too_many(
    state: State, policy: PolicyState, user: str, now: int, *, pending: int, fresh: int, own: int = 0, count: int = 1
) -> Declined | None:
    """Rejection because the disk, the policy's queue, its user's part of it or the tenant's rate is full; else None (R14).

    With the time to wait. `pending`, `own` and `fresh`: those admitted in the same record, of the policy, of the user there, of the tenant;
    `count`: how many jobs it is.
    """
    if state.terms.scarce:
        return Declined(
            Rejection(RejectReason.DISK_FULL, f"{REJECT_SENTENCES[RejectReason.DISK_FULL]}; try again in 10 s"), RETRY_AFTER
        )
    most, name, tenant = policy.document.max_pending, policy.document.name, policy.document.tenant
    per_user = policy.document.per_user
    mine = None if per_user is None else per_user.max_pending
    if max(count - most, count - mine if mine is not None else 0) > 0:
        bound = most if mine is None else min(most, mine)
        message = f"array: it has {count} elements, and at most {bound} jobs may be pending; submit smaller ones"
        return Declined(Rejection(RejectReason.TOO_MANY_PENDING, message))
    if mine is not None and policy.user_pending.get(user, 0) + own + count > mine:
        message = f"{mine} jobs of user {user} are pending in policy {name}, as many as each user may have; try again in 10 s"
        return Declined(Rejection(RejectReason.TOO_MANY_PENDING, message), RETRY_AFTER)
    if policy.pending + pending + count <= most:
        found = too_fast(state, tenant, now, fresh)
        return None if found is None else Declined(*found)
    message = f"{most} jobs are pending in policy {name}; try again in 10 s"
    return Declined(Rejection(RejectReason.TOO_MANY_PENDING, message), RETRY_AFTER)


def not_on_behalf(asker: Asker, user: str) -> Rejection | None:
    """Rejection of a service account that the queue's group does not trust to act for `user` (see `acting`), or None."""
    if user in ("", asker.user):
        return None
    message = f"on_behalf_of: {asker.user} may not submit for {user[:63]} here; the group has to name it in on_behalf"
    return Rejection(RejectReason.NOT_ALLOWED, message)


def _rejected(
    key: str, asker: Asker, submission: JobSubmission, digest: str, declined: Declined, asked: RequestedJob | None = None
) -> f.JobRejectedV1:
    (reason, message), retry_after = declined
    return f.JobRejectedV1(
        job=key,
        policy=asker.policy,
        profile=asker.profile,
        reason=reason,
        message=message[:MESSAGE_MAX],
        name=submission.name[:NAME_MAX],
        digest=digest,
        retry_after=retry_after,
        submitted_by=asker.by,
        on_behalf_of=submission.on_behalf_of[:63] if not_on_behalf(asker, submission.on_behalf_of) is not None else "",
        request=None if asked is None else asked.request,
        preemptible=asked is None or asked.preemptible,
        contained=asked is not None and asked.contained,
    )


def _malformed(message: str) -> Rejection:
    return Rejection(RejectReason.MALFORMED, message)


def _read(state: State, asker: Asker, submission: JobSubmission, now: int, batch: Collection[str]) -> _Read | Rejection:
    """Parse a submission. Returns a rejection if a field is malformed or the id is not recent (R14)."""
    wrong = _wrong_text(submission)
    if wrong:
        return _malformed(wrong)
    request: Amounts = {}
    for name, written in submission.request.items():
        try:
            if not is_key(name):
                return _malformed(f"request: {name!r} is not a resource; write gpu, cpu, memory or a key of the pool")
            request[name] = parse_amount(name, str(written))
        except AmountError as error:
            return _malformed(f"request.{name}: {error}")
    try:
        time_limit = parse_duration(submission.time_limit) if submission.time_limit else None
        array = read_array(state, submission.array)
    except DurationError as error:
        return _malformed(f"time_limit: {error}")
    except ArrayError as error:
        return _malformed(f"array: {error}")
    if (too_old := id_too_old(submission.id, now)) is not None:
        return too_old
    if len(submission.after) > AFTER_MAX:
        return _malformed(f"after: at most {AFTER_MAX} jobs")
    after = []
    for dependency in submission.after:
        other = dependency.job if "." in dependency.job else f"{asker.tenant}.{asker.user}.{dependency.job}"
        known = other in batch or state_of(state, other) is not None
        if not known or not other.startswith(asker.tenant + "."):
            return _malformed(f"after: no job {dependency.job[:200]} is known; submit it first, with its id in full")
        if dependency.when not in ("ok", "any"):
            return _malformed(f"after: {dependency.when!r} is not a condition; write ok or any")
        after.append(Dependency(job=other, when=dependency.when))
    return _Read(request, time_limit, tuple(after), array)


def _wrong_text(submission: JobSubmission) -> str:
    """The first error in the plain fields; empty if they are valid."""
    if not submission.command or not submission.command[0]:
        return "command: it is empty; give the program and its arguments as a list of strings"
    if len(submission.command) > COMMAND_MAX or sum(map(len, submission.command)) > TEXT_MAX:
        return f"command: at most {COMMAND_MAX} words and {TEXT_MAX} characters; put more into a script"
    if nul := next((field for field, words in _texts(submission) if any("\0" in word for word in words)), ""):
        return f"{nul}: a NUL character cannot stand here; leave it out"
    if any(not name or "=" in name for name in (*submission.env, *submission.secret_env)):
        return "env: a variable's name is not empty and has no '='"
    if sum(len(name) + len(value) for name, value in submission.env.items()) > TEXT_MAX:
        return f"env: at most {TEXT_MAX} characters in all"
    if len(encode(text_of(NO_RULES, submission))) > 3 * TEXT_MAX:
        return f"command, env, secret_env, image, workdir, on_abort: at most {3 * TEXT_MAX} bytes in all"
    return wrong_fields(submission.labels, submission.name, submission.priority, submission.retries)


def _texts(submission: JobSubmission) -> tuple[tuple[str, Iterable[str]], ...]:
    """Texts of a submission that facts contain or that a process gets, by field."""
    return (
        ("name", (submission.name,)),
        ("labels", (*submission.labels, *submission.labels.values())),
        ("command", submission.command),
        ("on_abort", submission.on_abort),
        ("env", (*submission.env, *submission.env.values())),
        ("secret_env", submission.secret_env),
        ("image", (submission.image,)),
        ("workdir", (submission.workdir,)),
        ("trace", (submission.trace,)),
        ("on_behalf_of", (submission.on_behalf_of,)),
    )


def wrong_fields(labels: Mapping[str, str], name: str, priority: int, retries: int) -> str:
    """The first error in the fields that facts contain as submitted; empty if they are valid."""
    if len(labels) > LABELS_MAX or any(len(k) > 63 or len(v) > 256 for k, v in labels.items()):
        return f"labels: at most {LABELS_MAX}, names of 63 and values of 256 characters"
    if len(name) > NAME_MAX:
        return f"name: at most {NAME_MAX} characters"
    if not -PRIORITY_MAX <= priority <= PRIORITY_MAX:
        return f"priority: between -{PRIORITY_MAX} and {PRIORITY_MAX}"
    if not 0 <= retries <= RETRIES_MAX:
        return f"retries: between 0 and {RETRIES_MAX}"
    return ""


def queue_of(state: State, asker: Asker, now: int) -> Queue | Rejection:
    """Policy and profile of a queue, or a rejection: the tenant, user and queue are known, and the user may use the queue (R12)."""
    if not state.has_tenant(asker.tenant):
        return Rejection(RejectReason.UNKNOWN_TENANT, f"there is no tenant {asker.tenant}")
    policy = state.policies.get((asker.tenant, asker.policy))
    link = _link(policy, asker.profile)
    profile = state.profile(asker.tenant, asker.profile)
    if policy is None or link is None or profile is None:
        return Rejection(RejectReason.UNKNOWN_QUEUE, _unknown_queue(state, asker, now))
    if policy.document.group and not is_member(state, asker.tenant, policy.document.group, asker.user, now):
        message = f"{asker.user} is not in group {policy.document.group}, whose queue {asker.policy}/{asker.profile} is"
        return Rejection(RejectReason.NOT_ALLOWED, message)
    if link.submitters and asker.names.isdisjoint(link.submitters):
        message = f"queue {asker.policy}/{asker.profile} takes jobs from {', '.join(link.submitters)} only"
        return Rejection(RejectReason.NOT_ALLOWED, message)
    if any(name in state.pools for name in profile.pools) and not open_pools(state, policy, profile):
        return Rejection(RejectReason.NOT_ALLOWED, f"no pool of profile {asker.profile} is open to {asker.tenant}")
    return _closed(state, policy, profile) or (policy, profile)


def _closed(state: State, policy: PolicyState, profile: Profile) -> Rejection | None:
    """Rejection by a queue that is drained or cancelled (R11); a frozen queue takes jobs, which wait."""
    closings = [queue_closing(state, policy, profile.name)]
    if closings[0] is None and (pools := open_pools(state, policy, profile)):
        closings = [pool_closing(state, pool.document.name) for pool in pools]
    if any(closing is None or closing.mode not in GOING for closing in closings):
        return None
    return Rejection(RejectReason.QUEUE_DELETED, "; ".join(sentence(closing) for closing in closings if closing is not None))


def _link(policy: PolicyState | None, profile: str) -> PolicyProfile | None:
    links = policy.document.profiles if policy is not None else ()
    return next((link for link in links if link.name == profile), None)


def _unknown_queue(state: State, asker: Asker, now: int) -> str:
    """Message that lists the asker's queues: those of policies whose group the asker is in."""
    mine = [
        f"{policy.document.name}/{link.name}"
        for policy in state.policies.values()
        if policy.document.tenant == asker.tenant
        and (not policy.document.group or is_member(state, asker.tenant, policy.document.group, asker.user, now))
        for link in policy.document.profiles
    ]
    known = f"yours are {', '.join(sorted(mine)[:8])}" if mine else "you have none"
    return f"there is no queue {asker.policy}/{asker.profile}; {known}"
