from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.contracts.documents import model as d
from headrace.contracts.documents.reader import read_documents
from headrace.contracts.documents.tree import tree_of
from headrace.contracts.documents.windows import DAYS
from headrace.contracts.documents.writer import write_document, write_documents
from headrace.contracts.documents.yaml_text import read_tree, write_yaml
from headrace.contracts.values.durations import DAY, SECOND, SPAN_MAX

NAMES = st.from_regex(r"[a-z0-9-]{1,8}", fullmatch=True)
LINES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), max_size=20)
MODELS = st.sampled_from(["H100-80GB", "A100-80GB", "MI300X"])
SPANS = st.integers(0, SPAN_MAX)
KEYS = st.sampled_from(["gpu", "cpu", "memory", "job", "license/abaqus"])
AMOUNTS = st.dictionaries(KEYS, st.integers(0, 10**9), max_size=3)
LABELS = st.dictionaries(st.sampled_from(["site", "rack", "zone"]), st.sampled_from(["hq", "r7", "A.1"]), max_size=2)
COUNTS = st.integers(0, 1000)


def names(least=0):
    return st.lists(NAMES, min_size=least, max_size=3, unique=True).map(tuple)


def listed(strategy, **unique_by):
    return st.lists(strategy, max_size=3, **unique_by).map(tuple)


def limits(reservation):
    """R7: a limit that leaves room for the reservation."""
    return AMOUNTS.map(lambda limit: {key: max(value, (reservation or {}).get(key, 0)) for key, value in limit.items()})


@st.composite
def scoped(draw, build, **parts):
    reservation = draw(st.none() | AMOUNTS)
    return build(reservation=reservation, limit=draw(limits(reservation)), **{name: draw(part) for name, part in parts.items()})


TOPOLOGIES = st.sampled_from([None, d.Topology(require="rack"), d.Topology(require="zone", prefer="x.org/rack")])


@st.composite
def profiles(draw):
    gpu = draw(st.integers(0, 126_000) | st.integers(1, 64).map(lambda whole: whole * 126_000))
    request = {"gpu": gpu, "cpu": draw(st.integers(1, 10**6)), "memory": draw(COUNTS)}
    mig = draw(st.sampled_from(["", "3g.40gb"]))
    replicas = draw(st.integers(1, 1000))
    return d.Profile(
        tenant=draw(st.just("") | NAMES),
        name=draw(NAMES),
        request={key: value for key, value in request.items() if value and not (mig and key == "gpu")},
        replicas=replicas,
        gpu_models=draw(st.lists(MODELS, max_size=2, unique=True).map(tuple)),
        mig=mig,
        isolation=draw(st.sampled_from(["any", "driver", "hardware"])),
        pools=draw(names(least=1)),
        reclaim_before_spill=draw(st.booleans()),
        spot=draw(st.booleans()),
        policy_order=draw(names()),
        topology=draw(TOPOLOGIES) if replicas > 1 else None,
    )


TIMES = st.integers(0, 4_000_000_000).map(lambda seconds: seconds * SECOND)
NOTICES = {"notice": st.none() | st.integers(1, DAY), "reason": st.sampled_from(["", "new switches"])}
MAINTENANCE = st.builds(
    lambda begins, **more: d.MaintenanceWindow(begins=begins, ends=begins + DAY, **more), TIMES, **NOTICES
) | st.builds(
    d.MaintenanceWindow,
    days=st.lists(st.sampled_from(DAYS), min_size=1, max_size=6, unique=True).map(tuple),
    opens=st.integers(0, 719),
    closes=st.integers(720, 1440),
    timezone=st.sampled_from(["UTC", "Europe/Berlin"]),
    **NOTICES,
)
OWNERS = NAMES.map(lambda name: d.Owner(tenant=name)) | NAMES.map(lambda name: d.Owner(policy=f"acme/{name}"))
OFFERS = st.builds(
    d.Offer,
    name=NAMES,
    type=LINES,
    region=LINES,
    zone=LINES,
    market=st.sampled_from(["on_demand", "spot"]),
    price=st.sampled_from(["2.50", "4"]),
    max_price=st.sampled_from(["", "5"]),
    **dict.fromkeys(("image", "template", "network"), LINES),
)
BURST = {
    "provider": st.sampled_from([name for name in d.PROVIDERS if name != "ec2"]),
    "node": st.builds(
        d.BurstNode,
        gpus=st.integers(1, 16),
        gpu_model=st.sampled_from(["H100-80GB", "A100-80GB"]),
        cpus=COUNTS,
        memory=COUNTS,
        mig=st.booleans(),
        isolation=st.sampled_from(["any", "driver"]),
        containers=st.booleans(),
    ),
    "min_nodes": st.integers(0, 3),
    "max_nodes": st.integers(3, 9),
    "boot": SPANS,
    "idle": SPANS,
    "orphan_after": SPANS,
    "firewalls": st.lists(LINES.filter(bool), max_size=2).map(tuple),
    "disk": COUNTS,
    **dict.fromkeys(("image", "template", "network"), LINES),
}
BURSTS = st.builds(d.Burst, **BURST, spot=st.booleans(), max_life=SPANS) | st.builds(
    d.Burst,
    **BURST,
    offers=st.lists(OFFERS, min_size=1, max_size=3, unique_by=lambda offer: offer.name).map(tuple),
    order=st.sampled_from(["cheapest", "as_written"]),
    min_life=SPANS,
    cap=st.sampled_from(["", "500"]),
)
POOLS = st.builds(
    d.Pool,
    name=NAMES,
    selector=LABELS,
    capacity=AMOUNTS,
    profile_order=names(),
    backfill_for=SPANS,
    keep_for=SPANS,
    nomination_timeout=SPANS,
    allow_overcommit=st.booleans(),
    access=st.builds(d.Access, allow=names(), deny=names()),
    dedicated_to=st.none() | OWNERS,
    dedicated=listed(st.builds(d.Dedication, selector=LABELS, to=OWNERS)),
    maintenance=listed(MAINTENANCE),
    price=st.dictionaries(KEYS, st.sampled_from(["2.50", "0", "4"]), max_size=2),
    burst=st.none() | BURSTS,
)
TERMS = st.builds(
    d.PreemptionTerms,
    on_preempt=st.sampled_from(["requeue", "requeue_last", "suspend", "cancel"]),
    callback_grace=st.integers(0, 600_000_000),
    term_grace=SPANS,
    min_runtime=SPANS,
    preempt_lower_priority=st.booleans(),
    max_preemptions=st.none() | COUNTS,
    on_node_lost=st.sampled_from(["requeue", "wait"]),
    suspend_max=SPANS,
    assume_checkpoint_every=st.none() | SPANS,
)
WINDOWS = st.builds(
    d.Window,
    days=st.lists(st.sampled_from(DAYS), min_size=1, unique=True).map(tuple),
    opens=st.integers(0, 719),
    closes=st.integers(720, 1440),
    timezone=st.sampled_from(["UTC", "Europe/Berlin"]),
    on_close=st.sampled_from(["run_on", "preempt"]),
)
BUDGETS = st.builds(
    d.Budget, key=KEYS, hours=COUNTS, per=st.sampled_from(["day", "month"]), then=st.sampled_from(["wait", "borrow"])
)
POLICIES = scoped(
    d.Policy,
    tenant=NAMES,
    name=NAMES,
    group=st.just("") | NAMES,
    profiles=listed(
        st.builds(d.PolicyProfile, name=NAMES, borrow=st.booleans(), submitters=names()), unique_by=lambda link: link.name
    ),
    beyond_limit=names(),
    priority=st.integers(-(10**6), 10**6),
    weight=st.integers(1, 100),
    per_pool=st.dictionaries(NAMES, scoped(d.Scope), max_size=2),
    preemption=TERMS,
    max_pending=st.integers(1, 10**6),
    budgets=listed(BUDGETS, unique_by=lambda budget: (budget.key, budget.per)),
    windows=listed(WINDOWS),
)
TENANTS = st.builds(
    d.Tenant, name=NAMES, display_name=LINES, shares=listed(scoped(d.Share, pool=NAMES), unique_by=lambda share: share.pool)
)
SETS = st.builds(
    d.Documents,
    tenants=listed(TENANTS, unique_by=lambda tenant: tenant.name),
    users=listed(
        st.builds(d.User, tenant=NAMES, handle=NAMES, subject=LINES, email=LINES),
        unique_by=lambda user: (user.tenant, user.handle),
    ),
    groups=listed(
        st.builds(d.Group, tenant=NAMES, name=NAMES, members=names(), service_accounts=names()),
        unique_by=lambda group: (group.tenant, group.name),
    ),
    pools=listed(POOLS, unique_by=lambda pool: pool.name),
    profiles=listed(profiles(), unique_by=lambda profile: (profile.tenant, profile.name)),
    policies=listed(POLICIES, unique_by=lambda policy: (policy.tenant, policy.name)),
)


@given(SETS)
def test_what_is_written_is_read_again_as_the_same_documents(documents):
    written = write_documents(documents)
    assert read_documents(tree_of(written)) == documents
    if written:
        assert read_documents(read_tree(write_yaml(written))) == documents


def test_a_document_is_written_as_a_person_would_write_it():
    policy = d.Policy(
        name="ai-dev",
        group="ai-dev",
        profiles=(d.PolicyProfile(name="half"), d.PolicyProfile(name="full", borrow=False)),
        weight=2,
        reservation={"gpu": 504_000},
        limit={"gpu": 63_000, "memory": 65_536},
        preemption=d.PreemptionTerms(min_runtime=300_000_000, max_preemptions=3),
        windows=(d.Window(days=("mon",), opens=480, closes=1440),),
    )
    assert write_document(policy) == {
        "name": "ai-dev",
        "group": "ai-dev",
        "profiles": ["half", {"name": "full", "borrow": False}],
        "weight": 2,
        "reservation": {"gpu": "4"},
        "limit": {"gpu": "0.5", "memory": "64GiB"},
        "preemption": {"min_runtime": "5m", "max_preemptions": 3},
        "windows": [{"days": ["mon"], "from": "08:00", "to": "24:00"}],
    }


def test_a_part_of_a_document_is_not_a_document():
    with pytest.raises(TypeError, match="Scope is not a kind of document"):
        write_document(d.Scope())
