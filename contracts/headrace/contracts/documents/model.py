"""Governance documents in their one internal form, as in facts and in the fold (R7, R12; docs/interfaces.md).

Amounts are integers in the units of `amounts`, durations are microseconds. `reader` parses what people write, with every error;
`writer` shows it again.
"""

from __future__ import annotations

import msgspec

from headrace.contracts.values.amounts import Amounts
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.contracts.values.ids import DEFAULT_TENANT


class Document(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    """The base of everything an administrator writes."""


class Share(Document, frozen=True, kw_only=True):
    """A tenant's reservation and limit in one pool (R7). `reservation` None: the block is absent, and reservations are not tested here.

    `price`, `reserved_price`: the tenant's own rates there, if they differ from the pool's. `cap`: what the tenant's jobs may cost in a
    calendar month on nodes that the pool creates, before none are created for it any more (R38); empty: no cap.
    """

    pool: str
    reservation: Amounts | None = None
    limit: Amounts = {}
    price: dict[str, str] = {}
    reserved_price: dict[str, str] = {}
    cap: str = ""


class SubmitRate(Document, frozen=True, kw_only=True):
    """How fast a tenant may submit (R14): jobs per second, and maximum burst after a pause; 0: as many as in one second."""

    per_second: int
    burst: int = 0


class Tenant(Document, frozen=True, kw_only=True):
    """A workspace: its users, policies and jobs are invisible to other tenants. `admins`: the users who administer it."""

    name: str
    display_name: str = ""
    admins: tuple[str, ...] = ()
    shares: tuple[Share, ...] = ()
    submit_rate: SubmitRate | None = None


class User(Document, frozen=True, kw_only=True):
    """A person. The handle is part of subjects and facts.

    `subject` is the person's identity at the identity provider: the provider's name here, a bar, and the `sub` of its tokens
    (`oidc|248289761001`). In the ledger both are empty, and are in `sealed`, under the person's own key; documents do not contain `sealed`.
    """

    tenant: str = DEFAULT_TENANT
    handle: str
    subject: str = ""
    email: str = ""
    sealed: str = ""


class Mount(Document, frozen=True, kw_only=True):
    """A directory of the node that appears at `target` in a group's jobs."""

    source: str
    target: str
    read_only: bool = True


class RuntimeRules(Document, frozen=True, kw_only=True):
    """What a group's jobs may run (R13), by patterns with `*`, `?` and `[...]`: the image, and the first word of the command.

    Deny precedes allow; an empty list of allowed patterns allows everything. A job without an image has the empty image.

    `env` is set for every job, whatever its owner sets; names that match `deny_env` must not be set at all. `secrets`: variable to
    reference (`file:NAME`, `env:NAME`), which the node resolves; if there are any, a job may ask for these only, and receives those in
    `give_secrets` without asking. `default_image`, `default_request`: for a job that names none.
    """

    allow_images: tuple[str, ...] = ()
    deny_images: tuple[str, ...] = ()
    allow_commands: tuple[str, ...] = ()
    deny_commands: tuple[str, ...] = ()
    env: dict[str, str] = {}
    deny_env: tuple[str, ...] = ()
    secrets: dict[str, str] = {}
    give_secrets: tuple[str, ...] = ()
    mounts: tuple[Mount, ...] = ()
    default_image: str = ""
    default_request: Amounts = {}


class Group(Document, frozen=True, kw_only=True):
    """Users and service accounts that a policy gives access to. `on_behalf`: the service accounts that may submit for the users."""

    tenant: str = DEFAULT_TENANT
    name: str
    members: tuple[str, ...] = ()
    service_accounts: tuple[str, ...] = ()
    on_behalf: tuple[str, ...] = ()
    runtime: RuntimeRules = RuntimeRules()


class Access(Document, frozen=True, kw_only=True):
    """Who may use a pool: `tenant` or `tenant/group`; empty `allow` means every user with a profile that leads here (R12)."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class Owner(Document, frozen=True, kw_only=True):
    """The owner of dedicated hardware: one of `policy` (`tenant/policy`) and `tenant` (R21)."""

    policy: str = ""
    tenant: str = ""


class Dedication(Document, frozen=True, kw_only=True):
    """Nodes of a pool, by label, that take only their owner's jobs (R21)."""

    selector: dict[str, str]
    to: Owner


PROVIDERS = ("none", "local", "ec2", "ssh")
"""Providers of instances. `none`: an operator adds nodes. `local`: node executors as processes of this machine. `ec2`: Amazon EC2.
`ssh`: machines that one owns."""


class BurstNode(Document, frozen=True, kw_only=True):
    """What one created node has: number of GPUs, their model, CPU cores, memory in MiB.

    `mig`: its GPUs are in MIG mode. `isolation`: the level that it reaches; `any`: not known, and taken to be enough. `containers`: it can
    run jobs with an image.
    """

    gpus: int
    gpu_model: str
    cpus: int = 0
    memory: int = 0
    mig: bool = False
    isolation: str = "any"
    containers: bool = True


class Offer(Document, frozen=True, kw_only=True):
    """One way to get an instance: type, region and zone in the provider's words, `market` (`on_demand` or `spot`).

    `price` of an hour in the installation's currency; above `max_price` the offer is not used. `image`, `template` and `network` are those
    of the pool, unless they are given here.
    """

    name: str
    type: str = ""
    region: str = ""
    zone: str = ""
    market: str = "on_demand"
    price: str = ""
    max_price: str = ""
    image: str = ""
    template: str = ""
    network: str = ""


class Burst(Document, frozen=True, kw_only=True):
    """How a cloud pool grows and shrinks (R38). Durations in microseconds.

    `offers` are asked in order of their price (`order: cheapest`) or as written; without any there is one, on demand, or spot if `spot`.
    An idle node leaves after `idle`, when it is older than `min_life`; every node leaves at `max_life` (0: never). An instance that hears
    nothing of the installation and runs no job ends itself after `orphan_after`. `cap`: what the pool's instances may cost in a calendar
    month, in the installation's currency (empty: no cap). `image`, `template`, `network` and `firewalls` are what instances are made with,
    in the provider's words; `disk` in MiB (0: as the image has it).
    """

    provider: str
    node: BurstNode
    offers: tuple[Offer, ...] = ()
    order: str = "cheapest"
    min_nodes: int = 0
    max_nodes: int = 0
    boot: int = 4 * MINUTE
    idle: int = 10 * MINUTE
    min_life: int = 0
    max_life: int = 0
    orphan_after: int = 30 * MINUTE
    spot: bool = False
    cap: str = ""
    image: str = ""
    template: str = ""
    network: str = ""
    firewalls: tuple[str, ...] = ()
    disk: int = 0


class MaintenanceWindow(Document, frozen=True, kw_only=True):
    """When the nodes of a pool take no jobs (R41): one time from `begins` to `ends`, or every week on `days`.

    `begins` and `ends` are microseconds since 1970; `opens` and `closes`, of a weekly one, minutes after midnight in `timezone`. `notice`:
    how long before a window begins only jobs start that end before it; None: from the end of the one before. `reason` is shown to users.
    """

    begins: int | None = None
    ends: int | None = None
    days: tuple[str, ...] = ()
    opens: int | None = None
    closes: int | None = None
    timezone: str = "UTC"
    notice: int | None = None
    reason: str = ""


KEEP_FOR = HOUR
"""The default of a pool's `keep_for`."""


class Pool(Document, frozen=True, kw_only=True):
    """Named physical supply. `selector` picks nodes by label; `capacity` sets maximums and custom keys (R5, R6).

    `keep_for`: how long units are kept for a job behind leases with an unknown end (R16).
    `topology`: the labels that say where a node stands, from the widest to the narrowest (R40).
    `maintenance`: when its nodes take no jobs (R41).
    `price`: per hour of each key (a GPU, a core, a GiB); `reserved_price`: inside a reservation, if it differs.
    """

    name: str
    selector: dict[str, str]
    capacity: Amounts = {}
    profile_order: tuple[str, ...] = ()
    backfill_for: int = 10 * MINUTE
    keep_for: int = KEEP_FOR
    nomination_timeout: int = 5 * MINUTE
    allow_overcommit: bool = False
    access: Access = Access()
    dedicated_to: Owner | None = None
    dedicated: tuple[Dedication, ...] = ()
    topology: tuple[str, ...] = ()
    maintenance: tuple[MaintenanceWindow, ...] = ()
    price: dict[str, str] = {}
    reserved_price: dict[str, str] = {}
    burst: Burst | None = None


class Topology(Document, frozen=True, kw_only=True):
    """Where the replicas of a gang stand to each other (R40); both are labels in the `topology` of the profile's pools.

    `require`: all of them on nodes with one value of this label; without room there the gang waits. `prefer`: the label with which the
    search begins, and goes on with wider ones; empty: with `require` alone.
    """

    require: str = ""
    prefer: str = ""


class Profile(Document, frozen=True, kw_only=True):
    """What one replica takes, the number of replicas, and the pools it may use, in order of preference.

    `tenant` is empty for a profile of the provider, which every tenant may use. Time limits in microseconds (R33). `spot`: its jobs may run
    on spot instances even if they are not preemptible. `topology`: where the replicas of a gang stand (R40). `network`: the network of its
    jobs in containers, one of `values.networks` (R44); None: private, and containers of gangs are refused.
    """

    tenant: str = ""
    name: str
    request: Amounts
    replicas: int = 1
    gpu_models: tuple[str, ...] = ()
    mig: str = ""
    isolation: str = "any"
    pools: tuple[str, ...]
    reclaim_before_spill: bool = True
    policy_order: tuple[str, ...] = ()
    default_time_limit: int | None = None
    max_time_limit: int | None = None
    spot: bool = False
    topology: Topology | None = None
    network: str | None = None


class PolicyProfile(Document, frozen=True, kw_only=True):
    """The link that makes a queue (R12). `borrow` false: starts only inside the reservation; `submitters` restricts it."""

    name: str
    borrow: bool = True
    submitters: tuple[str, ...] = ()


class Scope(Document, frozen=True, kw_only=True):
    """Reservation and limit in one scope (R7). `reservation` None: the block is absent, and reservations are not tested here."""

    reservation: Amounts | None = None
    limit: Amounts = {}


REQUEUE_LAST = "requeue_last"
"""A preempted job waits again, behind all jobs that wait then (R29)."""


class PreemptionTerms(Document, frozen=True, kw_only=True):
    """How a policy's jobs are preempted (R28, R29), and whether it may preempt by priority (R23). Durations in microseconds."""

    on_preempt: str = "requeue"
    callback_grace: int = 60 * SECOND
    term_grace: int = 30 * SECOND
    min_runtime: int = 0
    preempt_lower_priority: bool = False
    max_preemptions: int | None = None
    on_node_lost: str = "requeue"
    suspend_max: int = 4 * HOUR
    assume_checkpoint_every: int | None = None


class Budget(Document, frozen=True, kw_only=True):
    """GPU-hours (or hours of another key) a policy may start per period (R33)."""

    key: str
    hours: int
    per: str = "month"
    then: str = "wait"
    timezone: str = "UTC"


class Window(Document, frozen=True, kw_only=True):
    """When a policy's jobs may start (R33). `opens` and `closes` are minutes after midnight in `timezone`."""

    days: tuple[str, ...]
    opens: int
    closes: int
    timezone: str = "UTC"
    on_close: str = "run_on"


class PerUser(Document, frozen=True, kw_only=True):
    """What each user of a policy may hold at a time, over all pools, and how many of its jobs may be pending (R7, R14)."""

    limit: Amounts = {}
    max_pending: int | None = None


class Policy(Document, frozen=True, kw_only=True):
    """A group's reservation, limit and rank, and the profiles it may use; each link makes a queue (R12).

    `fair_among: users`: of candidates that rank alike otherwise, the user with the least in use goes first (R15). Time limits in
    microseconds (R33). `idle_after`: microseconds after which an idle lease is marked, and `idle`: what follows, `warn` or `yield` (R39).
    """

    tenant: str = DEFAULT_TENANT
    name: str
    group: str = ""
    profiles: tuple[PolicyProfile, ...]
    beyond_limit: tuple[str, ...] = ()
    priority: int = 0
    weight: int = 1
    reservation: Amounts | None = None
    limit: Amounts = {}
    per_pool: dict[str, Scope] = {}
    preemption: PreemptionTerms = PreemptionTerms()
    max_pending: int = 10_000
    fair_among: str | None = None
    per_user: PerUser | None = None
    default_time_limit: int | None = None
    max_time_limit: int | None = None
    idle_after: int | None = None
    idle: str | None = None
    budgets: tuple[Budget, ...] = ()
    windows: tuple[Window, ...] = ()


class Documents(Document, frozen=True, kw_only=True):
    """A set that is applied all or nothing (R9), kinds in the order in which they depend on each other."""

    tenants: tuple[Tenant, ...] = ()
    users: tuple[User, ...] = ()
    groups: tuple[Group, ...] = ()
    pools: tuple[Pool, ...] = ()
    profiles: tuple[Profile, ...] = ()
    policies: tuple[Policy, ...] = ()


KINDS = ("tenant", "user", "group", "pool", "profile", "policy")
"""The kinds of documents, as `headrace get KIND` and `delete KIND` name them; the plural is the key in a file."""
