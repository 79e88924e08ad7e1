"""What the limits of a change do not reach at once: who holds more than they allow (R10), and what is not counted yet (R43).

Nothing that runs is stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.contracts.values.amounts import format_amount, key_of_model
from headrace.domain.model.jobs import Scope
from headrace.domain.state.quota import policy_scope
from headrace.domain.state.state import State
from headrace.governance.objects import ObjectName
from headrace.governance.validation.diagnostics import Diagnostics


def warn_over_limits(before: State, after: State, changed: Iterable[ObjectName], findings: Diagnostics) -> None:
    """Warn of each changed policy and share that holds more than its new limit."""
    for name in changed:
        for where, holds, will_be in _scopes(before, after, name):
            for key, limit in sorted(will_be.limit.items()):
                used = holds.leased.get(key, 0)
                if used > limit:
                    amounts = f"it holds {key} {format_amount(key, used)}, and the limit becomes {format_amount(key, limit)}"
                    findings.warn(
                        f"{findings.where(name)}{where}",
                        "OVER_LIMIT",
                        f"{amounts}: nothing is stopped, and nothing more starts until it holds less",
                    )


def warn_uncounted(before: State, after: State, changed: Iterable[ObjectName], findings: Diagnostics) -> None:
    """Warn of each GPU model that a pool governs from now on while jobs run on it, which are not counted before they start again (R43)."""
    for name in changed:
        was, will_be = before.pools.get(name.name), after.pools.get(name.name)
        if name.kind != "pool" or was is None or will_be is None:
            continue
        for model in will_be.models:
            there = (node for node in was.nodes.values() if node.model == model)
            jobs = len({lease.job.key for node in there for lease in node.leases.values() if lease.devices})
            if jobs and model not in was.models:
                running = "1 job runs" if jobs == 1 else f"{jobs} jobs run"
                message = f"{running} on GPUs of this model; what is held now counts from its next start on (R43)"
                findings.warn(findings.where(name, "capacity", key_of_model(model)), "NOT_COUNTED_YET", message)


def _scopes(before: State, after: State, name: ObjectName) -> Iterator[tuple[str, Scope, Scope]]:
    """(place in the document, what is held, what it may hold) of each limit of a document."""
    key = (name.tenant, name.name)
    if name.kind == "policy" and key in before.policies and key in after.policies:
        was, will_be = before.policies[key], after.policies[key]
        yield "", was.wide, will_be.wide
        for pool, scope in sorted(was.scopes.items()):
            yield f" in pool {pool}", scope, policy_scope(will_be, pool)
    elif name.kind == "tenant":
        for (tenant, pool), share in sorted(after.shares.items()):
            held = before.shares.get((tenant, pool))
            if tenant == name.name and held is not None:
                yield f" in pool {pool}", held, share
