"""Where a preemptor would go once others have left (R26)."""

from headrace.contracts import facts as f
from headrace.contracts.documents.model import PolicyProfile
from headrace.contracts.facts.fact import Place
from headrace.contracts.values.amounts import GPU, GPU_UNITS, JOB
from headrace.domain.indexes.running_index import site_of
from headrace.domain.placement.placement_after_preemption import PlacementAfterPreemption, accounts_of, leaving_anyway
from tests.unit.domain.hall import Hall, gpus, shares
from tests.unit.domain.site import HALF, Site, policy, pool, profile, slice_at


def full(size=4, replicas=1, **pool):
    hall = Hall(nodes=2, devices=4, **pool)
    hall.policy("lender", size=2)
    hall.policy("owner", reservation=8, size=size, replicas=replicas)
    victims = [hall.run("lender", f"v{number}", (f"n{1 + number // 2}", 2 * (number % 2), 2)) for number in range(4)]
    return hall, victims, hall.admit("owner", "o")


def clearing(hall, job):
    anyway = leaving_anyway(hall.state, hall.pool)
    leases = [lease for those in anyway.values() for lease in those]
    return PlacementAfterPreemption(
        job, hall.state.nodes.values(), anyway, accounts_of(hall.state, job, hall.pool, leases), hall.pool.index.slices
    )


def places(hall, job, gone):
    trial = clearing(hall, job)
    trial.open_all()
    for victim in gone:
        trial.leave(victim)
    return trial.places()


def test_nothing_fits_before_a_victim_has_left_and_sums_alone_do_not_do():
    hall, (first, _, third, _), job = full()
    assert places(hall, job, []) is None
    assert places(hall, job, [first, third]) is None


def test_both_of_one_node_make_room_there():
    hall, (_, _, third, fourth), job = full()
    assert places(hall, job, [third, fourth]) == (Place(node="n2", devices=shares(0, 4), amounts=gpus(4) | {JOB: 1}),)


def test_a_gang_takes_what_several_nodes_give():
    hall, (first, _, third, _), job = full(size=2, replicas=2)
    assert places(hall, job, [first, third]) == (
        Place(node="n1", devices=shares(0, 2), amounts=gpus(2) | {JOB: 1}),
        Place(node="n2", devices=shares(0, 2), amounts=gpus(2)),
    )


def test_who_leaves_anyway_is_counted_on_until_it_is_overdue():
    hall, (first, second, *_), job = full()
    hall.stop(first)
    assert {node: [lease.job for lease in leases] for node, leases in leaving_anyway(hall.state, hall.pool).items()} == {
        "n1": [first]
    }
    assert places(hall, job, [second])[0].node == "n1"
    first.leases[0].overdue = True
    assert places(hall, job, [second]) is None


def test_what_is_kept_for_another_is_not_there():
    hall, (first, second, *_), job = full()
    hall.order(hall.admit("owner", "other"), [first, second], ("n1", 0, 4))
    assert places(hall, job, [first, second]) is None


def test_cpus_that_are_kept_before_they_are_free_are_nothing_to_who_asks_for_none():
    hall, (first, second, *_), job = full(size=2)
    hall.order(hall.admit("owner", "other"), [first], ("n1", 0, 2))
    node = hall.state.nodes["n1"]
    node.cpu_nominated, node.memory_nominated = node.cpu_free + 1, node.memory_free + 1
    assert places(hall, job, [second]) == (Place(node="n1", devices=shares(2, 2), amounts=gpus(2) | {JOB: 1}),)


def test_who_comes_back_leaves_everything_as_it_was():
    hall, victims, job = full(size=2, replicas=3, capacity=gpus(7))
    trial = clearing(hall, job)
    fitting = trial.open_all()
    assert (fitting, trial.replicas, trial.suffices) == ({"n1": 0, "n2": 0}, 0, False)
    for victim in victims[:3]:
        trial.leave(victim)
    assert [trial.replicas_on(name) for name in ("n1", "n2", "n3")] == [2, 1, 0]
    assert (trial.replicas, trial.suffices) == (3, False)
    trial.leave(victims[3])
    assert (trial.replicas, trial.suffices) == (4, True)
    for victim in victims:
        trial.come_back(victim)
    assert (trial.open_all(), trial.replicas, trial.suffices) == (fitting, 0, False)


def test_fractions_cpu_and_memory_are_counted_too():
    hall = Hall(nodes=1, devices=2)
    hall.policy("lender", size=2)
    hall.policy("owner", reservation=8, size=0.25)
    victim = hall.run("lender", "v", ("n1", 0, 2))
    trial = clearing(hall, hall.admit("owner", "o"))
    trial.leave(victim)
    assert trial.replicas == 8


def test_a_tenants_limit_is_made_room_under_by_its_own_jobs_only():
    hall, victims, job = full()
    share = type(hall.state.policies["acme", "owner"].wide)("tenant", "tenant acme in pool hall", limit=gpus(8), use=gpus(8))
    hall.state.shares["acme", "hall"] = share
    (pool, tenant) = accounts_of(hall.state, job, hall.pool, ())
    assert (pool.lacks, tenant.lacks) == (gpus(4), gpus(4))
    tenant.move(victims[0].leases.values(), 1)
    assert (tenant.lacks, tenant.fits()) == (gpus(2), False)
    tenant.tenant = "rival"
    tenant.move(victims[1].leases.values(), 1)
    assert tenant.lacks == gpus(2)


def test_victims_that_are_overdue_are_unused_and_yet_in_the_way():  # R6, R17, R28
    hall, (first, second, third, _), job = full(capacity=gpus(8))
    ordered = hall.order(hall.admit("owner", "other"), [first, second], ("n1", 0, 4))
    hall.append_facts("preemption", f.LeaseOverdueV1(job=first.key, attempt=1, rank=0, node="n1"))
    hall.append_facts("allocator", f.NominationEndedV1(preemption=ordered, job="acme.u.other", why="too late"))

    assert (hall.pool.use[GPU], hall.pool.leased[GPU]) == (4 * GPU_UNITS, 8 * GPU_UNITS)
    (account,) = accounts_of(hall.state, job, hall.pool, second.leases.values())
    assert account.lacks == gpus(2)
    account.move(third.leases.values(), 1)
    assert account.fits()


def test_slices_leave_room_by_their_geometry():  # R4, R26
    site = Site(policy("dev"), policy("ops"))
    site.law(profile("three", {GPU: HALF}, mig="3g.40gb"), profile("two", {GPU: 36_000}, mig="2g.20gb"))
    site.law(policy("dev", profiles=(PolicyProfile(name="two"),)), policy("ops", profiles=(PolicyProfile(name="three"),)))
    site.node("n1", 1, model="H100-80GB", mig=True)
    there = [
        site.run(f"v{start}", slice_at("n1", "2g.20gb", start, 36_000), queue="dev/two", mig="2g.20gb") for start in (0, 2, 4)
    ]
    job = site.admit("o", "ops/three", mig="3g.40gb")
    hall = site.state.pools["hall"]

    def without(*gone):
        trial = PlacementAfterPreemption(
            job, site.state.nodes.values(), {}, accounts_of(site.state, job, hall, ()), hall.index.slices
        )
        before = trial.open_all()
        for victim in gone:
            trial.leave(victim)
        for victim in gone:
            trial.come_back(victim)
        assert (trial.open_all(), trial.replicas) == (before, 0)
        for victim in gone:
            trial.leave(victim)
        return trial.places()

    low, middle, high = there
    assert [without(), without(low), without(middle), without(low, high)] == [
        None,
        None,
        None,
        (slice_at("n1", "3g.40gb", 4, HALF),),
    ]
    assert without(low, middle) == (slice_at("n1", "3g.40gb", 0, HALF),)
    assert without(high) == (slice_at("n1", "3g.40gb", 4, HALF),)


def test_under_a_ceiling_a_cut_gpu_frees_no_more_than_it_counted():  # R4, R6
    site = Site(policy("dev"), policy("ops"), pools=(pool(capacity={GPU: GPU_UNITS}),))
    site.law(profile("cut", {GPU: HALF}, mig="3g.40gb"), policy("dev", profiles=(PolicyProfile(name="cut"),)))
    site.node("n1", 1, model="H100-80GB", mig=True)
    site.node("n2", 1)
    four = site.run("f", slice_at("n1", "4g.40gb", 0, 72_000), queue="dev/cut", mig="4g.40gb")
    three = site.run("t", slice_at("n1", "3g.40gb", 4, HALF), queue="dev/cut", mig="3g.40gb")
    hall, half, whole = site.state.pools["hall"], site.admit("h", "ops/half"), site.admit("w", "ops/one")
    assert hall.use[GPU] == GPU_UNITS

    def suffices(job, *gone):
        trial = PlacementAfterPreemption(
            job, site.state.nodes.values(), {}, accounts_of(site.state, job, hall, ()), hall.index.slices
        )
        trial.open_all()
        for victim in gone:
            trial.leave(victim)
        return trial.suffices

    assert [
        suffices(half),
        suffices(half, three),
        suffices(half, four),
        suffices(whole, four),
        suffices(whole, four, three),
    ] == [
        False,
        False,
        True,
        False,
        True,
    ]


def test_a_node_that_is_too_full_even_in_sums_is_looked_at_when_enough_has_left_it():
    hall, (first, second, third, fourth), job = full()
    trial = clearing(hall, job)
    seen = []
    for step, victim in ((trial.leave, first), (trial.come_back, first), (trial.leave, third), (trial.leave, fourth)):
        step(victim)
        seen.append((trial.replicas_on("n1"), trial.replicas_on("n2"), trial.suffices))
    assert seen == [(0, 0, False), (0, 0, False), (0, 0, False), (0, 1, True)]
    trial.come_back(third)
    assert (trial.replicas, trial.suffices, trial.open_all()) == (0, False, {"n1": 0, "n2": 0})
    trial.leave(first)
    trial.leave(second)
    assert trial.places() == (Place(node="n1", devices=shares(0, 4), amounts=gpus(4) | {JOB: 1}),)


def standing(victims):
    return [(victim, site_of(victim)) for victim in victims]


def test_victims_leave_until_it_suffices_and_no_longer():
    hall, victims, job = full(size=2, replicas=2)
    trial = clearing(hall, job)
    assert (trial.leave_until_enough(standing(victims)), trial.replicas, trial.suffices) == (2, 2, True)
    assert trial.leave_until_enough(standing(victims[2:])) == 0
    in_sum = clearing(hall, job)
    in_sum.open_all()
    assert (in_sum.leave_until_enough(standing(victims[:1])), in_sum.suffices) == (1, False)


def test_jobs_that_leave_in_turn_free_as_much_as_one_by_one_and_it_is_said_when_there_may_be_more_room():
    hall, (first, second, third, fourth), job = full(size=4, capacity=gpus(7))
    order = [third, first, fourth, second]
    trial, counts = clearing(hall, job), []
    trial.open_all()
    for left in trial.leave_in_turn(standing(order)):
        one_by_one = clearing(hall, job)
        one_by_one.open_all()
        for victim in order[:left]:
            one_by_one.leave(victim)
        there = (left, trial.replicas_on("n1"), trial.replicas_on("n2"), trial.suffices)
        assert there[1:] == (one_by_one.replicas_on("n1"), one_by_one.replicas_on("n2"), one_by_one.suffices)
        counts.append(there)
    assert counts == [(3, 0, 1, True), (4, 1, 1, True)]
    for victim in order:
        trial.come_back(victim)
    assert (trial.replicas, trial.suffices) == (0, False)


def test_a_gang_with_two_places_on_one_node_leaves_both_at_once():
    hall = Hall(nodes=1, devices=4)
    hall.policy("gang", size=2, replicas=2)
    hall.policy("owner", reservation=4, size=4)
    gang = hall.run("gang", "g", ("n1", 0, 2), ("n1", 2, 2))
    trial = clearing(hall, hall.admit("owner", "o"))
    assert list(trial.leave_in_turn(standing([gang]))) == [1]
    assert (trial.replicas, trial.suffices) == (1, True)
    trial.come_back(gang)
    assert (trial.replicas, trial.suffices) == (0, False)
