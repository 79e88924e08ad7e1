from __future__ import annotations

import pytest

from headrace.allocator.scale_up import ask_for_growth, end_growth, next_growth
from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts.provisioning import OfferTaken
from headrace.contracts.values.durations import MINUTE
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


def history(*pools: d.Pool, **more: object) -> History:
    return History(policy("ml", profiles=LINKS, **more), pools=(HALL, *pools), profiles=PROFILES)


def asked(told: History) -> list[object]:
    return list(ask_for_growth(told.state, told.now))


def wanted(pool: str, nodes: int, *jobs) -> f.GrowthRequestedV1:
    return f.GrowthRequestedV1(pool=pool, nodes=nodes, jobs=tuple(sorted(job.key for job in jobs)))


def test_who_waits_asks_for_the_fewest_nodes_in_the_first_pool_that_can_grow():
    told = history(CLOUD, FAR)
    one, three, _ = told.admit("ml/one"), told.admit("ml/three"), told.admit("ml/three")

    assert asked(told) == [wanted("cloud", 2, one, three)]


def test_no_request_is_made_where_nothing_can_grow():
    told = history()
    told.admit("ml/one")

    assert (asked(told), next_growth(told.state, told.now)) == ([], None)


def test_no_job_asks_for_more_than_limits_leave():
    told = history(CLOUD, limit=gpus(4))
    two = told.admit("ml/two")
    for _ in range(5):
        told.admit("ml/two")

    assert asked(told) == [wanted("cloud", 1, two)]


@pytest.mark.parametrize("kind", ["limit", "firm", "frozen", "shut"])
def test_who_could_not_start_there_asks_for_nothing(kind):
    told = history(CLOUD, limit=gpus(1) if kind == "limit" else {}, reservation=gpus(1))
    told.admit("ml/two", preemptible=kind != "firm")
    if kind == "frozen":
        told.append_facts(f.ObjectClosedV1(author="a.b", kind="pool", name="cloud", mode="freeze"))
    elif kind == "shut":
        told.append_facts(f.PolicyGatedV1(tenant="default", policy="ml", shut=True), by="allocator")

    assert asked(told) == []


def test_who_may_not_borrow_asks_where_its_reservation_is_free():  # R12
    links = tuple(d.PolicyProfile(name=link.name, borrow=False) for link in LINKS)
    shares = {"cloud": d.Scope(reservation=gpus(1)), "far": d.Scope(reservation=gpus(2))}
    told = History(policy("ml", profiles=links, per_pool=shares), pools=(HALL, CLOUD, FAR), profiles=PROFILES)
    two = told.admit("ml/two")

    assert asked(told) == [wanted("far", 1, two)]


def test_while_a_pool_grows_for_a_job_no_other_is_asked_and_afterwards_the_next_one():
    told = history(CLOUD, FAR)
    job = told.admit("ml/one")
    told.append_facts(wanted("cloud", 1, job), by="allocator")

    assert (asked(told), next_growth(told.state, told.now)) == ([], START + 4 * MINUTE)
    told.now = START + 4 * MINUTE
    late = f.GrowthEndedV1(pool="cloud", outcome="late", closed_until=told.now + 10 * MINUTE)
    assert list(end_growth(told.state, told.now)) == [late]
    told.append_facts(late, by="allocator")
    assert asked(told) == [wanted("far", 1, job)]
    assert next_growth(told.state, told.now) == told.now + 10 * MINUTE


def test_growth_ends_when_all_nodes_have_come():
    told = history(CLOUD)
    told.append_facts(f.GrowthRequestedV1(pool="cloud", nodes=1), by="allocator")

    assert list(end_growth(told.state, told.now)) == []
    told.node("c1", site="cloud")
    assert list(end_growth(told.state, told.now)) == [f.GrowthEndedV1(pool="cloud", outcome="grown", nodes=1)]


def test_the_allocator_asks_when_nothing_more_can_be_granted():
    told = history(CLOUD)
    job = told.admit("ml/one")

    assert told.allocate() == (wanted("cloud", 1, job),)
    assert told.allocate() == ()
    assert told.allocator.next_wakeup() == START + 4 * MINUTE


OFFER = {"pool": "cloud", "provider": "local", "offer": OfferTaken(name="default"), "token": "t", "expires": START + 4 * MINUTE}


def growing(told: History) -> int:
    """The cloud is asked for a node for a job, and one is ordered."""
    told.admit("ml/one")
    told.allocate()
    growth = told.state.terms.growths["cloud"].sequence
    told.append_facts(f.InstanceOrderedV1(instance="cloud-1", growth=growth, **OFFER), by="provisioner")
    return growth


@pytest.mark.parametrize(
    ("code", "outcome"),
    [("CAPACITY", "no_capacity"), ("QUOTA", "no_quota"), ("PRICE", "over_price"), ("INVALID", "invalid"), ("X", "late")],
)
def test_growth_ends_at_once_with_the_cause_when_no_offer_is_open_and_the_next_pool_is_asked(code, outcome):  # R38
    told = history(CLOUD, FAR)
    growing(told)
    until = told.now + 3 * MINUTE
    assert told.allocate() == ()
    told.append_facts(f.InstanceRefusedV1(instance="cloud-1", code=code, closed_until=until), by="provisioner")
    assert told.allocate() == (f.GrowthEndedV1(pool="cloud", outcome=outcome, closed_until=until),)
    assert [fact.pool for fact in told.allocate()] == ["far"]


def test_growth_goes_on_while_an_order_has_no_answer_or_another_offer_is_open():  # R38
    told = history(CLOUD)
    growth = growing(told)
    told.append_facts(f.InstanceOrderedV1(instance="cloud-2", growth=growth, **OFFER), by="provisioner")
    told.append_facts(
        f.InstanceRefusedV1(instance="cloud-1", code="CAPACITY", closed_until=told.now + MINUTE), by="provisioner"
    )
    assert told.allocate() == ()
    told.append_facts(f.InstanceRefusedV1(instance="cloud-2", code="CAPACITY", closed_until=told.now), by="provisioner")
    told.now += MINUTE
    assert told.allocate() == ()


def test_a_pool_whose_offers_are_closed_is_asked_when_one_opens():  # R38
    told = history(CLOUD)
    growing(told)
    told.append_facts(
        f.InstanceRefusedV1(instance="cloud-1", code="CAPACITY", closed_until=told.now + MINUTE), by="provisioner"
    )
    told.allocate()
    assert (told.allocate(), next_growth(told.state, told.now)) == ((), told.now + MINUTE)
    told.now += MINUTE
    assert [type(fact) for fact in told.allocate()] == [f.GrowthRequestedV1]


def test_who_may_not_use_the_new_nodes_asks_for_none():  # R21
    cloud = d.Pool(name="cloud", selector={"site": "cloud"}, burst=CLOUD.burst, dedicated_to=d.Owner(policy="default/other"))
    told = history(cloud)
    told.admit("ml/one")
    assert asked(told) == []
    told.state.terms.level = 2
    assert [fact.pool for fact in asked(told)] == ["cloud"], "ledgers of release 0.2.0 were decided so"


def offering(*markets: str) -> d.Pool:
    """The cloud with an offer in each of these markets, the first one the cheapest."""
    offers = tuple(d.Offer(name=market, price=str(number), market=market) for number, market in enumerate(markets, start=1))
    told = {name: getattr(CLOUD.burst, name) for name in ("provider", "node", "max_nodes", "boot")}
    return d.Pool(name="cloud", selector=CLOUD.selector, burst=d.Burst(offers=offers, **told))


def test_who_is_not_preemptible_asks_for_no_spot_instance():  # R38
    told = history(offering("spot"), reservation=gpus(4))
    job = told.admit("ml/one", preemptible=False)
    assert asked(told) == []
    told.law(d.Documents(pools=(offering("spot", "on_demand"),)))
    assert asked(told) == [wanted("cloud", 1, job)]
    told.append_facts(*asked(told), by="allocator")
    assert [fact.offer.name for fact in Provisioner(told.state).decide(told.now)] == ["on_demand"]


def test_who_is_preemptible_takes_the_cheapest_offer():  # R38
    told = history(offering("spot", "on_demand"))
    told.admit("ml/one")
    told.append_facts(*asked(told), by="allocator")
    assert [fact.offer.name for fact in Provisioner(told.state).decide(told.now)] == ["spot"]


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
    told = History(policy("ml", profiles=links, reservation=gpus(4)), pools=(HALL, SPOT), profiles=profiles)
    told.admit("ml/one", preemptible=True)
    told.append_facts(*ask_for_growth(told.state, told.now), by="allocator")
    (order,) = Provisioner(told.state).decide(told.now)
    told.append_facts(order, by="provisioner")
    told.append_facts(f.InstanceCreatedV1(instance=order.instance, provider_id="p", at=told.now), by="provisioner")
    told.node(order.instance, 4, site="cloud")
    return told


def test_a_job_that_is_not_preemptible_is_not_placed_on_a_spot_instance_that_is_there():
    told = with_spot_node()
    firm, loose = told.admit("ml/one", preemptible=False), told.admit("ml/one", preemptible=True)
    told.learn()
    while told.allocate():
        pass

    assert (firm.leases, bool(loose.leases)) == ({}, True)
    assert asked(told) == []


def test_it_is_placed_there_if_its_profile_allows_spot_instances():
    told = with_spot_node(spot=True)
    firm = told.admit("ml/one", preemptible=False)
    told.learn()
    while told.allocate():
        pass

    assert [lease.node for lease in firm.leases.values()] == [*told.state.instances]
