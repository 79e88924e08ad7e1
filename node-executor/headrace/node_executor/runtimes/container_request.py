"""Bodies of requests to a container engine: create a container, run a command in one, and describe its devices."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Sequence
from typing import Any

from headrace.contracts.facts.fact import DeviceShare
from headrace.contracts.values.networks import HOST, NONE, PRIVATE
from headrace.node_executor.devices import Devices
from headrace.node_executor.runtimes import Container, Launch

CDI = "/var/run/cdi"
PLACES = (f"{CDI}/nvidia.json", "/etc/cdi/nvidia.json")
"""Where NVIDIA's toolkit describes the GPUs for containers."""

INIT = "/.headrace-init"
"""Path of the first process inside the container."""

LEASE, OWNER = "headrace.lease", "headrace.executor"
"""Labels of a container: the name of its lease here, and the executor."""

NETWORK = "headrace"
"""Name of the engine's network for containers that have one of their own."""

PODMAN = "/v4.0.0/libpod"
"""Beginning of the paths of Podman's own API."""

MIB = 1024 * 1024

_PODMANS_NETWORK: dict[str, dict[str, Any]] = {
    PRIVATE: {"netns": {"nsmode": "bridge"}, "networks": {NETWORK: {}}},
    HOST: {"netns": {"nsmode": "host"}},
    NONE: {"netns": {"nsmode": "none"}},
}
"""What Podman is told of each network; named for each, so that no setting of the engine changes it."""

PERIOD, _LEAST_QUOTA = 100_000, 1_000
"""Microseconds over which CPU time is shared out, and the least of them that a container can have."""


def creation(launch: Launch, *, podman: bool, init: str = "", owner: str = "") -> tuple[str, dict[str, Any]]:
    """Return where to ask for a container, and the body of the request. `init` and `owner`: see `ContainerRuntime`.

    Docker's API, 1.41 and newer, or Podman's own, 4.0 and newer, because Podman takes no CDI names by Docker's. The engine's own log is
    read only after the engine was away, and has as much room as the job's log.
    """
    asked = launch.container
    if asked is None:
        raise AssertionError("a container needs an image")
    if podman:
        return f"{PODMAN}/containers/create", _podmans(launch, asked, init, owner)
    return f"/containers/create?name={launch.name_of_container}", _dockers(launch, asked, init, owner)


def _podmans(launch: Launch, asked: Container, init: str, owner: str) -> dict[str, Any]:
    return {
        "name": launch.name_of_container,
        "image": asked.image,
        "entrypoint": _command(launch, init),
        "command": [],
        "env": launch.env,
        "work_dir": launch.directory,
        "user": _user(launch),
        "groups": _groups(launch),
        "labels": {LEASE: launch.name, OWNER: owner},
        "stop_signal": signal.SIGTERM.value,
        "init": not init,
        "mounts": [
            {"type": "bind", "source": source, "destination": target, "options": ["rbind", "ro" if fixed else "rw"]}
            for source, target, fixed in _binds(asked, init)
        ],
        **_PODMANS_NETWORK[asked.network],
        "cap_drop": ["ALL"],
        "no_new_privileges": True,
        "log_configuration": {"driver": "k8s-file", "size": launch.output.limit},
        "devices": [{"path": name} for name in asked.devices],
        "resource_limits": _limits(asked),
    }


def _dockers(launch: Launch, asked: Container, init: str, owner: str) -> dict[str, Any]:
    host: dict[str, Any] = {
        "Binds": [f"{source}:{target}{':ro' if fixed else ''}" for source, target, fixed in _binds(asked, init)],
        "NetworkMode": NETWORK if asked.network == PRIVATE else asked.network,
        "Init": not init,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "LogConfig": {"Type": "json-file", "Config": {"max-size": str(launch.output.limit), "max-file": "2"}},
        "GroupAdd": _groups(launch),
        "PidsLimit": asked.pids or None,
        "NanoCpus": asked.cpu * 1_000_000,
        "Memory": asked.memory * MIB,
        "MemorySwap": asked.memory * MIB,
    }
    if asked.devices:
        host["DeviceRequests"] = [{"Driver": "cdi", "DeviceIDs": list(asked.devices)}]
    return {
        "Image": asked.image,
        "Entrypoint": _command(launch, init),
        "Cmd": [],
        "Env": [f"{name}={value}" for name, value in launch.env.items()],
        "WorkingDir": launch.directory,
        "User": _user(launch),
        "Labels": {LEASE: launch.name, OWNER: owner},
        "StopSignal": "SIGTERM",
        "HostConfig": host,
    }


def _command(launch: Launch, init: str) -> list[str]:
    return [*([INIT] if init else ()), *launch.command]


def _user(launch: Launch) -> str:
    return f"{os.geteuid()}:{os.getegid()}" if launch.account is None else f"{launch.account.uid}:{launch.account.gid}"


def _groups(launch: Launch) -> list[str]:
    return [] if launch.account is None else [str(number) for number in launch.account.groups]


def _binds(asked: Container, init: str) -> list[tuple[str, str, bool]]:
    """Return sources, targets, and whether the container may only read them."""
    own = [(path, path, False) for path in asked.binds]
    mounts = [(mount.source, mount.target, mount.read_only) for mount in asked.mounts]
    return [*own, *mounts, *([(init, INIT, True)] if init else ())]


def _limits(asked: Container) -> dict[str, Any]:
    """Return limits in the words of the runtime specification; what has none is left out."""
    found: dict[str, Any] = {}
    if asked.cpu:
        found["cpu"] = {"quota": max(_LEAST_QUOTA, asked.cpu * PERIOD // 1000), "period": PERIOD}
    if asked.memory:
        found["memory"] = {"limit": asked.memory * MIB, "swap": asked.memory * MIB}
    if asked.pids:
        found["pids"] = {"limit": asked.pids}
    return found


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
    own = {**edits, "deviceNodes": [*edits.get("deviceNodes", ()), *({"path": path} for path in nodes)]}
    return {"cdiVersion": "0.3.0", "kind": "headrace.local/gpu", "devices": [{"name": name, "containerEdits": own}]}


def describe_devices(launch: Launch) -> None:
    """Write the CDI specification of a device that has no CDI name of its own. Raises `OSError`."""
    asked = launch.container
    if asked is None or not any(name.startswith("headrace.local/") for name in asked.devices):
        return
    edits: dict[str, Any] = {}
    for path in PLACES:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
            edits = edits or json.load(file).get("containerEdits", {})
    if not edits and any(node.startswith("/dev/nvidia") for node in asked.nodes):
        raise OSError(
            "what containers need for GPUs is not described; run nvidia-ctk cdi generate --output=/etc/cdi/nvidia.json"
        )
    given = {node["path"] for node in edits.get("deviceNodes", ())}
    there = [path for path in asked.nodes if path not in given and os.path.exists(path)]  # who needs others says so itself
    os.makedirs(CDI, 0o755, exist_ok=True)
    with open(f"{CDI}/headrace-{launch.name}.json", "w", encoding="utf-8") as file:
        json.dump(description(launch.name, there, edits), file)
