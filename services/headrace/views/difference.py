"""Differences between two states: documents, nodes, pools, and jobs, as one tenant may know them. Pure.

What came and went in between is in neither state; the audit log has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from headrace.contracts.messages.history import DiffView, StateChange
from headrace.contracts.values.amounts import format_amount
from headrace.domain.model.job_states import FINAL, HOLDING
from headrace.views.job_index import queue_counts
from headrace.views.pseudonyms import seen
from headrace.views.replay import documents
from headrace.views.shown_states import state_of
from headrace.views.tenant_views import node_views, pool_views
from headrace.views.visibility import ALL_TENANTS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.domain.model.jobs import JobRecord
    from headrace.domain.state.state import State

CHANGES_MAX = 5_000

_NODE_FIELDS = (
    "pool",
    "state",
    "labels",
    "gpus",
    "gpu_free",
    "cpu_free",
    "memory_free",
    "leases",
    "slices",
    "dedicated_to",
    "unfit",
)
_AMOUNTS = {"gpu_free": "gpu", "cpu_free": "cpu", "memory_free": "memory"}

Item = dict[str, str]
"""Fields of an object as text."""


def difference(before: State, after: State, tenant: str) -> DiffView:
    """All differences that `tenant` may know."""
    changes = [
        *_compared(_documents(before, tenant), _documents(after, tenant)),
        *_compared(_nodes(before, tenant), _nodes(after, tenant)),
        *_compared(_pools(before, tenant), _pools(after, tenant)),
        *_of_jobs(before, after, tenant),
    ]
    view = DiffView(
        before=before.sequence,
        before_now=before.now,
        after=after.sequence,
        after_now=after.now,
        changes=tuple(changes[:CHANGES_MAX]),
        more=max(0, len(changes) - CHANGES_MAX),
    )
    return seen(after, view, tenant)


def _compared(before: Mapping[tuple[str, str], Item], after: Mapping[tuple[str, str], Item]) -> Iterator[StateChange]:
    for kind, name in dict.fromkeys((*before, *after)):
        was, now = before.get((kind, name)), after.get((kind, name))
        if was == now:
            continue
        change = "added" if was is None else "removed" if now is None else "changed"
        was, now = was or {}, now or {}
        fields = {field: (was.get(field, ""), now.get(field, "")) for field in dict.fromkeys((*was, *now))}
        yield StateChange(
            kind=kind, name=name, change=change, fields={field: pair for field, pair in fields.items() if pair[0] != pair[1]}
        )


def _documents(state: State, tenant: str) -> dict[tuple[str, str], Item]:
    found = {}
    for view in documents(state, tenant):
        item = dict(_flat(view.document))
        if view.closed:
            item["closed"] = view.closed
        found[view.kind, view.name] = item
    return found


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Leaves of a document by path, such as `limit.gpu`: `4`; lists of plain values are one leaf."""
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _flat(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(part, dict) for part in value):
        for number, part in enumerate(value):
            name = part.get("name", number) if isinstance(part, dict) else number
            yield from _flat(part, f"{path}[{name}]")
    elif isinstance(value, list | tuple):
        yield path, ", ".join(map(str, value))
    else:
        yield path, str(value)


def _nodes(state: State, tenant: str) -> dict[tuple[str, str], Item]:
    found = {}
    for view in node_views(state, {}, tenant):
        fields: dict[str, Any] = msgspec.structs.asdict(view)
        shown = {name: fields[name] for name in _NODE_FIELDS}
        shown |= {name: format_amount(key, shown[name]) for name, key in _AMOUNTS.items()}
        found["node", view.name] = dict(_flat(msgspec.to_builtins(shown)))
    return found


def _pools(state: State, tenant: str) -> dict[tuple[str, str], Item]:
    found = {}
    for view in pool_views(state, queue_counts(state), tenant):
        item = {"nodes": str(view.nodes)}
        for key in view.keys:
            item |= {
                f"{key.key} {word}": format_amount(key.key, amount)
                for word, amount in (("usable", key.usable), ("used", key.used), ("kept", key.kept))
            }
        found["use of pool", view.name] = item
    return found


def _jobs(state: State, tenant: str) -> dict[tuple[str, str], Item]:
    return {("job", job.key): _job(job) for job in state.jobs.values() if tenant in (ALL_TENANTS, job.tenant)}


def _of_jobs(before: State, after: State, tenant: str) -> Iterator[StateChange]:
    """Changes of jobs. An ended job leaves the fold after an hour, and its final state is stored for a day.

    It is shown as ended, not removed.
    """
    was, now = _jobs(before, tenant), _jobs(after, tenant)
    for name in was.keys() - now.keys():
        answered = after.answered.get(name[1])
        if before.jobs[name[1]].state in FINAL:
            del was[name]
        else:
            now[name] = {"state": answered.state.value if answered is not None else "ended"}
            was[name] = {"state": was[name]["state"]}
    return _compared(was, now)


def _job(job: JobRecord) -> Item:
    item = {"state": state_of(job), "queue": job.queue, "attempt": str(job.attempt)}
    if job.state in HOLDING:
        item["holds"] = ", ".join(
            f"{lease.node} {' '.join(share.label for share in lease.devices)}".rstrip()
            for _, lease in sorted(job.leases.items())
        )
    if job.reason:
        item["reason"] = job.reason
    return item
