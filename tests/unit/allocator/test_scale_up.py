from __future__ import annotations

import pytest
from msgspec.structs import replace

from headrace.allocator.scale_up import ask_for_growth, end_growth, next_growth
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.provisioning import OfferTaken
from headrace.contracts.values.amounts import GPU, GPU_MEMORY, GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.contracts.values.gpu_memory import ModelShare
from headrace.domain.model.calendar import period_of
from headrace.domain.model.instances import Spending
from headrace.provisioner.decide import Provisioner
from tests.unit.allocator.history import HALL, START, History, gpus, policy, profile

CLOUD = d.Pool(
    name="cloud",
    selector={"site": "cloud"},
    burst=d.Burst(provider="local", node=d.BurstNode(gpus=4, gpu_model="H100"), max_nodes=2, boot=2 * MINUTE),
)
FAR = d.Pool(name="far", selector={"site": "far"}, burst=CLOUD.burst)
PROFILES = tuple(profile(name, count, pools=("hall", "cloud", "far")) for name, count in (("one", 1), ("two", 2), ("three", 3)))
LINKS = tuple(d.PolicyProfile(name=known.name) for known in PROFILES)


def new_history(*pools: d.Pool, **more: object) -> History:
    return History(policy("ml", profiles=LINKS, **more), pools=(HALL, *pools), profiles=PROFILES)


def asked(history: History) -> list[object]:
    return list(ask_for_growth(history.state, history.now))


def wanted(pool: str, nodes: int, *jobs) -> f.GrowthRequestedV1:
    return f.GrowthRequestedV1(pool=pool, nodes=nodes, jobs=tuple(sorted(job.key for job in jobs)))


def test_who_waits_asks_for_the_fewest_nodes_in_the_first_pool_that_can_grow():
    history = new_history(CLOUD, FAR)
    one, three, _ = history.admit("ml/one"), history.admit("ml/three"), history.admit("ml/three")

    assert asked(history) == [wanted("cloud", 2, one, three)]


def test_a_gang_that_requires_a_topology_level_asks_for_no_growth_because_the_place_of_new_nodes_is_unknown():  # R38, R40
    gang = profile("gang", replicas=2, pools=("cloud",), topology=d.Topology(require="rack"))
    cloud = replace(CLOUD, topology=("rack",))
    history = History(policy("ml", profiles=(d.PolicyProfile(name="gang"),)), pools=(HALL, cloud), profiles=(gang,))
    history.admit("ml/gang")

    assert asked(history) == []


def test_no_request_is_made_where_nothing_can_grow():
    history = new_history()
    history.admit("ml/one")

    assert (asked(history), next_growth(history.state, history.now)) == ([], None)


def test_no_job_asks_for_more_than_limits_leave():
    history = new_history(CLOUD, limit=gpus(4))
    two = history.admit("ml/two")
    for _ in range(5):
        history.admit("ml/two")

    assert asked(history) == [wanted("cloud", 1, two)]


@pytest.mark.parametrize("kind", ["limit", "firm", "frozen", "shut"])
def test_who_could_not_start_there_asks_for_nothing(kind):
    history = new_history(CLOUD, limit=gpus(1) if kind == "limit" else {}, reservation=gpus(1))
    history.admit("ml/two", preemptible=kind != "firm")
    if kind == "frozen":
        history.append_facts(f.ObjectClosedV1(author="a.b", kind="pool", name="cloud", mode="freeze"))
    elif kind == "shut":
        history.append_facts(f.PolicyGatedV1(tenant="default", policy="ml", shut=True), by="allocator")

    assert asked(history) == []


def test_who_may_not_borrow_asks_where_its_reservation_is_free():  # R12
    links = tuple(d.PolicyProfile(name=link.name, borrow=False) for link in LINKS)
    shares = {"cloud": d.Scope(reservation=gpus(1)), "far": d.Scope(reservation=gpus(2))}
    history = History(policy("ml", profiles=links, per_pool=shares), pools=(HALL, CLOUD, FAR), profiles=PROFILES)
    two = history.admit("ml/two")

    assert asked(history) == [wanted("far", 1, two)]


def test_while_a_pool_grows_for_a_job_no_other_is_asked_and_afterwards_the_next_one():
    history = new_history(CLOUD, FAR)
    job = history.admit("ml/one")
    history.append_facts(wanted("cloud", 1, job), by="allocator")

    assert (asked(history), next_growth(history.state, history.now)) == ([], START + 4 * MINUTE)
    history.now = START + 4 * MINUTE
    late = f.GrowthEndedV1(pool="cloud", outcome="late", closed_until=history.now + 10 * MINUTE)
    assert list(end_growth(history.state, history.now)) == [late]
    history.append_facts(late, by="allocator")
    assert asked(history) == [wanted("far", 1, job)]
    assert next_growth(history.state, history.now) == history.now + 10 * MINUTE


def test_growth_ends_when_all_nodes_have_come():
    history = new_history(CLOUD)
    history.append_facts(f.GrowthRequestedV1(pool="cloud", nodes=1), by="allocator")

    assert list(end_growth(history.state, history.now)) == []
    history.node("c1", site="cloud")
    assert list(end_growth(history.state, history.now)) == [f.GrowthEndedV1(pool="cloud", outcome="grown", nodes=1)]


def test_the_allocator_asks_when_nothing_more_can_be_granted():
    history = new_history(CLOUD)
    job = history.admit("ml/one")

    assert history.allocate() == (wanted("cloud", 1, job),)
    assert history.allocate() == ()
    assert history.allocator.next_wakeup() == START + 4 * MINUTE


OFFER = {"pool": "cloud", "provider": "local", "offer": OfferTaken(name="default"), "token": "t", "expires": START + 4 * MINUTE}


def growing(history: History) -> int:
    """The cloud is asked for a node for a job, and one is ordered."""
    history.admit("ml/one")
    history.allocate()
    growth = history.state.terms.growths["cloud"].sequence
    history.append_facts(f.InstanceOrderedV1(instance="cloud-1", growth=growth, **OFFER), by="provisioner")
    return growth


@pytest.mark.parametrize(
    ("code", "outcome"),
    [("CAPACITY", "no_capacity"), ("QUOTA", "no_quota"), ("PRICE", "over_price"), ("INVALID", "invalid"), ("X", "late")],
)
def test_growth_ends_at_once_with_the_cause_when_no_offer_is_open_and_the_next_pool_is_asked(code, outcome):  # R38
    history = new_history(CLOUD, FAR)
    growing(history)
    until = history.now + 3 * MINUTE
    assert history.allocate() == ()
    history.append_facts(f.InstanceRefusedV1(instance="cloud-1", code=code, closed_until=until), by="provisioner")
    assert history.allocate() == (f.GrowthEndedV1(pool="cloud", outcome=outcome, closed_until=until),)
    assert [fact.pool for fact in history.allocate()] == ["far"]


def test_growth_goes_on_while_an_order_has_no_answer_or_another_offer_is_open():  # R38
    history = new_history(CLOUD)
    growth = growing(history)
    history.append_facts(f.InstanceOrderedV1(instance="cloud-2", growth=growth, **OFFER), by="provisioner")
    history.append_facts(
        f.InstanceRefusedV1(instance="cloud-1", code="CAPACITY", closed_until=history.now + MINUTE), by="provisioner"
    )
    assert history.allocate() == ()
    history.append_facts(f.InstanceRefusedV1(instance="cloud-2", code="CAPACITY", closed_until=history.now), by="provisioner")
    history.now += MINUTE
    assert history.allocate() == ()


def test_a_pool_whose_offers_are_closed_is_asked_when_one_opens():  # R38
    history = new_history(CLOUD)
    growing(history)
    history.append_facts(
        f.InstanceRefusedV1(instance="cloud-1", code="CAPACITY", closed_until=history.now + MINUTE), by="provisioner"
    )
    history.allocate()
    assert (history.allocate(), next_growth(history.state, history.now)) == ((), history.now + MINUTE)
    history.now += MINUTE
    assert [type(fact) for fact in history.allocate()] == [f.GrowthRequestedV1]


def test_who_may_not_use_the_new_nodes_asks_for_none():  # R21
    cloud = d.Pool(name="cloud", selector={"site": "cloud"}, burst=CLOUD.burst, dedicated_to=d.Owner(policy="default/other"))
    history = new_history(cloud)
    history.admit("ml/one")
    assert asked(history) == []
    history.state.terms.level = 2
    assert [fact.pool for fact in asked(history)] == ["cloud"], "ledgers of release 0.2.0 were decided so"


def offering(*markets: str) -> d.Pool:
    """The cloud with an offer in each of these markets, the first one the cheapest."""
    offers = tuple(d.Offer(name=market, price=str(number), market=market) for number, market in enumerate(markets, start=1))
    burst = {name: getattr(CLOUD.burst, name) for name in ("provider", "node", "max_nodes", "boot")}
    return d.Pool(name="cloud", selector=CLOUD.selector, burst=d.Burst(offers=offers, **burst))


def test_who_is_not_preemptible_asks_for_no_spot_instance():  # R38
    history = new_history(offering("spot"), reservation=gpus(4))
    job = history.admit("ml/one", preemptible=False)
    assert asked(history) == []
    history.law(d.Documents(pools=(offering("spot", "on_demand"),)))
    assert asked(history) == [wanted("cloud", 1, job)]
    history.append_facts(*asked(history), by="allocator")
    assert [fact.offer.name for fact in Provisioner(history.state).decide(history.now)] == ["on_demand"]


def test_who_is_preemptible_takes_the_cheapest_offer():  # R38
    history = new_history(offering("spot", "on_demand"))
    history.admit("ml/one")
    history.append_facts(*asked(history), by="allocator")
    assert [fact.offer.name for fact in Provisioner(history.state).decide(history.now)] == ["spot"]


SPOT = d.Pool(
    name="cloud",
    selector={"site": "cloud"},
    burst=d.Burst(**{name: getattr(CLOUD.burst, name) for name in CLOUD.burst.__struct_fields__} | {"spot": True}),
)


def with_spot_node(**allowed: bool) -> History:
    """A full hall, and a spot instance beside it that has joined for a job that is preemptible."""
    profiles = (profile("one", 1, pools=("hall", "cloud")), d.Profile(name="cpu", request={"cpu": 1}, pools=("cloud",)))
    if allowed:
        profiles = tuple(
            d.Profile(**{name: getattr(one, name) for name in one.__struct_fields__} | allowed) for one in profiles
        )
    links = tuple(d.PolicyProfile(name=known.name) for known in profiles)
    history = History(policy("ml", profiles=links, reservation=gpus(4)), pools=(HALL, SPOT), profiles=profiles)
    history.admit("ml/one", preemptible=True)
    history.append_facts(*ask_for_growth(history.state, history.now), by="allocator")
    (order,) = Provisioner(history.state).decide(history.now)
    history.append_facts(order, by="provisioner")
    history.append_facts(f.InstanceCreatedV1(instance=order.instance, provider_id="p", at=history.now), by="provisioner")
    history.node(order.instance, 4, site="cloud")
    return history


def test_a_job_that_is_not_preemptible_is_not_placed_on_a_spot_instance_that_is_there():
    history = with_spot_node()
    firm, loose = history.admit("ml/one", preemptible=False), history.admit("ml/one", preemptible=True)
    history.learn()
    while history.allocate():
        pass

    assert (firm.leases, bool(loose.leases)) == ({}, True)
    assert asked(history) == []


def test_it_is_placed_there_if_its_profile_allows_spot_instances():
    history = with_spot_node(spot=True)
    firm = history.admit("ml/one", preemptible=False)
    history.learn()
    while history.allocate():
        pass

    assert [lease.node for lease in firm.leases.values()] == [*history.state.instances]


def test_a_tenant_asks_for_no_more_nodes_than_its_cap_pays_for():
    priced = replace(CLOUD, burst=replace(CLOUD.burst, offers=(d.Offer(name="one", price="6"),), min_life=HOUR))
    history = new_history(priced)
    for cap, nodes in (("5.99", 0), ("6", 1), ("11.99", 1), ("12", 2), ("", 2)):
        history.append_facts(
            f.TenantAppliedV1(author="a.b", tenant=d.Tenant(name="default", shares=(d.Share(pool="cloud", cap=cap),)))
        )
        while len(history.state.jobs) < 3:
            history.admit("ml/three")
        assert sum(fact.nodes for fact in asked(history)) == nodes


def test_a_pool_is_asked_again_when_the_month_of_a_cap_is_over():
    priced = replace(CLOUD, burst=replace(CLOUD.burst, offers=(d.Offer(name="one", price="6"),)))
    history = new_history(priced)
    history.append_facts(
        f.TenantAppliedV1(author="a.b", tenant=d.Tenant(name="default", shares=(d.Share(pool="cloud", cap="1"),)))
    )
    history.state.tenants_spent["cloud", "default"] = Spending(0, 1)
    assert next_growth(history.state, history.now) == period_of("month", None, history.now)[1]


def test_a_job_of_gpu_memory_asks_under_a_cap_for_nodes_of_the_model_that_can_be_created():  # R38, R42
    node = d.BurstNode(gpus=1, gpu_model="H100-80GB")
    priced = replace(CLOUD, burst=replace(CLOUD.burst, node=node, offers=(d.Offer(name="one", price="6"),), min_life=HOUR))
    of_memory = d.Profile(name="large", request={GPU_MEMORY: 36 * 1024}, pools=("hall", "cloud"))
    history = History(policy("ml", profiles=(d.PolicyProfile(name="large"),)), pools=(HALL, priced), profiles=(of_memory,))
    history.append_facts(
        f.TenantAppliedV1(author="a.b", tenant=d.Tenant(name="default", shares=(d.Share(pool="cloud", cap="6"),)))
    )
    shares = (ModelShare(model="A100-40GB", gpu=994 * 126), ModelShare(model="H100-80GB", gpu=GPU_UNITS // 2))
    waiting = {"request": {GPU: shares[0].gpu}, "gpu_memory": 36 * 1024, "shares": shares}
    first, *_ = [history.admit("ml/large", **waiting) for _ in range(4)]
    assert asked(history) == [wanted("cloud", 1, first)]


def two_models(*pools: str, models: tuple[str, ...]) -> History:
    """A full hall, and a cloud for each of two GPU models, asked in the order of `pools`; jobs ask for GPU memory."""
    clouds = tuple(
        d.Pool(
            name=name,
            selector={"site": name},
            burst=replace(CLOUD.burst, node=d.BurstNode(gpus=1, gpu_model=model), max_nodes=1),
        )
        for name, model in (("scarce", "H100-80GB"), ("cheap", "A100-40GB"))
    )
    of_memory = d.Profile(name="large", request={GPU_MEMORY: 36 * 1024}, gpu_models=models, pools=("hall", *pools))
    link = (d.PolicyProfile(name="large"),)
    return History(policy("ml", profiles=link), pools=(HALL, *clouds), profiles=(of_memory,))


SHARE = {
    "H100-80GB": ModelShare(model="H100-80GB", gpu=GPU_UNITS // 2),
    "A100-40GB": ModelShare(model="A100-40GB", gpu=994 * 126),
}


@pytest.mark.parametrize("models", [("H100-80GB", "A100-40GB"), ("A100-40GB", "H100-80GB")])
@pytest.mark.parametrize("pools", [("scarce", "cheap"), ("cheap", "scarce")])
def test_growth_is_asked_for_in_the_order_of_gpu_models_whatever_that_of_the_pools_is(models, pools):  # R38, R42
    history = two_models(*pools, models=models)
    shares = tuple(SHARE[model] for model in models)
    history.admit("ml/large", request={GPU: shares[0].gpu}, gpu_memory=36 * 1024, shares=shares)
    of_model = {"H100-80GB": "scarce", "A100-40GB": "cheap"}
    provisioner, ordered = Provisioner(history.state), []
    while any(isinstance(fact, f.GrowthRequestedV1) for fact in history.allocate()):
        (order,) = provisioner.decide(history.now)
        history.append_facts(order, by="provisioner")
        ordered.append(order.pool)
        history.append_facts(
            f.InstanceRefusedV1(instance=order.instance, code="CAPACITY", closed_until=history.now + MINUTE), by="provisioner"
        )
        assert history.allocate() == (
            f.GrowthEndedV1(pool=order.pool, outcome="no_capacity", closed_until=history.now + MINUTE),
        )
    assert ordered == [of_model[model] for model in models]
