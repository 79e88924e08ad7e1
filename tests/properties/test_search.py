"""The search for victims against every set there is (R26): found where one exists, legal, sufficient, and without anybody to spare.

The naive side knows nothing of the product's search: it goes through all sets and all orders, and places by trying every device.
"""

from __future__ import annotations

import os
from itertools import chain, combinations, permutations

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from headrace.contracts import documents as d
from headrace.contracts.amounts import GPU, GPU_UNITS
from headrace.contracts.durations import MINUTE
from headrace.domain.state import JobRecord, JobState, PolicyState, State
from headrace.domain.victims import Plan, review, search
from headrace.simulate.scenario import Expect, Moment, Nodes, Scenario, Submit
from headrace.simulate.world import World

SEARCHES = 2 * int(os.environ.get("HEADRACE_HISTORIES", "150"))
HALF = GPU_UNITS // 2
ASKED_AT = 10 * MINUTE
SIZES = {"half": HALF, "one": GPU_UNITS, "two": 2 * GPU_UNITS, "three": 3 * GPU_UNITS}


@st.composite
def grounds(draw) -> tuple[Scenario, str]:
    """A small pool that lenders have filled, and the profile of a job that then asks for its reservation."""
    row = Nodes(name="n", count=draw(st.integers(1, 2)), labels={"site": "a"}, gpus=draw(st.integers(2, 4)))
    whole = row.count * row.gpus * GPU_UNITS
    links = tuple(d.PolicyProfile(name=name) for name in (*SIZES, "pair"))
    lenders = tuple(
        d.Policy(
            name=name,
            profiles=links,
            priority=draw(st.integers(0, 1)),
            reservation={GPU: draw(st.integers(0, 4)) * HALF},
            preemption=d.PreemptionTerms(min_runtime=draw(st.sampled_from([0, 0, 0, 2 * ASKED_AT]))),
        )
        for name in ("l1", "l2")
    )
    own = d.Policy(
        name="own",
        profiles=links,
        priority=2,
        reservation={GPU: draw(st.sampled_from([whole, whole, 0]))},
        preemption=d.PreemptionTerms(preempt_lower_priority=True),
    )
    held = draw(
        st.lists(st.tuples(st.sampled_from(("l1", "l2")), st.sampled_from((*SIZES, "half", "one"))), min_size=2, max_size=7)
    )
    asked = draw(st.sampled_from((*SIZES, "pair")))
    profiles = [d.Profile(name=name, request={GPU: units}, pools=("a",)) for name, units in SIZES.items()]
    profiles.append(d.Profile(name="pair", request={GPU: GPU_UNITS}, replicas=2, pools=("a",)))
    moments = [
        Moment(at=number * MINUTE, submit=Submit(name=f"h{number}", queue=f"{lender}/{size}", preemptible=True))
        for number, (lender, size) in enumerate(held)
    ]
    documents = d.Documents(
        pools=(d.Pool(name="a", selector={"site": "a"}),), profiles=tuple(profiles), policies=(*lenders, own)
    )
    return Scenario(documents=documents, nodes=(row,), timeline=(*moments, Moment(at=ASKED_AT, expect=Expect()))), asked


def ground(scenario: Scenario, asked: str) -> tuple[State, JobRecord | None, int]:
    """The state in which the job is pending and nobody has looked for victims yet."""
    world = World(scenario, judged=False)
    for _ in world.run():
        pass
    world._happen(Moment(at=ASKED_AT, submit=Submit(name="p", queue=f"own/{asked}")))
    world._append("admission", world.admission.decide(world.now))
    return world.state, world.state.jobs.get(world.names["p"]), world.now


def sides_above(policy: PolicyState, gone: int) -> bool:
    return policy.wide.use.get(GPU, 0) - gone > (policy.wide.reservation or {}).get(GPU, 0)


def is_legal(victims: tuple[JobRecord, ...], *, by_priority: bool) -> bool:
    def holds(order: tuple[JobRecord, ...]) -> bool:
        gone: dict[PolicyState, int] = {}
        for victim in order:
            if not sides_above(victim.policy, gone.get(victim.policy, 0)):
                return False
            gone[victim.policy] = gone.get(victim.policy, 0) + victim.request.total[GPU]
        return True

    if by_priority:
        for victim in victims:
            others = sum(other.request.total[GPU] for other in victims if other.policy is victim.policy and other is not victim)
            if not sides_above(victim.policy, others):
                return False
    return any(holds(order) for order in permutations(victims))


def is_sufficient(state: State, job: JobRecord, victims: tuple[JobRecord, ...]) -> bool:
    opens = [device.free for node in state.nodes.values() for device in node.devices]
    names = [(node.name, device.name) for node in state.nodes.values() for device in node.devices]
    for lease in chain.from_iterable(victim.leases.values() for victim in victims):
        for share in lease.devices:
            opens[names.index((lease.node, share.device))] += share.units
    by_node: dict[str, list[int]] = {}
    for (node, _), units in zip(names, opens, strict=True):
        by_node.setdefault(node, []).append(units)
    units, replicas = job.request.amounts[GPU], job.request.replicas
    if units < GPU_UNITS:
        return any(free >= units for free in opens)
    return sum(free.count(GPU_UNITS) // (units // GPU_UNITS) for free in by_node.values()) >= replicas


def candidates(state: State, job: JobRecord, now: int, *, by_priority: bool) -> list[JobRecord]:
    """Who may be taken at all: started long enough ago, of a side that borrows, and, by priority, of a lower one."""
    reserved = (job.policy.wide.reservation or {}).get(GPU, 0)
    if not by_priority and job.policy.wide.use.get(GPU, 0) + job.request.total[GPU] > reserved:
        return []
    return [
        victim
        for victim in state.jobs.values()
        if victim.state is JobState.RUNNING
        and victim.policy is not job.policy
        and victim.started_at + victim.policy.document.preemption.min_runtime <= now
        and sides_above(victim.policy, 0)
    ]


def sets_of(jobs: list[JobRecord]) -> list[tuple[JobRecord, ...]]:
    return [chosen for size in range(1, len(jobs) + 1) for chosen in combinations(jobs, size)]


@settings(max_examples=SEARCHES, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(grounds())
def test_a_set_is_found_exactly_where_one_exists_and_it_is_minimal(drawn) -> None:
    state, job, now = ground(*drawn)
    pool = state.pools["a"]
    assume(job is not None and not is_sufficient(state, job, ()))

    found = search(state, job, pool, now)

    exist = {
        cause: [
            chosen
            for chosen in sets_of(candidates(state, job, now, by_priority=cause == "priority"))
            if is_sufficient(state, job, chosen) and is_legal(chosen, by_priority=cause == "priority")
        ]
        for cause in ("reclaim", "priority")
    }
    cause = next((cause for cause, sets in exist.items() if sets), None)
    if not isinstance(found, Plan):
        assert cause is None, [victim.key for victim in exist[cause or "reclaim"][0]]
        return
    victims = tuple(state.jobs[victim.job] for victim in found.victims)
    assert found.cause == cause
    assert sorted(victim.key for victim in victims) in [sorted(job.key for job in chosen) for chosen in exist[found.cause]]
    assert not any(is_sufficient(state, job, fewer) for fewer in combinations(victims, len(victims) - 1))
    assert review(state, job, pool, found, now) == found.places
