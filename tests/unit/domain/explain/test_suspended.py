"""Why a suspended job does not go on: what is in its way, where else it may go, and until when it waits (R22, R29)."""

from __future__ import annotations

import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Policy, PolicyProfile, PreemptionTerms
from headrace.contracts.facts.fact import DeviceShare, Place
from headrace.contracts.values.amounts import GPU_UNITS, JOB
from headrace.contracts.values.durations import HOUR, SECOND, format_time
from headrace.domain.explain.explain import explain
from tests.unit.domain.hall import Hall, gpus

TERMS = PreemptionTerms(on_preempt="suspend", suspend_max=HOUR)


class Suspended(Hall):
    """`v` is suspended on the only device of a node; `own` has it now, for `span` seconds if that is known."""

    def __init__(self, *, saved: bool = True, span: int | None = None, tenant: str = "acme") -> None:
        super().__init__(nodes=1, devices=1)
        self.policy("low", size=1, terms=TERMS)
        self.policy("own", size=1, tenant=tenant)
        self.job = self.run("low", "v", ("n1", 0, 1))
        if saved:
            self.append_facts("node.n1", f.CheckpointRegisteredV1(job=self.job.key, attempt=1, uri="c", at=0))
        self.stop(self.job, "preempted", "suspend")
        self.append_facts("node.n1", f.LeaseSuspendedV1(job=self.job.key, attempt=1, rank=0, at=0, how="sigstop"))
        self.latest = self.now + HOUR
        self.other = self.run("own", "o", ("n1", 0, 1), tenant=tenant, time_limit=None if span is None else span * SECOND)

    def why(self):
        return explain(self.state, self.job, self.now)


def message(hall: Suspended, obstacle: str, another_place: str) -> str:
    latest = f"it is stopped and waits in line again at {format_time(hall.latest)} at the latest"
    return f"it is suspended, and goes on when its devices are free again: n1/g0 ({obstacle}); {another_place}; {latest}"


OTHER_PLACES = "it goes on elsewhere, from its checkpoint, as soon as it is given another place"
NOWHERE = "it has no checkpoint, so it goes on nowhere else"


@pytest.mark.parametrize(("saved", "another_place"), [(True, OTHER_PLACES), (False, NOWHERE)])
def test_it_names_who_has_its_device_and_the_date_at_the_latest(saved, another_place):
    hall = Suspended(saved=saved)

    why = hall.why()

    assert (why.state, why.message) == ("suspended", message(hall, "held by other jobs", another_place))
    assert (why.blockers, why.expected_start) == ((hall.other.key,), hall.latest)


def test_it_is_expected_to_go_on_when_the_job_on_its_device_ends_if_that_is_known_to_be_before():
    hall = Suspended(span=600)
    later = Suspended(span=7_200)

    assert (hall.why().expected_start, later.why().expected_start) == (hall.now + 600 * SECOND, later.latest)


def test_another_tenants_job_is_a_sum_and_never_a_name():
    assert Suspended(tenant="rival").why().blockers == ("other tenants: 1 GPUs",)


@pytest.mark.parametrize(
    ("fact", "obstacle"),
    [
        (f.NodeCordonedV1(author="a.b", node="n1"), "nothing is granted on n1: cordoned by a.b"),
        (f.NodeStoppedV1(node="n1", at=0), "nothing is granted on n1: its node has stopped"),
        (
            f.PolicyAppliedV1(
                author="a.b",
                policy=Policy(
                    tenant="acme", name="low", profiles=(PolicyProfile(name="low"),), limit=gpus(0), preemption=TERMS
                ),
            ),
            "policy acme/low uses 0 gpu of a limit of 0, it asks for 1",
        ),
        (
            f.PolicyAppliedV1(
                author="a.b",
                policy=Policy(
                    tenant="acme",
                    name="low",
                    profiles=(PolicyProfile(name="low", borrow=False),),
                    reservation={},
                    preemption=TERMS,
                ),
            ),
            "policy acme/low uses 0 gpu of a reservation of 0, it asks for 1",
        ),
    ],
)
def test_it_says_what_else_is_in_the_way(fact, obstacle):
    hall = Suspended()
    hall.end(hall.other)
    hall.append_facts("node.n1" if isinstance(fact, f.NodeStoppedV1) else "governance", fact)

    assert hall.why().message == message(hall, obstacle, OTHER_PLACES)


def test_it_says_when_the_preemptor_goes_first_and_when_nothing_is_in_the_way():
    hall = Suspended()
    hall.end(hall.other)
    free = hall.why()
    hall.job.barred_from = "hall"
    hall.state.barred = {hall.other.key: [hall.job]}

    assert free.message == message(hall, "the allocator looks at it next", OTHER_PLACES)
    assert hall.why().message == message(hall, f"it made room for {hall.other.key}, which goes first", OTHER_PLACES)


def test_one_that_moves_says_where_it_goes_on():
    hall = Suspended()
    hall.node("n2", devices=1)
    place = Place(node="n2", devices=(DeviceShare(device="g0", units=GPU_UNITS),), amounts=gpus(1) | {JOB: 1})
    hall.append_facts("allocator", f.MoveOrderedV1(job=hall.job.key, attempt=1, pool="hall", places=(place,)))
    hall.stop(hall.job, "moved", "requeue")

    assert hall.why().message == "it is being stopped (moved) and goes on from its checkpoint on n2 of pool hall"

    hall.end(hall.job, outcome="killed", exit_code=137)
    hall.append_facts("allocator", f.JobRequeuedV1(job=hall.job.key, attempt=1, cause="moved"))
    why = hall.why()
    assert (why.reason, why.reclaim.could, why.expected_start) == ("WAITING_FOR_PREEMPTION", False, hall.now)
