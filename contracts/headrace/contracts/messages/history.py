"""Queries about the state at one time, or the differences between two, and their answers; not facts.

Users of a tenant see what belongs to their tenant, and the pools and nodes visible to it; a provider's administrator sees everything.
"""

from __future__ import annotations

from headrace.contracts.messages.queries import DocumentView, NodeView, PoolView, QueueView
from headrace.contracts.values.value import Value


class LedgerPoint(Value, frozen=True, kw_only=True):
    """A position in the ledger: after the record `sequence`, or, if that is 0, after the last record stored up to `at`, microseconds.

    Both 0: after the last record.
    """

    sequence: int = 0
    at: int = 0


class LeaseView(Value, frozen=True, kw_only=True):
    """What one replica holds: node, devices (`gpu0`, `gpu3:3g.40gb@4`), amounts in units of their keys, and since when."""

    rank: int
    node: str
    pool: str
    devices: tuple[str, ...]
    amounts: dict[str, int]
    granted_at: int
    started_at: int = 0
    overdue: bool = False
    suspended: bool = False


class PastJob(Value, frozen=True, kw_only=True):
    """A job that had not ended: what it held, or why it waited (`reason`, `message`).

    `kept_in`: the pool in which resources are kept for it. `yields_to`: the preemption that stops it.
    """

    job: str
    name: str
    queue: str
    state: str
    since: int
    attempt: int = 0
    request: dict[str, int] = {}
    replicas: int = 1
    leases: tuple[LeaseView, ...] = ()
    reason: str = ""
    message: str = ""
    kept_in: str = ""
    yields_to: str = ""


class PastView(Value, frozen=True, kw_only=True):
    """The state after the record `sequence`, at the log time `now`; `tip` is the ledger's last record at the time of the query.

    `counts`: jobs by state, including those that had ended within the hour. `next`: ask for more jobs with this as `after`; "": last page.
    """

    sequence: int
    now: int
    tip: int
    documents: tuple[DocumentView, ...] = ()
    pools: tuple[PoolView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    queues: tuple[QueueView, ...] = ()
    counts: dict[str, int] = {}
    jobs: tuple[PastJob, ...] = ()
    next: str = ""


class DiffRequest(Value, frozen=True, kw_only=True):
    """Two positions to compare: the differences between an earlier position and a later one."""

    before: LedgerPoint
    after: LedgerPoint = LedgerPoint()


class StateChange(Value, frozen=True, kw_only=True):
    """One object or job that differs. `change`: `added`, `removed` or `changed`; `fields`: the values before and after, as text."""

    kind: str
    name: str
    change: str
    fields: dict[str, tuple[str, str]] = {}


class DiffView(Value, frozen=True, kw_only=True):
    """The changes from the record `before` to the record `after`, documents first; `more`: number of changes left out."""

    before: int
    before_now: int
    after: int
    after_now: int
    changes: tuple[StateChange, ...] = ()
    more: int = 0
