"""What engines are asked for."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.contracts.documents.model import Mount
from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.amounts import GPU_UNITS
from headrace.node_executor.devices.nvml import NvmlDevices
from headrace.node_executor.devices.nvml_library import Nvml
from headrace.node_executor.devices.simulated import simulated
from headrace.node_executor.runtimes import Container, Launch, container_request
from headrace.node_executor.runtimes.container_request import INIT, creation, describe_devices, description, device_names
from headrace.node_executor.runtimes.job_log import Output
from headrace.node_executor.system.accounts import UserAccount


def asked(*, podman: bool, network: str = "private", **fields: Any) -> tuple[str, dict[str, Any]]:
    output = Output("/log", 1)
    mounts = (Mount(source="/srv/sets", target="/data"), Mount(source="/scratch", target="/scratch", read_only=False))
    container = Container(
        "trainer:1",
        ("/control", "/ckpt"),
        ("nvidia.com/gpu=GPU-1",),
        cpu=2_500,
        memory=64,
        pids=100,
        mounts=mounts,
        network=network,
    )
    launch = Launch("x.1.0", ("python", "train.py"), {"A": "b"}, "/work", "/control", output, container=container, **fields)
    return creation(launch, podman=podman, init="/native/init", owner="n:/data")


def test_an_engine_is_asked_for_exactly_what_was_granted() -> None:
    where, body = asked(podman=False, account=UserAccount(77, 78, "alice", (109,)))
    assert where == "/containers/create?name=headrace-x.1.0"
    host = body.pop("HostConfig")
    assert body == {
        "Image": "trainer:1",
        "Entrypoint": [INIT, "python", "train.py"],
        "Cmd": [],
        "Env": ["A=b"],
        "WorkingDir": "/work",
        "User": "77:78",
        "Labels": {"headrace.lease": "x.1.0", "headrace.executor": "n:/data"},
        "StopSignal": "SIGTERM",
    }
    assert host["Binds"] == [
        "/control:/control",
        "/ckpt:/ckpt",
        "/srv/sets:/data:ro",
        "/scratch:/scratch",
        f"/native/init:{INIT}:ro",
    ]
    assert host["Init"] is False
    assert (host["NanoCpus"], host["Memory"], host["MemorySwap"], host["PidsLimit"]) == (2_500_000_000, 67108864, 67108864, 100)
    assert host["DeviceRequests"] == [{"Driver": "cdi", "DeviceIDs": ["nvidia.com/gpu=GPU-1"]}]
    assert (host["CapDrop"], host["SecurityOpt"], host["GroupAdd"]) == (["ALL"], ["no-new-privileges"], ["109"])


def test_podman_is_asked_for_the_same_by_its_own_api_which_takes_names_of_devices() -> None:
    where, body = asked(podman=True, account=UserAccount(77, 78, "alice", (109,)))
    assert where == "/v4.0.0/libpod/containers/create"
    mounts = [(one["source"], one["destination"], one["options"]) for one in body.pop("mounts")]
    assert mounts == [
        ("/control", "/control", ["rbind", "rw"]),
        ("/ckpt", "/ckpt", ["rbind", "rw"]),
        ("/srv/sets", "/data", ["rbind", "ro"]),
        ("/scratch", "/scratch", ["rbind", "rw"]),
        ("/native/init", INIT, ["rbind", "ro"]),
    ]
    assert body == {
        "name": "headrace-x.1.0",
        "image": "trainer:1",
        "entrypoint": [INIT, "python", "train.py"],
        "command": [],
        "env": {"A": "b"},
        "work_dir": "/work",
        "user": "77:78",
        "groups": ["109"],
        "labels": {"headrace.lease": "x.1.0", "headrace.executor": "n:/data"},
        "stop_signal": 15,
        "init": False,
        "netns": {"nsmode": "bridge"},
        "networks": {"headrace": {}},
        "cap_drop": ["ALL"],
        "no_new_privileges": True,
        "log_configuration": {"driver": "k8s-file", "size": 1},
        "devices": [{"path": "nvidia.com/gpu=GPU-1"}],
        "resource_limits": {
            "cpu": {"quota": 250_000, "period": 100_000},
            "memory": {"limit": 67_108_864, "swap": 67_108_864},
            "pids": {"limit": 100},
        },
    }


@pytest.mark.parametrize(("network", "dockers"), [("private", "headrace"), ("host", "host"), ("none", "none")])
def test_an_engine_is_told_the_network_by_name_so_that_no_setting_of_its_own_changes_it(network: str, dockers: str) -> None:
    """R44."""
    assert asked(podman=False, network=network)[1]["HostConfig"]["NetworkMode"] == dockers
    body = asked(podman=True, network=network)[1]
    found = body["netns"], body.get("networks")
    assert found == (({"nsmode": "bridge"}, {"headrace": {}}) if network == "private" else ({"nsmode": network}, None))


def test_devices_are_named_as_cdi_names_them(machine) -> None:
    devices = NvmlDevices(Nvml(), lambda: 0)
    whole = DeviceShare(device="GPU-a1b2c300", units=GPU_UNITS)
    [name] = device_names(devices, [whole], "x.1.0")
    assert name.startswith("nvidia.com/gpu=GPU-a1b2c300-")
    piece = DeviceShare(device="GPU-a1b2c300", units=GPU_UNITS // 7, mig="1g.10gb")
    assert device_names(devices, [piece], "x.1.0") == ("headrace.local/gpu=x.1.0",)
    assert device_names(simulated("1xL4"), [DeviceShare(device="gpu0", units=GPU_UNITS)], "x.1.0") == ()
    assert device_names(devices, [], "x.1.0") == ()
    devices.close()


def test_a_slice_is_described_by_its_device_nodes_and_what_every_gpu_needs() -> None:
    mounts = [{"hostPath": "/lib/libcuda.so.1", "containerPath": "/lib/libcuda.so.1"}]
    assert description("x.1.0", ["/dev/nvidia0"], {"mounts": mounts, "deviceNodes": [{"path": "/dev/nvidiactl"}]}) == {
        "cdiVersion": "0.3.0",
        "kind": "headrace.local/gpu",
        "devices": [
            {
                "name": "x.1.0",
                "containerEdits": {"mounts": mounts, "deviceNodes": [{"path": "/dev/nvidiactl"}, {"path": "/dev/nvidia0"}]},
            }
        ],
    }


def test_where_nothing_says_what_a_container_needs_for_a_slice_it_is_not_started(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(container_request, "PLACES", (f"{tmp_path}/nvidia.json",))
    container = Container("trainer:1", devices=("headrace.local/gpu=x.1.0",), nodes=("/dev/nvidia0",))
    launch = Launch("x.1.0", ("train",), {}, "/work", "/control", Output("/log", 1), container=container)
    with pytest.raises(OSError, match="run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.json"):
        describe_devices(launch)
