"""Reads governance documents as people write them into `model.Documents`: every error at once, each with its line and the way out.

Strategy: one table per kind gives the form of each field; `forms` does the reading and, backwards, the writing. The checks here concern
several fields (R3, R7). What only the installation knows (whether a group exists, whether all reservations fit together, R8) is checked
by governance.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from headrace.contracts.documents import fields as w
from headrace.contracts.documents import model as d
from headrace.contracts.documents.forms import Complaint, Several, Shape, Table, read_as
from headrace.contracts.documents.tree import Tree
from headrace.contracts.documents.windows import MAINTENANCE_WINDOW, WINDOW
from headrace.contracts.values.amounts import GPU, GPU_MEMORY, GPU_UNITS, Amounts, format_amount, model_of
from headrace.contracts.values.durations import SECOND, format_duration
from headrace.contracts.values.isolation import ANY, LEVELS
from headrace.contracts.values.mig import FAMILIES, charge, family_of, slices_of
from headrace.contracts.values.networks import NETWORKS

REPLICAS_MAX = 1_000  # the grants of a gang are in one record, with a limited number of facts (R2)
PRIORITY_MAX = 1_000_000
CALLBACK_GRACE_MAX = 600 * SECOND  # R28
IDLE_LEAST = 600 * SECOND  # R39


def read_documents(tree: Tree) -> d.Documents:
    """All documents of a tree. Raises DocumentErrors."""
    return read_as(DOCUMENTS, tree)


def _reservation_within_limit(reservation: Amounts | None, limit: Amounts) -> Iterator[Complaint]:
    """R7: in one scope, key by key, the reservation is at most the limit."""
    for key, reserved in sorted((reservation or {}).items()):
        ceiling = limit.get(key)
        if ceiling is not None and reserved > ceiling:
            message = (
                f"the reservation of {format_amount(key, reserved)} is above the limit of {format_amount(key, ceiling)} (R7)"
            )
            yield ("reservation", key), message


def _check_policy(policy: d.Policy) -> Iterator[Complaint]:
    yield from _check_scope(policy)
    yield from _check_time_limits(policy)
    if policy.idle is not None and policy.idle_after is None:
        yield (
            ("idle",),
            "nothing says how long a lease has to be idle; write idle_after: 30m beside it, or leave idle out (R39)",
        )
    if policy.idle_after is not None and policy.idle_after < IDLE_LEAST:
        yield ("idle_after",), "nodes measure over ten minutes; write 10m or more (R39)"


def _check_scope(scope: d.Scope | d.Share | d.Policy) -> Iterator[Complaint]:
    yield from _reservation_within_limit(scope.reservation, scope.limit)
    reserved = scope.reservation or {}
    models = {key: amount for key, amount in reserved.items() if model_of(key)}
    if sum(models.values()) > reserved.get(GPU, 0):
        message = f"of {GPU} as much has to be reserved as of all models together; write at least {GPU}: "
        yield ("reservation", min(models)), message + f"{format_amount(GPU, sum(models.values()))} here (R43)"


def _check_profile(profile: d.Profile) -> Iterator[Complaint]:
    yield from _check_time_limits(profile)
    gpu = profile.request.get(GPU, 0)
    if profile.topology is not None and profile.replicas == 1:
        yield ("topology",), "one replica stands on one node anyway; write replicas: 2 or more, or leave topology out (R40)"
    for name in ("gpu", "mig"):
        if GPU_MEMORY in profile.request and (gpu if name == GPU else profile.mig):
            field = ("request", GPU) if name == GPU else ("mig",)
            yield field, f"gpu_memory says how much of a GPU it is, in place of {name}; leave one of the two out (R42)"
    if profile.mig and gpu:
        yield ("mig",), "mig takes the place of gpu; leave one of the two out"
    if profile.mig and not charge(profile.mig):
        known = slices_of(FAMILIES)
        close = get_close_matches(profile.mig, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"write one such as {known[0]}"
        yield ("mig",), f"unknown MIG slice {profile.mig}; {hint}"
    if not profile.mig and not profile.request:
        yield ("request",), "the request is empty; write what one replica takes, such as {gpu: 1}"
    if gpu > GPU_UNITS and gpu % GPU_UNITS:
        below, above = gpu // GPU_UNITS, gpu // GPU_UNITS + 1
        yield ("request", GPU), f"from one GPU up a request is whole (R3); write {below} or {above}"


def _check_group(group: d.Group) -> Iterator[Complaint]:
    for index, account in enumerate(group.on_behalf):
        if account not in group.service_accounts:
            yield ("on_behalf", index), f"{account} is missing in service_accounts; name it there as well"


def _check_runtime(rules: d.RuntimeRules) -> Iterator[Complaint]:
    for index, name in enumerate(rules.give_secrets):
        if name not in rules.secrets:
            yield ("give_secrets", index), f"{name} is missing in secrets; write {name}: file:NAME there"
    for name in rules.secrets.keys() & rules.env.keys():
        yield ("env", name), "it is one of the secrets as well; leave one of the two out"


def _check_owner(owner: d.Owner) -> Iterator[Complaint]:
    if bool(owner.policy) == bool(owner.tenant):
        yield (), "write one of policy and tenant, such as {policy: acme/inference}"


def _check_burst(burst: d.Burst) -> Iterator[Complaint]:
    if burst.min_nodes > burst.max_nodes:
        yield ("min_nodes",), f"min_nodes {burst.min_nodes} is above max_nodes {burst.max_nodes}"
    if 0 < burst.max_life < burst.min_life:
        yield ("max_life",), f"max_life {format_duration(burst.max_life)} is below min_life {format_duration(burst.min_life)}"
    if burst.spot and burst.offers:
        yield ("spot",), "the offers say which of them are spot (market: spot); leave spot out"
    if burst.cap and not (burst.offers and all(offer.price for offer in burst.offers)):
        yield ("cap",), "a cap needs the price of every offer; write offers: [{name: NAME, price: 2.50}]"
    if burst.provider == "ec2":
        yield from _check_ec2(burst)


def _check_ec2(burst: d.Burst) -> Iterator[Complaint]:
    if not burst.offers:
        yield ("offers",), "provider ec2 needs types; write offers: [{name: NAME, type: p5.48xlarge, region: eu-central-1}]"
    for index, offer in enumerate(burst.offers):
        if not (offer.type or offer.template or burst.template):
            yield ("offers", index, "type"), "provider ec2 needs a type, such as p5.48xlarge, or a template that has one"
        if not (offer.image or burst.image or offer.template or burst.template):
            yield ("image",), "provider ec2 needs an image, such as ami-0abc, or a template that has one"
            return


def _check_burst_node(node: d.BurstNode) -> Iterator[Complaint]:
    if node.mig and not family_of(node.gpu_model):
        yield ("mig",), f"{node.gpu_model} cannot be cut into MIG slices; leave mig out, or name a model such as H100-80GB"


def _check_per_user(per_user: d.PerUser) -> Iterator[Complaint]:
    if per_user == d.PerUser():
        yield (), "write what each user may have, such as {limit: {gpu: 8, job: 20}, max_pending: 100}"


def _check_topology(topology: d.Topology) -> Iterator[Complaint]:
    if topology == d.Topology():
        yield (), "write require, prefer or both, such as {require: example.com/rack}"
    elif topology.require == topology.prefer:
        yield ("prefer",), f"{topology.prefer} is required already; prefer a narrower level, or leave prefer out"


def _check_time_limits(limits: d.Profile | d.Policy) -> Iterator[Complaint]:
    """R33: a limit is more than nothing, and the default is at most the maximum."""
    default, most = limits.default_time_limit, limits.max_time_limit
    for name, limit in (("default_time_limit", default), ("max_time_limit", most)):
        if limit == 0:
            yield (name,), "write how long a job may run, such as 4h; leave it out for no limit"
    if default is not None and most is not None and default > most:
        message = f"the default of {format_duration(default)} is above max_time_limit, which is {format_duration(most)} (R33)"
        yield ("default_time_limit",), message


_TIME_LIMITS = {"default_time_limit": w.nullable(w.DURATION), "max_time_limit": w.nullable(w.DURATION)}
_SCOPE = {"reservation": w.AMOUNTS, "limit": w.AMOUNTS}

SHARE = Shape(
    d.Share,
    {"pool": w.TOKEN, **_SCOPE, "price": w.PRICES, "reserved_price": w.PRICES, "cap": w.PRICE},
    key=("pool",),
    check=_check_scope,
)
SUBMIT_RATE = Shape(d.SubmitRate, {"per_second": w.whole(1, 1_000_000), "burst": w.whole(0, 1_000_000_000)})
TENANT = Shape(
    d.Tenant,
    {"name": w.TOKEN, "display_name": w.LINE, "admins": w.TOKENS, "shares": Several(SHARE), "submit_rate": SUBMIT_RATE},
    key=("name",),
)

USER = Shape(d.User, {"tenant": w.TOKEN, "handle": w.TOKEN, "subject": w.LINE, "email": w.LINE}, key=("tenant", "handle"))

MOUNT = Shape(d.Mount, {"source": w.DIRECTORY, "target": w.DIRECTORY, "read_only": w.FLAG}, key=("target",))
RUNTIME = Shape(
    d.RuntimeRules,
    {
        **dict.fromkeys(("allow_images", "deny_images", "allow_commands", "deny_commands"), w.PATTERNS),
        "env": w.ENVIRONMENT,
        "deny_env": w.PATTERNS,
        "secrets": w.REFERENCES,
        "give_secrets": w.VARIABLES,
        "mounts": Several(MOUNT),
        "default_image": w.LINE,
        "default_request": w.REQUEST,
    },
    check=_check_runtime,
)
GROUP = Shape(
    d.Group,
    {
        "tenant": w.TOKEN,
        "name": w.TOKEN,
        "members": w.TOKENS,
        "service_accounts": w.TOKENS,
        "on_behalf": w.TOKENS,
        "runtime": RUNTIME,
    },
    key=("tenant", "name"),
    check=_check_group,
)

OWNER = Shape(d.Owner, {"policy": w.TENANT_PATH, "tenant": w.TOKEN}, check=_check_owner)
BURST_NODE = Shape(
    d.BurstNode,
    {
        "gpus": w.whole(1, 1_024),
        "gpu_model": w.MODEL,
        "cpus": w.whole(0, 1_000_000),
        "memory": w.MEMORY_AMOUNT,
        "mig": w.FLAG,
        "isolation": w.choice(ANY, *LEVELS),
        "containers": w.FLAG,
    },
    check=_check_burst_node,
)
OFFER = Shape(
    d.Offer,
    {
        "name": w.TOKEN,
        "type": w.LINE,
        "region": w.LINE,
        "zone": w.LINE,
        "market": w.choice("on_demand", "spot"),
        "price": w.PRICE,
        "max_price": w.PRICE,
        **dict.fromkeys(("image", "template", "network"), w.LINE),
    },
    key=("name",),
)
BURST = Shape(
    d.Burst,
    {
        "provider": w.choice(*d.PROVIDERS),
        "offers": Several(OFFER),
        "order": w.choice("cheapest", "as_written"),
        "min_nodes": w.whole(0, 1_000_000),
        "max_nodes": w.whole(0, 1_000_000),
        "node": BURST_NODE,
        "boot": w.DURATION,
        "idle": w.DURATION,
        "min_life": w.DURATION,
        "max_life": w.DURATION,
        "orphan_after": w.DURATION,
        "spot": w.FLAG,
        "cap": w.PRICE,
        **dict.fromkeys(("image", "template", "network"), w.LINE),
        "firewalls": Several(w.LINE),
        "disk": w.MEMORY_AMOUNT,
    },
    check=_check_burst,
)
POOL = Shape(
    d.Pool,
    {
        "name": w.TOKEN,
        "selector": w.LABELS,
        "capacity": w.AMOUNTS,
        "profile_order": w.TOKENS,
        "backfill_for": w.DURATION,
        "keep_for": w.DURATION,
        "nomination_timeout": w.DURATION,
        "allow_overcommit": w.FLAG,
        "access": Shape(d.Access, {"allow": w.PATHS, "deny": w.PATHS}),
        "dedicated_to": OWNER,
        "dedicated": Several(Shape(d.Dedication, {"selector": w.LABELS, "to": OWNER})),
        "topology": Several(w.LABEL),
        "maintenance": Several(MAINTENANCE_WINDOW),
        "price": w.PRICES,
        "reserved_price": w.PRICES,
        "burst": BURST,
    },
    key=("name",),
)

PROFILE = Shape(
    d.Profile,
    {
        "tenant": w.TOKEN,
        "name": w.TOKEN,
        "request": w.REQUEST,
        "replicas": w.whole(1, REPLICAS_MAX),
        "gpu_models": Several(w.MODEL),
        "mig": w.MIG_SLICE,
        "isolation": w.choice(ANY, "cooperative", "driver", "kernel", "hardware"),
        "pools": Several(w.TOKEN, least=1),
        "reclaim_before_spill": w.FLAG,
        "spot": w.FLAG,
        "network": w.nullable(w.choice(*NETWORKS)),
        "topology": Shape(d.Topology, {"require": w.LABEL, "prefer": w.LABEL}, check=_check_topology),
        "policy_order": w.PATHS,
        **_TIME_LIMITS,
    },
    key=("tenant", "name"),
    check=_check_profile,
    defaults={"request": {}},
)

PREEMPTION_TERMS = Shape(
    d.PreemptionTerms,
    {
        "on_preempt": w.choice("requeue", d.REQUEUE_LAST, "suspend", "cancel"),
        "callback_grace": w.duration(CALLBACK_GRACE_MAX),
        "term_grace": w.DURATION,
        "min_runtime": w.DURATION,
        "preempt_lower_priority": w.FLAG,
        "max_preemptions": w.nullable(w.whole()),
        "on_node_lost": w.choice("requeue", "wait"),
        "suspend_max": w.DURATION,
        "assume_checkpoint_every": w.nullable(w.DURATION),
    },
)
BUDGET = Shape(
    d.Budget,
    {
        "key": w.RESOURCE,
        "hours": w.whole(),
        "per": w.choice("day", "week", "month", "year"),
        "then": w.choice("wait", "borrow"),
        "timezone": w.TIMEZONE,
    },
    key=("key", "per"),
)
POLICY_PROFILE = Shape(
    d.PolicyProfile, {"name": w.TOKEN, "borrow": w.FLAG, "submitters": w.TOKENS}, key=("name",), short="name"
)
PER_USER = Shape(d.PerUser, {"limit": w.AMOUNTS, "max_pending": w.nullable(w.whole(1))}, check=_check_per_user)
POLICY = Shape(
    d.Policy,
    {
        "tenant": w.TOKEN,
        "name": w.TOKEN,
        "group": w.TOKEN,
        "profiles": Several(POLICY_PROFILE),
        "beyond_limit": w.TOKENS,
        "priority": w.whole(-PRIORITY_MAX, PRIORITY_MAX),
        "weight": w.whole(1, 1_000_000),
        **_SCOPE,
        "per_pool": Table(Shape(d.Scope, _SCOPE, check=_check_scope), w.TOKEN.parse, "{onprem: {limit: {gpu: 8}}}"),
        "preemption": PREEMPTION_TERMS,
        "max_pending": w.whole(1),
        "fair_among": w.nullable(w.choice("users")),
        "per_user": PER_USER,
        **_TIME_LIMITS,
        "idle_after": w.nullable(w.DURATION),
        "idle": w.nullable(w.choice("warn", "yield")),
        "budgets": Several(BUDGET),
        "windows": Several(WINDOW),
    },
    key=("tenant", "name"),
    check=_check_policy,
)

SHAPES: dict[str, Shape[Any]] = {
    "tenant": TENANT,
    "user": USER,
    "group": GROUP,
    "pool": POOL,
    "profile": PROFILE,
    "policy": POLICY,
}
"""The form of each kind (`model.KINDS`)."""

DOCUMENTS = Shape(
    d.Documents,
    {
        "tenants": Several(TENANT),
        "users": Several(USER),
        "groups": Several(GROUP),
        "pools": Several(POOL),
        "profiles": Several(PROFILE),
        "policies": Several(POLICY),
    },
)
"""A whole file, or the `apply` of a scenario."""
