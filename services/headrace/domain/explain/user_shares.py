"""What the users of a policy hold, where that decides who goes first or who may hold more (R7, R15). Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.values.amounts import GPU, JOB, format_amount

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.domain.model.jobs import JobRecord

USERS_SHOWN = 5
"""Users named in one line; of the others only their number is shown."""


def held_by_others(job: JobRecord, key: str) -> str:
    """The end of a reason: `; other users hold: bob 2, eve 1`."""
    others = [(scope.leased.get(key, 0), user) for user, scope in (job.policy.users or {}).items() if user != job.user]
    held = sorted((-units, user) for units, user in others if units)
    shown = [f"{user} {format_amount(key, -units)}" for units, user in held[:USERS_SHOWN]]
    more = [f"{len(held) - USERS_SHOWN} more users"] if len(held) > USERS_SHOWN else []
    return f"; other users hold: {', '.join([*shown, *more])}" if shown else "; no other user holds any"


def among_users(job: JobRecord) -> Iterator[str]:
    """What each user of its policy holds, where that decides who goes first or who may hold more (R7, R15).

    Such as `you hold gpu 6 of your 8; ann holds 2`.
    """
    policy, per_user = job.policy, job.policy.document.per_user
    limit = per_user.limit if per_user is not None else {}
    users = policy.users or {}
    for key in dict.fromkeys((GPU, *limit)) if policy.users is not None else ():
        held = {user: scope.leased.get(key, 0) for user, scope in users.items()}
        most = f" of your {format_amount(key, limit[key])}" if key in limit else ""
        mine = f"{'job' if key == JOB else key} {format_amount(key, held.pop(job.user, 0))}"
        theirs = sorted((-units, user) for user, units in held.items() if units)
        shown = [f"{user} holds {format_amount(key, -units)}" for units, user in theirs[:USERS_SHOWN]]
        rest = [f"{len(theirs) - USERS_SHOWN} more users hold some"] if len(theirs) > USERS_SHOWN else []
        rule = " (R15: who uses least goes first)" if key == GPU and policy.document.fair_among is not None else ""
        yield f"you hold {mine}{most}; {', '.join([*shown, *rest]) or 'no other user holds any'}{rule}"
