"""Idle leases (R39): marks come from measurements alone, idle ones yield as the oracle says, and nothing goes back and forth."""

from __future__ import annotations

from hypothesis import assume, given
from hypothesis import strategies as st

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.values.amounts import GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR, MINUTE, SECOND
from headrace.domain.snapshots import snapshot
from headrace.simulate.scenario import Expect, Moment, Nodes, Scenario, Submit
from headrace.simulate.world import World
from tests.properties.auditor import Auditor
from tests.properties.campaign import histories
from tests.properties.checked_histories import Checked, play
from tests.properties.doubted_searches import ASKED_AT, DoubtedPreemption, check, ground
from tests.properties.reclaim_oracle import Oracle
from tests.properties.rest import unrest
from tests.unit.domain.snapshot import differences, kept, naive

HALF = GPU_UNITS // 2
SIZES = {"half": HALF, "one": GPU_UNITS, "two": 2 * GPU_UNITS, "three": 3 * GPU_UNITS}
LINKS = tuple(d.PolicyProfile(name=name) for name in (*SIZES, "pair"))
PROFILES = (
    *(d.Profile(name=name, request={GPU: units}, pools=("a",)) for name, units in SIZES.items()),
    d.Profile(name="pair", request={GPU: GPU_UNITS}, replicas=2, pools=("a",)),
)
QUIET_AT = 48 * HOUR


@st.composite
def grounds(draw) -> tuple[Scenario, str]:
    """A small pool that lenders have filled, some of whose jobs are idle, and the profile of a job that then asks."""
    row = Nodes(name="n", count=draw(st.integers(1, 2)), labels={"site": "a"}, gpus=draw(st.integers(2, 4)))
    lenders = tuple(
        d.Policy(
            name=name,
            profiles=LINKS,
            priority=draw(st.integers(0, 1)),
            reservation={GPU: draw(st.integers(*reserved)) * HALF},
            idle_after=MINUTE,
            idle=draw(st.sampled_from(["yield", "yield", "yield", "warn"])),
        )
        for name, reserved in (("l1", (3, 8)), ("l2", (0, 2)))
    )
    whole = row.count * row.gpus * GPU_UNITS
    terms = d.PreemptionTerms(preempt_lower_priority=True)
    own = d.Policy(
        name="own", profiles=LINKS, priority=2, reservation={GPU: draw(st.sampled_from([whole, whole, 0]))}, preemption=terms
    )
    held = draw(
        st.lists(
            st.tuples(st.sampled_from(("l1", "l2")), st.sampled_from((*LINKS, LINKS[0], LINKS[1]))), min_size=4, max_size=7
        )
    )
    moments = []
    for number, (lender, link) in enumerate(held):
        submit = Submit(name=f"h{number}", queue=f"{lender}/{link.name}", preemptible=draw(st.integers(0, 5)) > 0)
        moments.append(Moment(at=number * MINUTE, submit=submit))
        if draw(st.booleans()):
            moments.append(Moment(at=number * MINUTE + 30 * SECOND, idle=f"h{number}"))
    documents = d.Documents(pools=(d.Pool(name="a", selector={"site": "a"}),), profiles=PROFILES, policies=(*lenders, own))
    scenario = Scenario(documents=documents, nodes=(row,), timeline=(*moments, Moment(at=ASKED_AT, expect=Expect())))
    return scenario, draw(st.sampled_from((*SIZES, "pair")))


@histories(times=2)
@given(grounds())
def test_idle_victims_are_found_exactly_where_a_set_exists_and_the_others_keep_their_reservation(drawn) -> None:
    state, job, now = ground(*drawn)
    assume(job is not None and not Oracle(state, job, state.pools["a"], now).is_sufficient(()))
    check(state, job, state.pools["a"], now)


@st.composite
def days(draw) -> Scenario:
    """Policies with more reserved than there is, jobs that come and end, and nodes that measure some of them as idle and in use again."""
    row = Nodes(name="n", count=draw(st.integers(1, 2)), labels={"site": "a"}, gpus=draw(st.integers(2, 4)))
    policies = tuple(
        d.Policy(
            name=name,
            profiles=LINKS,
            priority=draw(st.integers(0, 2)),
            reservation={GPU: draw(st.integers(0, 8)) * HALF},
            idle_after=draw(st.sampled_from([None, MINUTE, 10 * MINUTE, HOUR])),
            idle="yield",
            preemption=d.PreemptionTerms(
                on_preempt=draw(st.sampled_from(["requeue", "requeue_last", "suspend"])),
                min_runtime=draw(st.sampled_from([0, 0, 5 * MINUTE])),
                preempt_lower_priority=draw(st.booleans()),
            ),
        )
        for name in ("p1", "p2", "p3")
    )
    moments = []
    count = draw(st.integers(3, 9))
    for number in range(count):
        name, link = f"p{draw(st.integers(1, 3))}", draw(st.sampled_from(LINKS))
        duration = draw(st.sampled_from([None, None, None, HOUR]))
        submit = Submit(
            name=f"j{number}", queue=f"{name}/{link.name}", preemptible=draw(st.integers(0, 5)) > 0, duration=duration
        )
        moments.append(Moment(at=draw(st.integers(0, 300)) * MINUTE, submit=submit))
    began = {moment.submit.name: moment.at for moment in moments if moment.submit is not None}
    for _ in range(draw(st.integers(0, 12))):
        job = f"j{draw(st.integers(0, count - 1))}"
        at = began[job] + draw(st.integers(1, 400)) * MINUTE
        moments.append(Moment(at=at, idle=job) if draw(st.integers(0, 2)) else Moment(at=at, busy=job))
    moments.sort(key=lambda moment: (moment.at, moment.submit is None))
    pool = d.Pool(name="a", selector={"site": "a"}, allow_overcommit=True)
    documents = d.Documents(pools=(pool,), profiles=PROFILES, policies=policies)
    return Scenario(documents=documents, nodes=(row,), timeline=(*moments, Moment(at=QUIET_AT, expect=Expect())))


@histories()
@given(days())
def test_every_mark_frees_at_most_once_and_without_new_measurements_all_comes_to_rest(scenario) -> None:
    world = play(Checked(scenario, judged=False))
    auditor = Auditor()
    for message in world.log.messages_after(0):
        auditor.read(message)
    assert auditor.violations == []
    measured = max((moment.at for moment in scenario.timeline if moment.idle or moment.busy or moment.submit), default=0)
    assert unrest(world.history, measured + 24 * HOUR) == []
    stated = [fact for record in world.history for fact in record.facts]
    marks = [fact for fact in stated if isinstance(fact, f.LeaseIdledV1)]
    assert len({(mark.job, mark.attempt, mark.rank) for mark in marks}) <= len(marks)
    measurements = sum(1 for moment in scenario.timeline if moment.idle)
    assert len(marks) <= measurements * 2  # two replicas at most
    again = snapshot.copy_of(world.state)
    assert differences(kept(again), naive(again)) == []


@histories()
@given(days())
def test_every_search_of_such_histories_finds_what_the_oracle_says(scenario) -> None:
    world = World(scenario, judged=False)
    DoubtedPreemption(world)
    for _ in world.run():
        pass
