"""R42: what an amount of GPU memory is of each model of a profile's pools."""

from __future__ import annotations

from headrace.contracts import facts as f
from headrace.contracts.documents.model import Burst, BurstNode, Dedication, Owner, Pool, Profile
from headrace.contracts.values.amounts import CPU, GPU, GPU_MEMORY, GPU_UNITS
from headrace.contracts.values.gpu_memory import ModelShare
from headrace.domain.state.gpu_shares import asked_by, most_of, shares_of, with_share
from tests.unit.domain.hall import Hall

GIB = 1024
LARGE, SMALL = "H100-80GB", "A100-40GB"


def asking(gigabytes: int, *models: str, pools: tuple[str, ...] = ("hall",)) -> Profile:
    return Profile(name="p", request={GPU_MEMORY: gigabytes * GIB, CPU: 1}, gpu_models=models, pools=pools)


def shares(hall: Hall, profile: Profile, policy: tuple[str, str] | None = None):
    pools = [hall.state.pools[name] for name in profile.pools if name in hall.state.pools]
    return shares_of(pools, profile, policy, profile.request[GPU_MEMORY])


def a_hall() -> Hall:
    hall = Hall(nodes=1)
    hall.node("small", model=SMALL, gpu_memory=40 * GIB)
    return hall


def test_models_without_an_order_are_tried_by_the_smaller_share():
    assert shares(a_hall(), asking(20)) == (
        ModelShare(model=LARGE, gpu=254 * 126),
        ModelShare(model=SMALL, gpu=513 * 126),
    )


def test_the_order_of_the_profile_goes_before_the_size_of_shares():
    assert [share.model for share in shares(a_hall(), asking(20, SMALL, LARGE))] == [SMALL, LARGE]


def test_a_model_that_is_too_small_or_not_named_is_left_out():
    hall = a_hall()
    assert [share.model for share in shares(hall, asking(41))] == [LARGE]
    assert [share.model for share in shares(hall, asking(20, SMALL))] == [SMALL]


def test_an_earlier_pool_goes_before_a_smaller_share():
    hall = a_hall()
    hall.append_facts("governance", f.PoolAppliedV1(author="a.b", pool=Pool(name="other", selector={"site": "x"})))
    hall.node("first", model=SMALL, labels={"site": "x"}, gpu_memory=40 * GIB)
    assert [share.model for share in shares(hall, asking(20, pools=("other", "hall")))] == [SMALL, LARGE]


def test_the_smallest_gpu_of_a_model_counts():
    hall = Hall(nodes=1)
    hall.node("worse", model=LARGE, gpu_memory=40 * GIB)
    assert shares(hall, asking(20)) == (ModelShare(model=LARGE, gpu=513 * 126),)


def test_a_gpu_in_mig_mode_gives_the_slice_with_the_smallest_charge():
    hall = Hall(nodes=0)
    hall.node("cut", mig=True)
    assert shares(hall, asking(18)) == (ModelShare(model=LARGE, gpu=GPU_UNITS // 4, mig="1g.20gb"),)
    assert shares(hall, asking(19)) == (ModelShare(model=LARGE, gpu=GPU_UNITS // 2, mig="3g.40gb"),)
    assert (
        shares(hall, asking(73))
        == "it asks for 73GiB of GPU memory, and no one GPU of its pools gives that: H100-80GB in MIG mode 80GiB"
    )


def test_dedicated_nodes_count_for_their_owner_only():
    hall = Hall(nodes=1, dedicated=(Dedication(selector={"for": "x"}, to=Owner(tenant="acme")),))
    hall.node("own", model=SMALL, labels={"site": "hq", "for": "x"}, gpu_memory=40 * GIB)
    assert [share.model for share in shares(hall, asking(20), ("acme", "q"))] == [LARGE, SMALL]
    assert [share.model for share in shares(hall, asking(20), ("other", "q"))] == [LARGE]


def test_nodes_that_the_pool_may_create_have_what_the_name_of_their_model_promises():
    burst = Burst(provider="local", node=BurstNode(gpus=1, gpu_model=SMALL), max_nodes=1)
    hall = Hall(nodes=0, burst=burst)
    assert shares(hall, asking(20)) == (ModelShare(model=SMALL, gpu=552 * 126),)


def test_before_a_gpu_is_known_there_is_no_share():
    hall = Hall(nodes=0)
    assert shares(hall, asking(20)) == "it asks for 20GiB of GPU memory, and no GPU is known in hall yet"
    assert shares(hall, asking(20, LARGE)) == "it asks for 20GiB of GPU memory, and no GPU H100-80GB is known in hall yet"


def test_a_profile_takes_its_smallest_share_at_the_least():
    hall = a_hall()
    assert asked_by(hall.state, asking(20, SMALL, LARGE)) == {CPU: 1, GPU: 254 * 126}
    assert asked_by(hall.state, asking(99)) == {CPU: 1, GPU: GPU_UNITS}
    assert most_of(hall.state, asking(20)) == {CPU: 1, GPU_MEMORY: 20 * GIB}
    assert with_share({CPU: 1, GPU_MEMORY: 5}, ModelShare(model=LARGE, gpu=7)) == {CPU: 1, GPU: 7}
