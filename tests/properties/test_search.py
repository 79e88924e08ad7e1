"""The search for victims against every set there is (R26): found where one exists, legal, sufficient, and without spare victims.

The naive side knows nothing of the product's search: it goes through all sets and all orders, and places by trying every device.
"""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import MINUTE
from headrace.simulate.scenario import Expect, Moment, Nodes, Scenario, Submit
from tests.properties.campaign import histories
from tests.properties.crowded import crowded
from tests.properties.doubted_searches import ASKED_AT, check, doubt, ground
from tests.properties.histories import scenarios
from tests.properties.reclaim_oracle import Oracle

HALF = GPU_UNITS // 2
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


@histories(times=2)
@given(grounds())
def test_a_set_is_found_exactly_where_one_exists_and_it_is_minimal(drawn) -> None:
    state, job, now = ground(*drawn)
    assume(job is not None and not Oracle(state, job, state.pools["a"], now).is_sufficient(()))
    check(state, job, state.pools["a"], now)


@histories()
@given(scenarios())
def test_so_it_is_for_every_search_of_any_history_over_pools_keys_tenants_and_gangs(scenario) -> None:
    assert doubt(scenario)


@histories()
@given(crowded())
def test_and_for_every_search_in_small_pools_that_are_shared_out(scenario) -> None:
    assert doubt(scenario)
