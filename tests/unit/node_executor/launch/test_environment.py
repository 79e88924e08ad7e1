from __future__ import annotations

from typing import Any

import pytest

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.arrays import ArrayRange
from headrace.node_executor.files.workspace import Paths
from headrace.node_executor.launch.environment import callback_environment, inherited, job_environment

PATHS = Paths("/d/leases/x", "/d/leases/x/work", "/d/checkpoints/x", "/d/logs/x.log")


def test_little_of_the_executors_environment_goes_through() -> None:
    own = {
        "PATH": "/bin",
        "HOME": "/root",
        "LC_ALL": "C",
        "HEADRACE_NATS_PASSWORD": "secret",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "LD_PRELOAD": "/x.so",
        "CUDA_VISIBLE_DEVICES": "0",
        "SCRATCH": "/scratch",
    }
    assert inherited(own) == {"PATH": "/bin", "HOME": "/root", "LC_ALL": "C"}
    assert inherited(own, ["SCRATCH"])["SCRATCH"] == "/scratch"


def test_an_element_knows_its_index_and_the_extent_of_its_array(make_order) -> None:
    array = ArrayRange(first=1, last=9, step=2)
    order = make_order(job="acme.alice.01j9z3k4m5n6p7q8r9s0t1v2w3-000005", array=array)
    env = job_environment(order, PATHS, {}, {}, {})
    assert {name: value for name, value in env.items() if name.startswith(("HEADRACE_ARRAY", "HEADRACE_JOB_ID"))} == {
        "HEADRACE_JOB_ID": "01j9z3k4m5n6p7q8r9s0t1v2w3-000005",
        "HEADRACE_ARRAY_ID": "01j9z3k4m5n6p7q8r9s0t1v2w3",
        "HEADRACE_ARRAY_INDEX": "5",
        "HEADRACE_ARRAY_COUNT": "5",
        "HEADRACE_ARRAY_FIRST": "1",
        "HEADRACE_ARRAY_LAST": "9",
        "HEADRACE_ARRAY_STEP": "2",
    }


def test_a_job_is_told_all_that_the_interfaces_promise(make_order) -> None:
    order = make_order(
        attempt=2,
        devices=(DeviceShare(device="gpu0", units=126_000), DeviceShare(device="gpu3", units=63_000)),
        resume_from="/ckpt/1",
        env={"EPOCHS": "3"},
    )
    assert job_environment(order, PATHS, {"PATH": "/bin"}, {"CUDA_VISIBLE_DEVICES": "0,3"}, {"TOKEN": "t"}, "00-1-2-01") == {
        "PATH": "/bin",
        "EPOCHS": "3",
        "TOKEN": "t",
        "CUDA_VISIBLE_DEVICES": "0,3",
        "HEADRACE_JOB_ID": "01j9z3k4m5n6p7q8r9s0t1v2w3",
        "HEADRACE_JOB_NAME": "train",
        "HEADRACE_QUEUE": "ai-dev/one",
        "HEADRACE_ATTEMPT": "2",
        "HEADRACE_CHECKPOINT_DIR": "/d/checkpoints/x",
        "HEADRACE_RESUME_FROM": "/ckpt/1",
        "HEADRACE_PREEMPT_FILE": "/d/leases/x/poll/preempt.json",
        "HEADRACE_FINISHED_FILE": "/d/leases/x/finished",
        "HEADRACE_CONTROL_DIR": "/d/leases/x",
        "HEADRACE_DEVICES": "gpu0,gpu3:0.5",
        "HEADRACE_RANK": "0",
        "HEADRACE_REPLICAS": "1",
        "HEADRACE_PEERS": "",
        "RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29613",
        "HEADRACE_TRACEPARENT": "00-1-2-01",
    }


def test_the_owner_cannot_set_what_decides_over_devices_or_belongs_to_headrace(make_order) -> None:
    order = make_order(
        env={
            "CUDA_VISIBLE_DEVICES": "0,1,2,3",
            "NVIDIA_VISIBLE_DEVICES": "all",
            "LD_PRELOAD": "/mine.so",
            "HEADRACE_CONTROL_DIR": "/elsewhere",
            "HEADRACE_TRACEPARENT": "forged",
            "A=B": "c",
            "": "d",
            "CUDA_LAUNCH_BLOCKING": "1",
        }
    )
    env = job_environment(order, PATHS, {}, {"CUDA_VISIBLE_DEVICES": "0"}, {})
    mine = {name: value for name, value in env.items() if not name.startswith(("HEADRACE_", "MASTER_", "RANK", "WORLD_"))}
    assert mine == {"CUDA_VISIBLE_DEVICES": "0", "CUDA_LAUNCH_BLOCKING": "1"}
    assert env["HEADRACE_CONTROL_DIR"] == "/d/leases/x"
    assert "HEADRACE_TRACEPARENT" not in env


def test_the_replicas_of_a_gang_agree_where_they_meet(make_order) -> None:
    peers = ("gpu01", "gpu02")
    envs = [job_environment(make_order(rank=rank, replicas=2, peers=peers), PATHS, {}, {}, {}) for rank in (0, 1)]
    assert [env["RANK"] for env in envs] == ["0", "1"]
    assert [env["HEADRACE_PEERS"] for env in envs] == ["gpu01,gpu02"] * 2
    assert envs[0]["MASTER_ADDR"] == envs[1]["MASTER_ADDR"] == "gpu01"
    assert envs[0]["MASTER_PORT"] == envs[1]["MASTER_PORT"]
    assert 20_000 <= int(envs[0]["MASTER_PORT"]) < 30_000


def test_replicas_on_one_node_meet_on_the_loopback_and_an_address_with_a_port_is_taken_as_it_is(make_order) -> None:
    together = job_environment(make_order(replicas=2, peers=("gpu01", "gpu01")), PATHS, {}, {}, {})
    assert together["MASTER_ADDR"] == "127.0.0.1"
    named = job_environment(make_order(replicas=2, peers=("gpu01:4000", "gpu02:4000")), PATHS, {}, {}, {})
    assert (named["MASTER_ADDR"], named["MASTER_PORT"]) == ("gpu01", "4000")


@pytest.mark.parametrize("network", ["private", "none"])
def test_replicas_in_containers_that_do_not_reach_each_other_get_no_addresses(make_order, network: str) -> None:
    """R44."""
    peers = ("gpu01", "gpu02")

    def where_they_meet(**fields: Any) -> dict[str, str]:
        env = job_environment(make_order(**fields), PATHS, {}, {}, {})
        return {name: value for name, value in env.items() if name in {"MASTER_ADDR", "MASTER_PORT", "HEADRACE_PEERS", "RANK"}}

    gang = {"rank": 1, "replicas": 2, "peers": peers, "image": "trainer:1"}
    assert where_they_meet(**gang, network=network) == {"RANK": "1"}
    assert where_they_meet(**gang, network="host") == where_they_meet(**gang) == where_they_meet(**{**gang, "image": ""})
    assert where_they_meet(**gang)["MASTER_ADDR"] == "gpu01"
    one = where_they_meet(peers=("gpu01",), image="trainer:1", network=network)
    assert (one["MASTER_ADDR"], one["HEADRACE_PEERS"]) == ("127.0.0.1", "gpu01"), "one replica meets itself on its own loopback"


def test_a_callback_knows_its_deadline_and_the_process_of_the_job() -> None:
    assert callback_environment({"A": "1"}, PATHS, 77, 1_700_000_000_999_999) == {
        "A": "1",
        "HEADRACE_PREEMPT_FILE": "/d/leases/x/preempt.json",
        "HEADRACE_PREEMPT_DEADLINE": "1700000000",
        "HEADRACE_JOB_PID": "77",
    }
