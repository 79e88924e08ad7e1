"""The answer to *why does it wait* (R22), from *feed*; not a fact. Other tenants appear as sums, never by name."""

from __future__ import annotations

from headrace.contracts.values.value import Value


class UnusableView(Value, frozen=True, kw_only=True):
    """Units of a key on one node that are neither held nor kept, and that cannot be granted now (R6, R22).

    `cause`: `cordoned`, `draining`, `drained`, `refusing` (set aside after refused starts), `probation` (tries one job), `stopped`,
    `lost`, `unfit`, `mig-mode` (jobs from before a change of its MIG mode are left) or `not-created` (a node that the pool may still
    create; `node` is empty); for one job also `excluded` (did not start it), `dedicated`, `model`, `isolation` (does not isolate as
    required) or `container` (runs no containers). `by`: who caused it, if known. `since`: microseconds since 1970, 0 if unknown.
    `detail`: more about the cause, such as the model that the node has.
    """

    key: str
    node: str
    cause: str
    amount: int
    by: str = ""
    since: int = 0
    detail: str = ""


class KeyNeed(Value, frozen=True, kw_only=True):
    """One key that a waiting job asks for in a pool, in units of the key: requested, free for it, and missing.

    `used`, `kept` (for other jobs), `free` and `unusable` (for this job) add up to `capacity`, unless leases hold more than that.
    """

    key: str
    asked: int
    free: int
    missing: int = 0
    used: int = 0
    kept: int = 0
    unusable: int = 0
    capacity: int = 0


class PoolNeed(Value, frozen=True, kw_only=True):
    """One pool of a waiting job's order, and the reason why it cannot start there; `reason` is empty if it can.

    `fit`: `yes`; `sum` (too little of a key is free), `node` (not on one node), `device` (not on one device), `domain` (not
    in one topology domain, R40). `scope` is the tenant or policy whose limit prevents it, if one does. `unusable`: what is not free for it
    although not held by a job, and why.
    """

    pool: str
    reason: str = ""
    message: str = ""
    fit: str = ""
    keys: tuple[KeyNeed, ...] = ()
    scope: str = ""
    unusable: tuple[UnusableView, ...] = ()


class Waiter(Value, frozen=True, kw_only=True):
    """A waiting job that goes before it: one of its own tenant, or, with `job` empty, all of other tenants together (R22)."""

    job: str = ""
    request: dict[str, int] = {}


class Holder(Value, frozen=True, kw_only=True):
    """A holder of what a waiting job needs: a job of its own tenant, or, with `job` empty, all of other tenants together (R22).

    `request`: what it holds, in units. `until`: the latest end; None if unknown.
    """

    job: str = ""
    request: dict[str, int] = {}
    pool: str = ""
    nodes: tuple[str, ...] = ()
    preemptible: bool = True
    until: int | None = None


class ReclaimView(Value, frozen=True, kw_only=True):
    """Whether a waiting job may preempt (R23), by which cause, and from when on; else why not."""

    could: bool
    why: str
    cause: str = ""
    at: int | None = None
    victims: tuple[Holder, ...] = ()


class ChangeView(Value, frozen=True, kw_only=True):
    """One change that would start a waiting job, tried on the state with the rules in force.

    `kind`: `wait` (for `job` to end), `request` (ask for less), `queue` (submit it to `queue`), `preemptible` (let it be preempted),
    `node` (ask for a cordoned node to be uncordoned).
    `start`: when it would then start; None: when `job` ends, at an unknown time.
    """

    kind: str
    text: str
    start: int | None = None
    pool: str = ""
    job: str = ""
    queue: str = ""
    request: dict[str, int] = {}


class WhyView(Value, frozen=True, kw_only=True):
    """Why a job waits (R22): the one reason, a sentence with the numbers, what prevents the start, and the position in the queue.

    `pools`: each pool of its order. `behind`, `holders`: of the pool in which the reason was found; `*_more`: number of others of its own
    tenant
    that are not listed. `expected_start` is by the `assumption`. The answer is that of log time `now`, as of ledger record `sequence`.
    `notes`: what is kept for it or from it, until when and behind which jobs (R16), and what may delay it later, such as a budget that is
    nearly used up (R33).
    """

    job: str
    state: str
    reason: str
    message: str
    blockers: tuple[str, ...] = ()
    position: int = 0
    could_reclaim: bool = False
    expected_start: int | None = None
    assumption: str = ""
    pools: tuple[PoolNeed, ...] = ()
    behind: tuple[Waiter, ...] = ()
    behind_more: int = 0
    holders: tuple[Holder, ...] = ()
    holders_more: int = 0
    reclaim: ReclaimView | None = None
    cheapest: ChangeView | None = None
    sequence: int = 0
    now: int = 0
    notes: tuple[str, ...] = ()


class MaintenanceView(Value, frozen=True, kw_only=True):
    """Maintenance of a node (R41): from `begins` to `ends` (microseconds since 1970; 0: until it is uncordoned).

    `kind` is `drain` (scheduled for the node) or `window` (of its pool). `by`: who scheduled it; empty for a window, and for other tenants.
    """

    kind: str
    begins: int
    ends: int = 0
    reason: str = ""
    by: str = ""
