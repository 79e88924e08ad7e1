"""Gangs in racks (R40): no gang is ever placed across domains of the level that it requires, and everything still comes to rest."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.facts import AnyFact, CheckpointRegisteredV1
from headrace.contracts.facts.writers import ALLOCATOR, PREEMPTION
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE
from headrace.domain.explain.wait_reasons import pools_of, wait_in
from headrace.domain.model.jobs import JobRecord
from headrace.domain.model.nodes import NodeState
from headrace.domain.placement.placement import may_hold
from headrace.domain.state.pools import PoolState
from headrace.simulate.scenario import Expect, Moment, Nodes, Scenario, Submit
from headrace.simulate.world import World
from tests.properties.auditor import Auditor
from tests.properties.campaign import histories
from tests.properties.checked_histories import Checked, play
from tests.properties.doubted_allocator import DoubtedAllocator
from tests.properties.doubted_searches import ASKED_AT, check, doubt, ground
from tests.properties.histories import QUIET_AT
from tests.properties.in_racks import in_racks
from tests.properties.oracle_watch import compiled, watch
from tests.properties.reclaim_oracle import Oracle
from tests.properties.rest import GROWTH, rested, unrest, waiting


@histories()
@given(in_racks())
def test_every_history_in_racks_keeps_the_promises_and_comes_to_rest(scenario) -> None:
    world = play(Checked(scenario, judged=False))

    assert Auditor().read_all(world.log.messages_after(0)) == []
    assert unrest(world.history, QUIET_AT - 6 * HOUR, also=(CheckpointRegisteredV1, *GROWTH)) == []
    assert [
        decider.decide(world.now) for decider in (world.admission, world.deciders[ALLOCATOR], world.deciders[PREEMPTION])
    ] == [(), (), ()]


@histories(one_in=2)
@given(in_racks())
def test_an_allocator_that_remembers_nothing_decides_alike_in_racks(scenario) -> None:
    world = World(scenario, judged=False)
    doubted = DoubtedAllocator(world)
    play(world)
    assert doubted.asked


class Placed(World):
    """A world in which the first gang of each record that was granted places by a free choice is held against R40, written out."""

    judged_gangs = 0

    def append(self, by: str, facts: Iterable[AnyFact]) -> bool:
        stated = tuple(facts)
        if by == ALLOCATOR:
            self._judge(stated)
        return super().append(by, stated)

    def _judge(self, facts: tuple[AnyFact, ...]) -> None:
        key = next((fact.job for fact in facts if isinstance(fact, f.LeaseGrantedV1)), None)
        job = self.state.jobs[key] if key is not None else None
        changed = any(isinstance(fact, f.HoldPlacedV1 | f.HoldLiftedV1 | f.ResumeOrderedV1) for fact in facts)
        if job is None or job.request.topology is None or job.request.shape.mig or job.nomination is not None or changed:
            return
        leases = [fact for fact in facts if isinstance(fact, f.LeaseGrantedV1) and fact.job == key]
        if any(hold.pool == leases[0].pool for hold in self.state.holds.values()):
            return
        self.judged_gangs += 1
        domain = best_domain(self.state.pools[leases[0].pool], job)
        assert domain is not None or not job.request.required
        assert domain is None or {lease.node for lease in leases} <= domain


def best_domain(pool: PoolState, job: JobRecord) -> set[str] | None:
    """The nodes of the domain in which the job stands by R40; None: no domain has room."""
    topology, levels = job.request.topology, list(pool.document.topology)
    first = levels.index(topology.require) if topology.require else 0
    last = levels.index(topology.prefer or topology.require)
    for depth in range(last, first - 1, -1):
        capacity: dict[tuple[str, ...], int] = {}
        for node in pool.nodes.values():
            path = tuple(node.labels.get(level, "") for level in levels[: depth + 1])
            if all(path) and may_hold(pool, node, job):
                capacity[path] = capacity.get(path, 0) + capacity_on(node, job)
        fitting = [(count, path) for path, count in capacity.items() if count >= job.request.replicas]
        if fitting:
            _, best = min(fitting)
            wanted = dict(zip(levels, best, strict=False))
            return {node.name for node in pool.nodes.values() if wanted.items() <= node.labels.items()}
    return None


def capacity_on(node: NodeState, job: JobRecord) -> int:
    """Replicas that a node takes now, device by device."""
    shape, opens = job.request.shape, [device.open for device in node.devices]
    counts = [node.cpu_open // shape.cpu if shape.cpu else 1_000, node.memory_open // shape.memory if shape.memory else 1_000]
    if shape.whole:
        counts.append(opens.count(GPU_UNITS) // shape.whole)
    if shape.fraction:
        counts.append(sum(units // shape.fraction for units in opens))
    return min(counts)


@histories()
@given(in_racks())
def test_a_gang_goes_into_the_narrowest_domain_with_room_and_there_into_the_fullest(scenario) -> None:
    play(Placed(scenario, judged=False))


@compiled
@histories(one_in=2)
@given(in_racks())
def test_every_round_in_racks_grants_what_a_look_at_everything_would(scenario) -> None:
    watch(scenario)


@histories()
@given(in_racks())
def test_every_search_for_victims_in_racks_finds_a_set_exactly_where_there_is_one(scenario) -> None:
    assert doubt(scenario)


@histories()
@given(in_racks())
def test_at_rest_something_is_in_the_way_of_every_job_in_racks(scenario) -> None:
    world = rested(scenario)
    pools = [(job, pool) for job in waiting(world) for pool in pools_of(world.state, job)]
    assert [job.key for job, pool in pools if wait_in(world.state, job, pool, world.now) is None] == []


@st.composite
def lent_racks(draw) -> tuple[Scenario, str]:
    """Four to six nodes in two or three racks that lenders have filled, and a gang that then asks for its reservation within one rack."""
    racks = draw(st.lists(st.sampled_from(("r1", "r2", "r3")), min_size=4, max_size=6))
    nodes = tuple(Nodes(name=f"n{place}", labels={"site": "a", "rack": rack}, gpus=1) for place, rack in enumerate(racks))
    profiles = (
        d.Profile(name="one", request={GPU: GPU_UNITS}, pools=("a",)),
        d.Profile(name="half", request={GPU: GPU_UNITS // 2}, pools=("a",)),
        d.Profile(name="pair", request={GPU: GPU_UNITS}, replicas=2, pools=("a",), topology=d.Topology(require="rack")),
    )
    links = tuple(d.PolicyProfile(name=profile.name) for profile in profiles)
    reserved = draw(st.integers(0, 2)) * GPU_UNITS
    lenders = tuple(
        d.Policy(
            name=name, profiles=links, priority=draw(st.integers(0, 1)), reservation={GPU: reserved if name == "l1" else 0}
        )
        for name in ("l1", "l2")
    )
    own = d.Policy(name="own", profiles=links, priority=2, reservation={GPU: 2 * GPU_UNITS})
    held = draw(
        st.lists(st.tuples(st.sampled_from(("l1", "l2")), st.sampled_from(("one", "one", "half"))), min_size=4, max_size=7)
    )
    moments = [
        Moment(at=number * MINUTE, submit=Submit(name=f"h{number}", queue=f"{lender}/{size}", preemptible=draw(st.booleans())))
        for number, (lender, size) in enumerate(held)
    ]
    pool = d.Pool(name="a", selector={"site": "a"}, topology=("rack",))
    documents = d.Documents(pools=(pool,), profiles=profiles, policies=(*lenders, own))
    return Scenario(documents=documents, nodes=nodes, timeline=(*moments, Moment(at=ASKED_AT, expect=Expect()))), "pair"


@histories(times=2)
@given(lent_racks())
def test_victims_make_room_in_one_rack_exactly_where_a_set_does_and_it_is_minimal(drawn) -> None:
    state, job, now = ground(*drawn)
    assume(job is not None and not Oracle(state, job, state.pools["a"], now).is_sufficient(()))
    check(state, job, state.pools["a"], now)
