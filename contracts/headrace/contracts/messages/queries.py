"""Requests and views of Headrace, and the queries of services to each other (`hr.query.<service>.<what>.<tenant>.<user>`); not facts.

People ask the API, whose protos are the model; a client reads its answers as the views here.

Every answer of a service is an `Answer`: either `error` is set, one line that names the invalid field and the way out, or `body` holds the
struct of the query, as JSON. `sequence` is the ledger sequence that the answer reflects. A refused write returns its plan
in `body` as well.
"""

from __future__ import annotations

import msgspec

from headrace.contracts.messages.explanation import MaintenanceView, UnusableView
from headrace.contracts.values.gpu_memory import ModelShare
from headrace.contracts.values.value import Value

FINAL = frozenset({"succeeded", "failed", "cancelled", "rejected"})
"""The final states of a job."""


class Answer(Value, frozen=True, kw_only=True):
    """The envelope of every answer. `code` is a stable token, empty on success.

    `NOT_FOUND`, `INVALID`, `REFUSED`, `STALE` (based on a revision that has been overtaken, R9), `UNAVAILABLE`, `INTERNAL`.
    """

    sequence: int
    code: str = ""
    error: str = ""
    body: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))


class ApplyRequest(Value, frozen=True, kw_only=True):
    """Documents to apply, as people write them (the JSON of the YAML), all or nothing (R9).

    `revisions`: what the author had read, by `<kind>/<tenant>/<name>` (`<kind>/<name>` without a tenant); 0: did not exist.
    """

    documents: dict[str, object]
    dry_run: bool = False
    reason: str = ""
    revisions: dict[str, int] = {}


class Change(Value, frozen=True, kw_only=True):
    """One line of a plan. `action`: `create`, `update`, `delete` or `keep`; `fields`: `before -> after`; `revision`: the former, or 0."""

    kind: str
    name: str
    action: str
    fields: tuple[str, ...] = ()
    revision: int = 0


class ApplyAnswer(Value, frozen=True, kw_only=True):
    """The plan, its warnings, and whether it is in force now. `running` and `pending` count the jobs that it affects.

    `revision`: the ledger sequence that wrote it, 0 if nothing was written. `errors`: everything that is wrong, one line each.
    """

    changes: tuple[Change, ...]
    warnings: tuple[str, ...] = ()
    applied: bool = False
    running: int = 0
    pending: int = 0
    revision: int = 0
    errors: tuple[str, ...] = ()


class DeleteRequest(Value, frozen=True, kw_only=True):
    """The object to delete; the answer is an `ApplyAnswer`. `revision`: the one the author had read, 0 for any."""

    kind: str
    name: str
    tenant: str = ""
    mode: str = ""
    reason: str = ""
    revision: int = 0


class DocumentView(Value, frozen=True, kw_only=True):
    """An object as its document would be in a file, and the revision on which a change has to be based.

    `closed` by `freeze`, `drain` or `cancel` (R11): nothing is granted under it until it is applied again.
    """

    kind: str
    name: str
    revision: int
    document: dict[str, object]
    closed: str = ""


class GetAnswer(Value, frozen=True, kw_only=True):
    """Documents in force, by name."""

    documents: tuple[DocumentView, ...] = ()


class NodeRequest(Value, frozen=True, kw_only=True):
    """An order about a node; in the `ApplyAnswer`, `running` are the jobs that have to stop. `begins`: of a drain (log time; 0: now)."""

    node: str
    reason: str = ""
    begins: int = 0


class ForceRequest(Value, frozen=True, kw_only=True):
    """A job to stop, by key or id, of any tenant; only with `force` and a reason (R24)."""

    job: str
    force: bool = False
    reason: str = ""


class EraseRequest(Value, frozen=True, kw_only=True):
    """The texts of a tenant's jobs, to be made unreadable for ever; with `user`: one user's identity and texts."""

    tenant: str
    user: str = ""
    reason: str = ""


class LogsAnswer(Value, frozen=True, kw_only=True):
    """`data` is UTF-8 with undecodable bytes replaced; `next_offset` is the next offset to ask for; `ended`: the output is complete."""

    data: str = ""
    next_offset: int = 0
    ended: bool = False
    error: str = ""


class StoredRecord(Value, frozen=True, kw_only=True):
    """One record as stored. `stamped`: the server's time of storage; `payload`: the exact bytes, to which digests refer."""

    sequence: int
    subject: str
    stamped: int
    payload: bytes


class RecordsAnswer(Value, frozen=True, kw_only=True):
    """A page of the ledger, in order, and the sequence of its last record; empty at the end of the ledger."""

    tip: int
    records: tuple[StoredRecord, ...] = ()


class JobRequest(Value, frozen=True, kw_only=True):
    """One job by its id (or full key), and what is asked about it.

    `why`: as of a record `sequence`, or a log time `at`. `job`: `ID_REUSED` unless `digest` is that of what was submitted (R14).
    """

    job: str
    digest: str = ""
    offset: int = 0
    attempt: int = 0
    rank: int = 0
    sequence: int = 0
    at: int = 0


class AttemptView(Value, frozen=True, kw_only=True):
    """One attempt of a job. Times in microseconds since 1970, 0 if it has not happened yet."""

    attempt: int
    pool: str
    nodes: tuple[str, ...]
    devices: tuple[str, ...] = ()
    granted_at: int = 0
    started_at: int = 0
    ended_at: int = 0
    exit_code: int | None = None
    cause: str = ""
    resume_from: str = ""


class JobView(Value, frozen=True, kw_only=True):
    """A job as its tenant sees it (docs/interfaces.md). Arrays have `array` and `elements`; `gpu_memory` in MiB, `shares`: R42."""

    id: str
    job: str
    tenant: str
    user: str
    name: str
    queue: str
    state: str
    preemptible: bool = True
    priority: int = 0
    request: dict[str, int] = {}
    replicas: int = 1
    admitted_at: int = 0
    ended_at: int = 0
    preemptions: int = 0
    reason: str = ""
    message: str = ""
    exit_code: int | None = None
    checkpoint: str = ""
    labels: dict[str, str] = {}
    attempts: tuple[AttemptView, ...] = ()
    mig: str = ""  # the slice of each replica, if it takes one; `gpu` in `request` is then its charge (R4)
    array: str = ""
    elements: dict[str, int] = {}
    idle_at: int = 0  # since when all that it holds is marked as idle; 0: it is not
    idle_yields: bool = False  # it counts as borrowed therefore (R39)
    gpu_memory: int = 0
    shares: tuple[ModelShare, ...] = ()


class FactView(Value, frozen=True, kw_only=True):
    """One fact of a job: who stated it and when (log time), what, by which rule."""

    sequence: int
    at: int
    by: str
    type: str
    text: str
    rule: str = ""


class ScopeView(Value, frozen=True, kw_only=True):
    """Use of one key in one scope, in units of the key."""

    key: str
    used: int
    reservation: int
    limit: int | None = None
    reserved: int = 0
    borrowed: int = 0


class BudgetView(Value, frozen=True, kw_only=True):
    """A budget of a policy in the current period, which ends at `ends_at` (R33). `used` in hours with three decimals, cut; may be more.

    `spent`: it is used up, and new starts wait, or borrow, as `then` says. `warning`: one line if it is used up, or soon will be.
    """

    key: str
    hours: int
    per: str
    then: str
    used: str
    spent: bool
    ends_at: int
    warning: str = ""


class UserUseView(Value, frozen=True, kw_only=True):
    """What a user's jobs of a policy hold by key, and how many wait, of a policy that is fair among users or limits each (R7, R15)."""

    user: str
    used: dict[str, int] = {}
    limit: dict[str, int] = {}
    pending: int = 0
    max_pending: int = 0


class QueueView(Value, frozen=True, kw_only=True):
    """A queue, and the use of its policy. `closed` by `freeze`, `drain` or `cancel` (R11): nothing is granted.

    `shut`: every window of its policy is closed (R33); `opens_at`: when the next opens, 0 if none will. `users`: by use, most first.
    """

    name: str
    tenant: str
    policy: str
    profile: str
    pending: int
    running: int
    scopes: tuple[ScopeView, ...] = ()
    closed: str = ""
    shut: bool = False
    opens_at: int = 0
    budgets: tuple[BudgetView, ...] = ()
    fair_among: str = ""
    users: tuple[UserUseView, ...] = ()


class PoolKeyView(Value, frozen=True, kw_only=True):
    """One governed key of a pool. `kept`: not held, and kept for jobs that wait (R16, R27). `unusable`: neither, and not to be granted now.

    `used`, `kept`, `free` and `unusable` add up to `capacity`, unless leases hold more than that. `causes`: the parts of `unusable`.
    """

    key: str
    capacity: int
    usable: int
    used: int
    free: int
    kept: int = 0
    unusable: int = 0
    causes: tuple[UnusableView, ...] = ()


class PoolView(Value, frozen=True, kw_only=True):
    """A pool and its free amounts."""

    name: str
    nodes: int
    keys: tuple[PoolKeyView, ...] = ()
    running: int = 0
    pending: int = 0


class NodeView(Value, frozen=True, kw_only=True):
    """A node; `state` is `ready`, `unapproved`, `excluded`, `cordoned`, `draining`, `drained`, `maintenance`, `stopped` or `lost`.

    `gpus` counts devices; what is free is in units of its key. `slices`: of each device in MIG mode the slices that are held or kept, such
    as `3g.40gb@4` (R4). `dedicated_to`: the `tenant` or `tenant/policy` that may use it alone, or empty (R21). `isolation`: the level that
    it has proved for each kind of part of a GPU, and for containers if it differs; `unfit`: why nothing is granted on a device, by name.
    `unapproved`: statements of the node beyond what is approved, which are not believed. In state `unapproved` it belongs to no
    pool, because nothing is approved yet; in `excluded` its login is refused. `reason`: why nothing new is granted on it.
    `maintenance`: what takes it out of service, or will (R41).
    """

    name: str
    pool: str
    state: str
    labels: dict[str, str] = {}
    model: str = ""
    gpus: int = 0
    gpu_free: int = 0
    cpu: int = 0
    cpu_free: int = 0
    memory: int = 0
    memory_free: int = 0
    leases: int = 0
    last_heard: int = 0
    slices: dict[str, tuple[str, ...]] = {}
    dedicated_to: str = ""
    isolation: dict[str, str] = {}
    unfit: dict[str, str] = {}
    unapproved: tuple[str, ...] = ()
    reason: str = ""
    maintenance: MaintenanceView | None = None


class StatusRequest(Value, frozen=True, kw_only=True):
    """Body of `status`; may be left out. `folded`: answer once the service has folded that record of the ledger, or a second is over."""

    folded: int = 0


class ServiceView(Value, frozen=True, kw_only=True):
    """One service as it reports itself: `folded` is the ledger sequence it has reached.

    `level`: the installation's there; `reads`: the service's own (`contracts.facts.levels`). Of *governance*: `newest`, the level that it
    would raise the installation to, and `held_back`, what prevents that. `trouble`: a problem that does not stop it, with the way out.
    """

    service: str
    folded: int
    now: int
    engine: str
    detail: dict[str, int] = {}
    reads: int = 1
    level: int = 1
    newest: int = 1
    held_back: tuple[str, ...] = ()
    trouble: str = ""


class Presence(Value, frozen=True, kw_only=True):
    """On `hr.presence.<service>`: an instance of a service `called`, is running and reads facts of that `level` (`contracts.facts.levels`).

    `leaves`: it has been asked to stop, and no longer counts.
    """

    service: str
    called: str
    instance: str
    reads: int
    leaves: bool = False


class ClaimRequest(Value, frozen=True, kw_only=True):
    """To *governance* `claim`: a provider's token that was shown to another service; the groups that it claims are to be recorded."""

    token: str
