"""Questions about the state as it was at a moment, or between two, and their answers: plain messages, no facts.

A tenant's users are answered what is their tenant's, and of pools and nodes what they see; a provider's admin is answered everything.
"""

from __future__ import annotations

from headrace.contracts.facts.fact import Value
from headrace.contracts.messages.queries import DocumentView, NodeView, PoolView, QueueView


class LedgerPoint(Value, frozen=True, kw_only=True):
    """A place in the ledger: behind the record `sequence`, or, where that is 0, behind the last one stored up to `at`, microseconds.

    Both 0: behind the last there is.
    """

    sequence: int = 0
    at: int = 0


class PastRequest(Value, frozen=True, kw_only=True):
    """To *feed* or *governance* `state`: the state at a point; of jobs those whose keys come behind `after`, at most `limit`."""

    point: LedgerPoint = LedgerPoint()
    after: str = ""
    limit: int = 1_000


class LeaseView(Value, frozen=True, kw_only=True):
    """What one replica holds: where, which devices (`gpu0`, `gpu3:3g.40gb@4`), amounts in units of their keys, since when."""

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

    `kept_in`: the pool in which something is kept for it. `yields_to`: the preemption that it makes room for.
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
    """The state behind the record `sequence`, at the log time `now`; `tip` is the ledger's last record when this was asked.

    `counts`: jobs by state, those included that had ended within the hour. `next`: ask for more jobs with `after` that; "": these were all.
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
    """To *feed* or *governance* `diff`: what is otherwise at one point than at an earlier one."""

    before: LedgerPoint
    after: LedgerPoint = LedgerPoint()


class StateChange(Value, frozen=True, kw_only=True):
    """One object or job that is otherwise. `change`: `added`, `removed` or `changed`; `fields`: what each was, and what it is, as text."""

    kind: str
    name: str
    change: str
    fields: dict[str, tuple[str, str]] = {}


class DiffView(Value, frozen=True, kw_only=True):
    """What has changed from the record `before` to the record `after`, documents first; `more`: so many changes that do not fit here."""

    before: int
    before_now: int
    after: int
    after_now: int
    changes: tuple[StateChange, ...] = ()
    more: int = 0
