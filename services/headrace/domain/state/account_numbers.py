"""Account numbers of users on nodes: each is handed out once and never reused. Pure.

From level 2 on admission states the number of a user with the user's first job. Before, every node made it from tenant and handle, by a
hash of 28 bits: a person who chose the handle could choose another user's number. Those who were here when the level was raised keep the
number that they have files under, unless two of them share it: then both are given others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from headrace.contracts.documents.model import Group, Tenant
from headrace.contracts.values.account_numbers import COUNT, FIRST, former_number

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from headrace.domain.state.state import State

    User = tuple[str, str]


def next_number(state: State, more: Collection[int] = ()) -> int:
    """The number for the next user who has none. `more`: those that are handed out in the record that is being made."""
    taken = {*state.accounts.values(), *state.retired_accounts, *more}
    offset = len(taken)
    while FIRST + offset % COUNT in taken:
        offset += 1
    return FIRST + offset % COUNT


def retire(state: State, tenant: str, handle: str = "") -> None:
    """Forget a handle, or without one all handles of the tenant; a number is never handed out again.

    Those with jobs that have not ended keep theirs: a job goes on as who it is.
    """
    working = {(job.tenant, job.user) for job in state.jobs_and_arrays() if not job.ended_at}
    for user in [user for user in state.accounts if user[0] == tenant and handle in ("", user[1]) and user not in working]:
        state.retired_accounts.add(state.accounts.pop(user))


def keep_former(state: State) -> None:
    """Give every known user the number that nodes have used so far, if no other user shares it."""
    users = sorted(set(_known(state)) - state.accounts.keys())
    times = Counter(former_number(*user) for user in users)
    state.retired_accounts.update(number for number, count in times.items() if count > 1)
    for user in users:
        if times[former_number(*user)] == 1:
            state.accounts[user] = former_number(*user)
    for user in users:
        if user not in state.accounts:
            state.accounts[user] = next_number(state)


def _known(state: State) -> Iterator[User]:
    yield from state.users
    for tenant, written in state.tenants.items():
        if isinstance(written.document, Tenant):
            yield from ((tenant, handle) for handle in written.document.admins)
    for (tenant, _), written in state.groups.items():
        if isinstance(written.document, Group):
            yield from ((tenant, handle) for handle in (*written.document.members, *written.document.service_accounts))
    yield from ((token.tenant, token.handle) for token in state.tokens.known.values() if token.tenant)
    yield from state.tokens.claims
    for table in (state.jobs, state.arrays, state.answered):
        for key in table:
            tenant, handle, _ = key.split(".")
            yield tenant, handle
