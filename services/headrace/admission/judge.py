"""The tests of R13, in their order; the first that fails is the reason. Pure: values in, a fact out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from headrace.admission.guards import against_rules, too_fast
from headrace.admission.runtime import NO_RULES, default_request, rules_of, text_of, uses, with_defaults
from headrace.contracts import facts as f
from headrace.contracts.facts.admission import Dependency
from headrace.contracts.messages.submissions import COMMAND_MAX, TEXT_MAX
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import parse_submit, split_by
from headrace.contracts.values.amounts import GPU, GPU_UNITS, AmountError, format_amount, is_key, parse_amount
from headrace.contracts.values.digests import submission_digest
from headrace.contracts.values.durations import DAY, MINUTE, DurationError, parse_duration
from headrace.contracts.values.ids import job_id_time, job_key
from headrace.contracts.values.reasons import REJECT_SENTENCES, RejectReason
from headrace.domain.model.requests import asked_by, make_request
from headrace.domain.queueing.access import is_member, may_act
from headrace.domain.queueing.admissible import Rejection, never_fits, open_pools
from headrace.domain.queueing.freeze_drain import GOING, pool_closing, queue_closing, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from headrace.contracts.documents.model import PolicyProfile, Profile
    from headrace.contracts.messages.submissions import JobText, JobWish
    from headrace.contracts.values.amounts import Amounts
    from headrace.domain.model.state import PolicyState, State

    Queue = tuple[PolicyState, Profile]

ID_AGE_MAX = 1 * DAY
ID_AHEAD_MAX = 5 * MINUTE
RETRY_AFTER = 10_000_000
LABELS_MAX = 64
NAME_MAX, MESSAGE_MAX = 256, 512
AFTER_MAX = 100
TRACE_MAX = 128
"""A longer one is no traceparent, and is not carried on."""
PRIORITY_MAX = 1_000_000
RETRIES_MAX = 1_000


class Asker(NamedTuple):
    """For whom and where a job is submitted. `by`: who submits it for that user, as facts name them (`acme.ci`); empty: the user.

    The subject says so, because only the subject is checked by the bus; of the payload only the member for whom a service account acts.
    """

    tenant: str
    user: str
    policy: str
    profile: str
    by: str = ""

    @property
    def names(self) -> frozenset[str]:
        """The handles, in the tenant, of those who are in this together."""
        tenant, _, handle = self.by.partition(".")
        return frozenset((self.user, handle)) if tenant == self.tenant else frozenset((self.user,))


def asker_of_submit(subject: str) -> Asker:
    """Who submits where; `IdError` where the subject is none to submit on."""
    plain, by = split_by(subject)
    return Asker(*parse_submit(plain), by)


def acting(state: State, asker: Asker, user: str, now: int) -> Asker:
    """The asker as who acts for `user`, where the group of the queue trusts them with it (`on_behalf`); else as before."""
    if user in ("", asker.user) or asker.by:
        return asker
    policy = state.policies.get((asker.tenant, asker.policy))
    if policy is None or not may_act(state, asker.tenant, policy.document.group, asker.user, user, now):
        return asker
    return asker._replace(user=user, by=f"{asker.tenant}.{asker.user}")


class Asked(NamedTuple):
    """What the tests that look at numbers have to know of a job. `request`: what it asks of the profile, empty for all of it."""

    request: Amounts
    preemptible: bool
    contained: bool


class Turned(NamedTuple):
    """Why a job is turned away, and after how many microseconds it may be tried again, where that helps."""

    rejection: Rejection
    retry_after: int | None = None


class _Read(NamedTuple):
    """What a well-formed wish says, in our own terms."""

    request: Amounts
    time_limit: int | None
    after: tuple[Dependency, ...]


def judge(
    state: State,
    asker: Asker,
    wish: JobWish,
    now: int,
    *,
    pending: int,
    fresh: int = 0,
    batch: Collection[str],
    seal: Callable[[str, str, JobText], str],
) -> f.JobAdmittedV1 | f.JobRejectedV1:
    """The fact about one wish with a usable, new id; `asker` as `acting` has it.

    `pending`: jobs already admitted in this batch for the policy, `fresh` for the tenant; `batch`: keys of jobs admitted in it, on which
    others may depend; `seal(tenant, job, text)`: the job's text as it stands in the record.
    """
    key, digest = job_key(asker.tenant, asker.user, wish.id), submission_digest(asker.policy, asker.profile, wish)
    if isinstance(read := _read(state, asker, wish, now, batch), Rejection):
        return _rejected(key, asker, wish, digest, Turned(read))
    if isinstance(queue := queue_of(state, asker, now), Rejection):
        return _rejected(key, asker, wish, digest, Turned(queue))
    policy, profile = queue
    group = state.group(asker.tenant, policy.document.group)
    wish = with_defaults(rules := rules_of(group), wish)
    forbidden = not_on_behalf(asker, wish.on_behalf_of) or against_rules(group, wish)
    if forbidden is not None:
        return _rejected(key, asker, wish, digest, Turned(forbidden))
    wanted = read.request or default_request(rules, dict(asked_by(state, profile)))
    asked = Asked(wanted, wish.preemptible, contained=bool(wish.image))
    amounts = amounts_of(state, asker, queue, asked)
    if isinstance(amounts, Turned):
        return _rejected(key, asker, wish, digest, amounts, asked)
    if (crowded := too_many(state, policy, now, pending=pending, fresh=fresh)) is not None:
        return _rejected(key, asker, wish, digest, crowded, asked)
    text = text_of(rules, wish)
    return f.JobAdmittedV1(
        job=key,
        policy=asker.policy,
        profile=asker.profile,
        request=amounts,
        mig=profile.mig,
        replicas=profile.replicas,
        preemptible=wish.preemptible,
        priority=wish.priority,
        max_retries=wish.retries,
        time_limit=read.time_limit,
        after=read.after,
        name=wish.name,
        labels=wish.labels,
        digest=digest,
        text=seal(asker.tenant, key, text),
        trace=wish.trace if len(wish.trace) <= TRACE_MAX else "",
        submitted_by=asker.by,
        rules=uses(rules, wish, text),
        contained=asked.contained,
    )


def amounts_of(state: State, asker: Asker, queue: Queue, asked: Asked) -> Amounts | Turned:
    """What one replica takes, as far as the profile gives it and it could ever run."""
    policy, profile = queue
    amounts = _within_profile(state, profile, asked.request)
    if isinstance(amounts, Rejection):
        return Turned(amounts)
    request = make_request(amounts, profile.replicas, profile, profile.mig, contained=asked.contained)
    never = never_fits(state, policy, profile, request, preemptible=asked.preemptible, beyond=_beyond(policy, asker))
    return amounts if never is None else Turned(never)


def _beyond(policy: PolicyState, asker: Asker) -> bool:
    """Whether the asker may exceed the policy's limits (R12)."""
    return asker.user in policy.document.beyond_limit


def too_many(state: State, policy: PolicyState, now: int, *, pending: int, fresh: int) -> Turned | None:
    """Why no more may wait here, in the policy, or come from its tenant now, and when to try again (R14)."""
    if state.terms.scarce:
        return Turned(
            Rejection(RejectReason.DISK_FULL, f"{REJECT_SENTENCES[RejectReason.DISK_FULL]}; try again in 10 s"), RETRY_AFTER
        )
    most, name, tenant = policy.document.max_pending, policy.document.name, policy.document.tenant
    if policy.pending + pending < most:
        found = too_fast(state, tenant, now, fresh)
        return None if found is None else Turned(*found)
    message = f"{most} jobs are pending in policy {name}; try again in 10 s"
    return Turned(Rejection(RejectReason.TOO_MANY_PENDING, message), RETRY_AFTER)


def not_on_behalf(asker: Asker, user: str) -> Rejection | None:
    """A service account acts for a member of the queue's group, where that group trusts it to (`acting`)."""
    if user in ("", asker.user):
        return None
    message = f"on_behalf_of: {asker.user} may not submit for {user[:63]} here; the group has to name it in on_behalf"
    return Rejection(RejectReason.NOT_ALLOWED, message)


def _rejected(
    key: str, asker: Asker, wish: JobWish, digest: str, turned: Turned, asked: Asked | None = None
) -> f.JobRejectedV1:
    (reason, message), retry_after = turned
    return f.JobRejectedV1(
        job=key,
        policy=asker.policy,
        profile=asker.profile,
        reason=reason,
        message=message[:MESSAGE_MAX],
        name=wish.name[:NAME_MAX],
        digest=digest,
        retry_after=retry_after,
        submitted_by=asker.by,
        on_behalf_of=wish.on_behalf_of[:63] if not_on_behalf(asker, wish.on_behalf_of) is not None else "",
        request=None if asked is None else asked.request,
        preemptible=asked is None or asked.preemptible,
        contained=asked is not None and asked.contained,
    )


def _malformed(message: str) -> Rejection:
    return Rejection(RejectReason.MALFORMED, message)


def _read(state: State, asker: Asker, wish: JobWish, now: int, batch: Collection[str]) -> _Read | Rejection:
    """Well-formed: everything in the wish can be understood, and its id is of today (R14)."""
    wrong = _wrong_text(wish)
    if wrong:
        return _malformed(wrong)
    request: Amounts = {}
    for name, written in wish.request.items():
        try:
            if not is_key(name):
                return _malformed(f"request: {name!r} is no resource; write gpu, cpu, memory or a key of the pool")
            request[name] = parse_amount(name, str(written))
        except AmountError as error:
            return _malformed(f"request.{name}: {error}")
    try:
        time_limit = parse_duration(wish.time_limit) if wish.time_limit else None
    except DurationError as error:
        return _malformed(f"time_limit: {error}")
    if (too_old := id_too_old(wish.id, now)) is not None:
        return too_old
    if len(wish.after) > AFTER_MAX:
        return _malformed(f"after: at most {AFTER_MAX} jobs")
    after = []
    for dependency in wish.after:
        other = dependency.job if "." in dependency.job else f"{asker.tenant}.{asker.user}.{dependency.job}"
        known = other in state.jobs or other in state.answered or other in batch
        if not known or not other.startswith(asker.tenant + "."):
            return _malformed(f"after: no job {dependency.job[:200]} is known; submit it first, with its id in full")
        if dependency.when not in ("ok", "any"):
            return _malformed(f"after: {dependency.when!r} is no condition; write ok or any")
        after.append(Dependency(job=other, when=dependency.when))
    return _Read(request, time_limit, tuple(after))


def id_too_old(job_id: str, now: int) -> Rejection | None:
    """Why an id is none of today (R14)."""
    if now - ID_AGE_MAX <= job_id_time(job_id) <= now + ID_AHEAD_MAX:
        return None
    return Rejection(RejectReason.ID_TOO_OLD, f"id: {REJECT_SENTENCES[RejectReason.ID_TOO_OLD]}; make a new ULID")


def _wrong_text(wish: JobWish) -> str:
    """What is wrong with the plain fields; empty where nothing is."""
    if not wish.command or not wish.command[0]:
        return "command: it is empty; give the program and its arguments as a list of strings"
    if len(wish.command) > COMMAND_MAX or sum(map(len, wish.command)) > TEXT_MAX:
        return f"command: at most {COMMAND_MAX} words and {TEXT_MAX} characters; put more into a script"
    if nul := next((field for field, words in _texts(wish) if any("\0" in word for word in words)), ""):
        return f"{nul}: a NUL character cannot stand here; leave it out"
    if any(not name or "=" in name for name in (*wish.env, *wish.secret_env)):
        return "env: a variable's name is not empty and has no '='"
    if sum(len(name) + len(value) for name, value in wish.env.items()) > TEXT_MAX:
        return f"env: at most {TEXT_MAX} characters in all"
    if len(encode(text_of(NO_RULES, wish))) > 3 * TEXT_MAX:
        return f"command, env, secret_env, image, workdir, on_abort: at most {3 * TEXT_MAX} bytes in all"
    return wrong_figures(wish.labels, wish.name, wish.priority, wish.retries)


def _texts(wish: JobWish) -> tuple[tuple[str, Iterable[str]], ...]:
    """The texts of a wish that stand in facts, or that a process gets, by field."""
    return (
        ("name", (wish.name,)),
        ("labels", (*wish.labels, *wish.labels.values())),
        ("command", wish.command),
        ("on_abort", wish.on_abort),
        ("env", (*wish.env, *wish.env.values())),
        ("secret_env", wish.secret_env),
        ("image", (wish.image,)),
        ("workdir", (wish.workdir,)),
        ("trace", (wish.trace,)),
        ("on_behalf_of", (wish.on_behalf_of,)),
    )


def wrong_figures(labels: Mapping[str, str], name: str, priority: int, retries: int) -> str:
    """What is wrong with the fields that stand in the record as they were wished; empty where nothing is."""
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
    """Known tenant, user and queue; the user may use the queue (R12)."""
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
    return _on_its_way_out(state, policy, profile) or (policy, profile)


def _on_its_way_out(state: State, policy: PolicyState, profile: Profile) -> Rejection | None:
    """R11: what is drained or cancelled takes nothing new; what is frozen does, and it waits."""
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
    """Name the queues that the asker could have meant: those of policies whose group the asker is in."""
    mine = [
        f"{policy.document.name}/{link.name}"
        for policy in state.policies.values()
        if policy.document.tenant == asker.tenant
        and (not policy.document.group or is_member(state, asker.tenant, policy.document.group, asker.user, now))
        for link in policy.document.profiles
    ]
    known = f"yours are {', '.join(sorted(mine)[:8])}" if mine else "you have none"
    return f"there is no queue {asker.policy}/{asker.profile}; {known}"


def _within_profile(state: State, profile: Profile, asked: Amounts) -> Amounts | Rejection:
    """The profile's amounts, lowered where the wish says so (R3, R13); a slice is what it is (R4)."""
    amounts = dict(asked_by(state, profile))
    for key, amount in asked.items():
        ceiling = amounts.get(key, 0)
        if key == GPU and profile.mig:
            return _malformed(f"request.gpu: profile {profile.name} gives the MIG slice {profile.mig} (R4); leave gpu out")
        if amount > ceiling:
            most = f"profile {profile.name} gives {format_amount(key, ceiling)}"
            return Rejection(RejectReason.BEYOND_PROFILE, f"request.{key}: {format_amount(key, amount)} is asked for, {most}")
        if key == GPU and amount > GPU_UNITS and amount % GPU_UNITS:
            return _malformed(
                f"request.gpu: {format_amount(key, amount)} is no whole number of GPUs; from one up it has to be (R3)"
            )
        amounts[key] = amount
    return {key: amount for key, amount in amounts.items() if amount}
