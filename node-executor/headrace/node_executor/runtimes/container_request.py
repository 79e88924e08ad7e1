"""Bodies of requests to a container engine: create a container, run a command in one, and describe its devices."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Sequence
from typing import Any

from headrace.contracts.facts.fact import DeviceShare
from headrace.node_executor.devices import Devices
from headrace.node_executor.runtimes import Launch

CDI = "/var/run/cdi"
INIT = "/.headrace-init"
"""Path of the first process inside the container."""

LEASE, OWNER = "headrace.lease", "headrace.executor"
"""Labels of a container: the name of its lease here, and the executor."""

MIB = 1024 * 1024


def creation(launch: Launch, *, podman: bool, init: str = "", owner: str = "") -> dict[str, Any]:
    """Return the body of a request for a container (Docker's API, 1.41 and newer). `init` and `owner`: see `ContainerRuntime`.

    The engine's own log is read only after the engine was away, and has as much room as the job's log.
    """
    asked = launch.container
    if asked is None:
        raise AssertionError("a container needs an image")
    host: dict[str, Any] = {
        "Binds": [f"{path}:{path}" for path in asked.binds]
        + [f"{mount.source}:{mount.target}{':ro' if mount.read_only else ''}" for mount in asked.mounts]
        + ([f"{init}:{INIT}:ro"] if init else []),
        "NetworkMode": "host",
        "Init": not init,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "LogConfig": {"Type": "json-file", "Config": {"max-size": str(launch.output.limit), "max-file": "2"}},
        "GroupAdd": [] if launch.account is None else [str(number) for number in launch.account.groups],
        "PidsLimit": asked.pids or None,
        "NanoCpus": asked.cpu * 1_000_000,
        "Memory": asked.memory * MIB,
        "MemorySwap": asked.memory * MIB,
    }
    if podman:
        host["LogConfig"] = {"Type": "k8s-file", "Config": {"max-size": str(launch.output.limit)}}
        host["Devices"] = [{"PathOnHost": name, "PathInContainer": name, "CgroupPermissions": "rwm"} for name in asked.devices]
    elif asked.devices:
        host["DeviceRequests"] = [{"Driver": "cdi", "DeviceIDs": list(asked.devices)}]
    return {
        "Image": asked.image,
        "Entrypoint": [*([INIT] if init else ()), *launch.command],
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in launch.env.items()],
        "WorkingDir": launch.directory,
        "User": f"{os.geteuid()}:{os.getegid()}" if launch.account is None else f"{launch.account.uid}:{launch.account.gid}",
        "Labels": {LEASE: launch.name, OWNER: owner},
        "StopSignal": "SIGTERM",
        "HostConfig": host,
    }


def execution(launch: Launch) -> dict[str, Any]:
    """Return the body of a request for a command in a running container; the job is process 1 there."""
    return {
        "Cmd": list(launch.command),
        "Env": [f"{name}={value}" for name, value in {**launch.env, "HEADRACE_JOB_PID": "1"}.items()],
        "WorkingDir": launch.directory,
        "AttachStdout": True,
        "AttachStderr": True,
    }


def device_names(devices: Devices, shares: Sequence[DeviceShare], name: str) -> tuple[str, ...]:
    """Return the CDI names of granted devices: NVIDIA's own names for GPUs; slices have one that this executor describes."""
    if not shares or devices.labels.get("gpu.vendor") not in {"nvidia", "amd"}:
        return ()
    if any(share.mig for share in shares) or devices.labels["gpu.vendor"] == "amd":
        return (f"headrace.local/gpu={name}",)
    seen = devices.environment(shares).get("CUDA_VISIBLE_DEVICES", "")
    return tuple(f"nvidia.com/gpu={uuid}" for uuid in seen.split(",") if uuid)


def description(name: str, nodes: Sequence[str], edits: dict[str, Any]) -> dict[str, Any]:
    """Return a CDI specification of one device of our own: these device nodes, and the `edits` for every container with a GPU."""
    own = {"name": name, "containerEdits": {"deviceNodes": [{"path": path} for path in nodes]}}
    return {"cdiVersion": "0.6.0", "kind": "headrace.local/gpu", "devices": [own], "containerEdits": edits}


def describe_devices(launch: Launch) -> None:
    """Write the CDI specification of a device that has no CDI name of its own. Raises `OSError`."""
    asked = launch.container
    if asked is None or not any(name.startswith("headrace.local/") for name in asked.devices):
        return
    edits: dict[str, Any] = {}
    for path in (f"{CDI}/nvidia.json", "/etc/cdi/nvidia.json"):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            edits = edits or json.load(file).get("containerEdits", {})
    os.makedirs(CDI, 0o755, exist_ok=True)
    with open(f"{CDI}/headrace-{launch.name}.json", "w", encoding="utf-8") as file:
        json.dump(description(launch.name, asked.nodes, edits), file)
