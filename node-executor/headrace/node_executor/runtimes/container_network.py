"""The network of containers that have one of their own (R44): one bridge of the engine for all of them, made when the first needs it.

Its interface has a name of ours, by which rules of the firewall recognize what comes from there (`system.metadata_address`). The engine
keeps the network; `podman network rm headrace` removes it.
"""

from __future__ import annotations

from typing import Any

from headrace.node_executor.runtimes.container_engine import UNREADABLE, Engine, EngineError, Unreadable
from headrace.node_executor.runtimes.container_request import NETWORK, PODMAN
from headrace.node_executor.system.metadata_address import BRIDGE

WAY_OUT = "or write network: host in the profile"
_NAME_OF_BRIDGE = "com.docker.network.bridge.name"


def make_network(engine: Engine, timeout: float, *, podman: bool) -> None:
    """Make the network, unless the engine has it. Raises `EngineError`, with the way out if the engine cannot make it."""
    found = _look(engine, timeout, podman=podman)
    if found is None:
        _create(engine, timeout, podman=podman)
        found = _look(engine, timeout, podman=podman)
    if found is None:  # Podman without the plugins of CNI takes the request and does not have the network afterwards
        raise EngineError(
            500,
            f"the container engine does not have the network {NETWORK} that it has just made for private containers: Podman lacks "
            f"netavark, or the plugins of CNI; install one of them (Debian: apt install netavark), {WAY_OUT}",
        )
    try:
        made = (
            (found["driver"], found.get("network_interface"))
            if podman
            else (found["Driver"], found["Options"][_NAME_OF_BRIDGE])
        )
    except UNREADABLE:
        made = ("", "")
    if made != ("bridge", BRIDGE):
        raise EngineError(
            409,
            f"the container engine's network {NETWORK} is not the bridge {BRIDGE} of private containers; remove it, so that it is "
            f"made again ({'podman' if podman else 'docker'} network rm {NETWORK}), {WAY_OUT}",
        )


def _look(engine: Engine, timeout: float, *, podman: bool) -> dict[str, Any] | None:
    """Return what the engine says of the network; None if it does not have it."""
    try:
        found = engine.call("GET", f"{PODMAN}/networks/{NETWORK}/json" if podman else f"/networks/{NETWORK}", timeout=timeout)
    except EngineError as error:
        if error.status == 404:
            return None
        raise
    if not isinstance(found, dict):
        raise Unreadable(0, f"what the container engine says of its network {NETWORK} cannot be understood")
    return found


def _create(engine: Engine, timeout: float, *, podman: bool) -> None:
    if podman:
        where = f"{PODMAN}/networks/create"
        body: dict[str, Any] = {"name": NETWORK, "driver": "bridge", "network_interface": BRIDGE}
    else:
        where = "/networks/create"
        body = {"Name": NETWORK, "Driver": "bridge", "Options": {_NAME_OF_BRIDGE: BRIDGE}}
    try:
        engine.call("POST", where, body, timeout)
    except EngineError as error:
        if error.status == 0:
            raise
        if error.status != 409:  # another executor of this machine was faster
            message = (
                f"the container engine cannot make the network {NETWORK} of private containers: {error}; repair that, {WAY_OUT}"
            )
            raise EngineError(error.status, message) from None
