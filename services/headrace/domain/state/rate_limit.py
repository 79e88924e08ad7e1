"""How many jobs a tenant may submit now (R14): a bucket that fills by the tenant's rate, in log time and integers.

A job takes a million drops; each microsecond brings as many as jobs are allowed in a second. So nothing is ever rounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.contracts.documents.model import Tenant
from headrace.contracts.values.durations import SECOND
from headrace.domain.model.time_rules import Allowance

if TYPE_CHECKING:
    from headrace.contracts.documents.model import SubmitRate
    from headrace.domain.state.state import State

JOB = SECOND
"""Drops."""


def rate_of(state: State, tenant: str) -> SubmitRate | None:
    """The tenant's rate; None: it may submit as fast as it can."""
    written = state.tenants.get(tenant)
    return written.document.submit_rate if written is not None and isinstance(written.document, Tenant) else None


def left(state: State, tenant: str, rate: SubmitRate, now: int) -> int:
    """Drops in the tenant's bucket at `now`."""
    most = (rate.burst or rate.per_second) * JOB
    allowance = state.terms.allowances.get(tenant)
    return most if allowance is None else min(most, allowance.drops + rate.per_second * (now - allowance.at))


def take(state: State, tenant: str) -> None:
    """A job of the tenant was admitted, now."""
    rate = rate_of(state, tenant)
    if rate is not None:
        state.terms.allowances[tenant] = Allowance(max(0, left(state, tenant, rate, state.now) - JOB), state.now)


def wait_for(rate: SubmitRate, drops: int) -> int:
    """Microseconds until there is enough for one job more, when there are `drops`."""
    return max(0, -((drops - JOB) // rate.per_second))
