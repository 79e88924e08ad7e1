"""R13: what can ever run, and why not."""

import msgspec
import pytest

from headrace.contracts import facts as f
from headrace.contracts.documents import model as d
from headrace.contracts.documents.model import Share, Tenant
from headrace.contracts.facts.nodes import Device
from headrace.contracts.values.amounts import CPU, GPU, GPU_UNITS
from headrace.contracts.values.durations import HOUR
from headrace.contracts.values.isolation import CONTAINED, UNABLE
from headrace.contracts.values.reasons import RejectReason
from headrace.domain.model.requests import intern_request, is_steady, make_request
from headrace.domain.queueing.admissible import Rejection, never_fits, time_limit_of
from tests.unit.domain.hall import Hall, gpus
from tests.unit.domain.site import policy, profile
from tests.unit.provisioner.cloud import Cloud


def judge(hall, policy, amounts, *, replicas=1, preemptible=True, beyond=False):
    profile = hall.state.profile("acme", policy.document.name)
    request = intern_request(hall.state.requests, amounts, replicas, profile)
    return never_fits(hall.state, policy, profile, request, preemptible=preemptible, beyond=beyond)


def test_what_fits_an_empty_pool_is_admitted_although_everything_is_taken_now():
    hall = Hall(nodes=1, devices=2)
    policy = hall.policy("p", size=2)
    hall.run("p", "j1", ("n1", 0, 2))
    assert judge(hall, policy, gpus(2)) is None


@pytest.mark.parametrize(
    ("amounts", "replicas", "reason"),
    [
        (gpus(9), 1, RejectReason.EXCEEDS_POOL_CAPACITY),
        (gpus(1) | {"license/x": 1}, 1, RejectReason.EXCEEDS_POOL_CAPACITY),
        (gpus(5), 1, RejectReason.NO_SUITABLE_NODE),
        (gpus(4), 2, None),
        (gpus(3), 2, None),
        (gpus(1) | {"cpu": 65_000}, 1, RejectReason.NO_SUITABLE_NODE),
    ],
)
def test_hardware_is_looked_at_as_if_it_were_empty(amounts, replicas, reason):
    hall = Hall(nodes=2, devices=4)
    found = judge(hall, hall.policy("p"), amounts, replicas=replicas)
    assert (found.reason if found else None) == reason


@pytest.mark.parametrize("keys", [("gpu", "license/x"), ("license/x", "gpu")])
def test_which_of_several_keys_is_told_does_not_depend_on_how_they_were_written(keys):
    hall = Hall(nodes=2, devices=4)
    asked = {"gpu": 9 * GPU_UNITS, "license/x": 1}
    profile = hall.state.profile("acme", hall.policy("p").document.name)
    request = make_request({key: asked[key] for key in keys}, 1, profile)
    found = never_fits(hall.state, hall.state.policies["acme", "p"], profile, request, preemptible=True, beyond=False)
    assert found == Rejection(RejectReason.EXCEEDS_POOL_CAPACITY, "it asks for 9 gpu, pool hall has 8")


def test_a_request_that_equals_the_limit_passes_and_one_more_does_not():
    hall = Hall()
    policy = hall.policy("p", limit=4)
    assert judge(hall, policy, gpus(4)) is None
    assert judge(hall, policy, gpus(5)) == Rejection(
        RejectReason.EXCEEDS_POLICY_LIMIT, "it asks for 5 gpu, the limit of policy acme/p is 4"
    )
    assert judge(hall, policy, gpus(5), beyond=True) is None


def test_no_policy_is_beyond_the_tenants_limit():
    hall = Hall()
    policy = hall.policy("p")
    tenant = Tenant(name="acme", shares=(Share(pool="hall", limit=gpus(3)),))
    hall.append_facts("governance", f.TenantAppliedV1(author="a.b", tenant=tenant))
    assert judge(hall, policy, gpus(4), beyond=True).reason is RejectReason.EXCEEDS_TENANT_LIMIT


def test_without_being_preemptible_a_job_has_to_fit_the_reservation_and_equality_passes():
    hall = Hall()
    policy = hall.policy("p", reservation=2)
    assert judge(hall, policy, gpus(2), preemptible=False) is None
    assert judge(hall, policy, gpus(3), preemptible=False).reason is RejectReason.EXCEEDS_RESERVATION


def test_before_the_first_node_has_registered_nothing_is_known_about_hardware():
    hall = Hall(nodes=0)
    policy = hall.policy("p", limit=8)
    assert judge(hall, policy, gpus(8)) is None
    assert judge(hall, policy, gpus(9)).reason is RejectReason.EXCEEDS_POLICY_LIMIT


def test_a_profile_whose_pools_are_all_gone_can_run_nowhere():
    hall = Hall()
    policy = hall.policy("p")
    hall.append_facts("governance", f.PoolDeletedV1(author="a.b", name="hall"))
    assert judge(hall, policy, gpus(1)).reason is RejectReason.NO_SUITABLE_NODE


def test_a_profile_that_wants_better_isolation_than_any_node_has_is_told_how_good_the_best_is():
    hall = Hall()
    policy = hall.policy("p")
    profile = msgspec.structs.replace(hall.state.profile("acme", "p"), isolation="kernel")
    request = make_request(gpus(1), 1, profile)
    rejection = never_fits(hall.state, policy, profile, request, preemptible=True, beyond=False)
    assert rejection == (
        RejectReason.NO_SUITABLE_NODE,
        "its profile wants isolation kernel at the least, the nodes of pool hall reach watchdog",
    )
    half = make_request({GPU: GPU_UNITS // 2}, 1, msgspec.structs.replace(profile, isolation="any"))
    assert never_fits(hall.state, policy, profile, half, preemptible=True, beyond=False) is None
    inside = make_request(gpus(1), 1, profile, contained=True)
    assert never_fits(hall.state, policy, profile, inside, preemptible=True, beyond=False).message == (
        "its profile wants isolation kernel at the least, the nodes of pool hall reach watchdog in containers"
    )


@pytest.mark.parametrize(
    ("amounts", "what"), [(gpus(1), "a job"), ({GPU: GPU_UNITS // 2}, "a part of a GPU"), ({CPU: 1}, "a job")]
)
def test_a_job_with_an_image_is_told_where_no_node_runs_containers(amounts, what):
    hall = Hall(nodes=0)
    policy = hall.policy("p")
    device = Device(device="gpu0", model="GPU", memory=1)
    registered = f.NodeRegisteredV1(
        node="n1",
        devices=(device,),
        cpu=8_000,
        memory=8_000,
        levels=dict.fromkeys(CONTAINED, UNABLE),
        at=1,
        labels={"site": "hq"},
    )
    hall.append_facts("node.n1", registered)
    request = make_request(amounts, 1, None, contained=True)
    rejection = never_fits(hall.state, policy, hall.state.profile("acme", "p"), request, preemptible=True, beyond=False)
    assert rejection == (
        RejectReason.NO_SUITABLE_NODE,
        f"it has an image, and no node of pool hall can run {what} in a container",
    )


@pytest.mark.parametrize(
    ("of_policy", "of_profile", "asked", "given"),
    [
        ((None, None), (None, None), None, None),
        ((None, None), (None, None), 7, 7),
        ((4, None), (3, None), None, 4),
        ((None, None), (3, 5), None, 3),
        ((9, 9), (3, 5), None, 5),
        ((None, 6), (None, 5), None, 5),
        ((None, 6), (None, 5), 5, 5),
    ],
)
def test_a_job_without_a_time_limit_gets_a_default_and_never_more_than_the_maximums(of_policy, of_profile, asked, given):
    hours = [[None if limit is None else limit * HOUR for limit in limits] for limits in (of_policy, of_profile)]
    (default, most), (default_there, most_there) = hours
    law = policy("dev", default_time_limit=default, max_time_limit=most)
    found = time_limit_of(
        law, profile("one", default_time_limit=default_there, max_time_limit=most_there), asked and asked * HOUR
    )
    assert found == (given and given * HOUR)


def test_a_time_limit_above_a_maximum_is_refused_by_name():
    law, one = policy("dev", max_time_limit=6 * HOUR), profile("one", max_time_limit=5 * HOUR)
    assert time_limit_of(law, one, 7 * HOUR) == (
        "BEYOND_PROFILE",
        "time_limit: 7h is asked for, profile one allows at most 5h",
    )
    assert time_limit_of(law, profile("one"), 7 * HOUR) == (
        "EXCEEDS_POLICY_LIMIT",
        "time_limit: 7h is asked for, policy default/dev allows at most 6h",
    )


ON_DEMAND, ONLY_SPOT = (d.Offer(name="spot", market="spot"), d.Offer(name="plain")), (d.Offer(name="spot", market="spot"),)


@pytest.mark.parametrize(
    ("offers", "by_hand", "preemptible", "never"),
    [
        (ON_DEMAND, False, False, False),  # the spot instance leaves, and another one comes
        (ON_DEMAND, True, False, True),  # the node stays
        (ONLY_SPOT, False, False, True),
        (ONLY_SPOT, False, True, False),
    ],
)
def test_a_pool_full_of_spot_instances_may_still_run_what_must_not_be_interrupted(offers, by_hand, preemptible, never):  # R38
    site = Cloud(offers=offers, max_nodes=1)
    site.law(profile("one", pools=("cloud",), gpu_models=("H100",)))
    if by_hand:
        site.node("mine", pool="cloud", model="A100")
    else:
        site.joined()
    state, asked = site.state, site.state.profile("default", "one")
    steady = is_steady(asked, state.terms.level, preemptible=preemptible)
    request = make_request(asked.request, 1, asked, steady=steady)
    found = never_fits(state, state.policies["default", "dev"], asked, request, preemptible=True, beyond=False)
    assert (found.reason if found else None) == (RejectReason.NO_SUITABLE_NODE if never else None)
