"""Restrictions besides those of the queue (R13, R14, R44): images, commands, networks of containers, submit rates. Pure.

A group's rules guard against mistakes and document what is meant to run in the group. They do not isolate: a program that may run can
start any other.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from headrace.contracts.facts.levels import NETWORKS
from headrace.contracts.values.durations import DAY, MILLISECOND, MINUTE, format_duration
from headrace.contracts.values.ids import job_id_time
from headrace.contracts.values.reasons import REJECT_SENTENCES, RejectReason
from headrace.domain.queueing.admissible import Rejection
from headrace.domain.state.rate_limit import JOB, left, rate_of, wait_for

if TYPE_CHECKING:
    from headrace.contracts.documents.model import Group, Profile
    from headrace.contracts.messages.submissions import JobSubmission
    from headrace.domain.state.state import State


ID_AGE_MAX = 1 * DAY
ID_AHEAD_MAX = 5 * MINUTE


def against_rules(group: Group | None, submission: JobSubmission) -> Rejection | None:
    """Rejection by the group's runtime rules, or None. A deny pattern beats an allow pattern; an empty allow list allows everything."""
    if group is None:
        return None
    if (forbidden := against_image(group, submission.image)) is not None:
        return forbidden
    rules, command = group.runtime, submission.command[0]
    if (rule := _violated(command, rules.allow_commands, rules.deny_commands)) is not None:
        return Rejection(RejectReason.RUNTIME_RULE, f"command: group {group.name} does not allow {command[:200]}: {rule}")
    return _forbidden_names(group, submission)


def against_image(group: Group | None, image: str) -> Rejection | None:
    """Rejection of an image by the group's rules, or None. An empty `image` stands for a job without one."""
    if group is None:
        return None
    rule = _violated(image, group.runtime.allow_images, group.runtime.deny_images)
    if rule is None:
        return None
    what = f"image {image[:200]}" if image else "a job without an image"
    return Rejection(RejectReason.RUNTIME_RULE, f"image: group {group.name} does not allow {what}: {rule}")


def has_rules(group: Group | None) -> bool:
    """True if the group's rules can forbid anything."""
    if group is None:
        return False
    rules = group.runtime
    images, commands = (*rules.allow_images, *rules.deny_images), (*rules.allow_commands, *rules.deny_commands)
    return bool(images or commands or rules.deny_env or rules.secrets)


def network_unstated(state: State, profile: Profile) -> Rejection | None:
    """Rejection of a container of a gang whose profile does not say which network it has (R44), or None."""
    if profile.replicas == 1 or profile.network is not None or state.terms.level < NETWORKS:
        return None
    message = (
        f"network: profile {profile.name} has {profile.replicas} replicas and does not say which network their containers have; write "
        "network: host in the profile if they have to reach each other, else network: private; or submit without an image"
    )
    return Rejection(RejectReason.NETWORK_UNSTATED, message)


def _forbidden_names(group: Group, submission: JobSubmission) -> Rejection | None:
    """Rejection of a variable that the group denies, or of a secret that the group does not have; None if all are allowed."""
    rules = group.runtime
    for name in submission.env:
        pattern = next((pattern for pattern in rules.deny_env if fnmatchcase(name, pattern)), None)
        if pattern is not None:
            message = f"env: group {group.name} does not allow {name[:200]} to be set: it denies {pattern}"
            return Rejection(RejectReason.RUNTIME_RULE, message)
    for name in submission.secret_env:
        if rules.secrets and name not in rules.secrets:
            has = ", ".join(sorted(rules.secrets)[:8])
            return Rejection(
                RejectReason.RUNTIME_RULE, f"secret_env: group {group.name} has no secret {name[:200]}; it has {has}"
            )
    return None


def _violated(text: str, allow: tuple[str, ...], deny: tuple[str, ...]) -> str | None:
    denied = next((pattern for pattern in deny if fnmatchcase(text, pattern)), None)
    if denied is not None:
        return f"it denies {denied}"
    if not allow or any(fnmatchcase(text, pattern) for pattern in allow):
        return None
    return "it allows " + ", ".join(pattern or '""' for pattern in allow[:8])


def too_fast(state: State, tenant: str, now: int, fresh: int) -> tuple[Rejection, int] | None:
    """Rejection by the tenant's submit rate and the microseconds to wait, or None. `fresh`: jobs of the tenant admitted in this record."""
    rate = rate_of(state, tenant)
    if rate is None:
        return None
    drops = left(state, tenant, rate, now) - fresh * JOB
    if drops >= JOB:
        return None
    wait = -(-wait_for(rate, drops) // MILLISECOND) * MILLISECOND
    jobs = "1 job" if rate.per_second == 1 else f"{rate.per_second} jobs"
    message = f"tenant {tenant} may submit {jobs} a second; try again in {format_duration(wait)}"
    return Rejection(RejectReason.TOO_FAST, message), wait


def id_too_old(job_id: str, now: int) -> Rejection | None:
    """Rejection of an id whose time is not close to `now` (R14), or None."""
    if now - ID_AGE_MAX <= job_id_time(job_id) <= now + ID_AHEAD_MAX:
        return None
    return Rejection(RejectReason.ID_TOO_OLD, f"id: {REJECT_SENTENCES[RejectReason.ID_TOO_OLD]}; make a new ULID")
