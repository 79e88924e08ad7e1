"""The API's answer about the installation as its view. Pure."""

from __future__ import annotations

from headrace.client.answers import Json, moment, number
from headrace.contracts.messages.installation import FollowerStatus, InstallationView, StreamStatus
from headrace.contracts.messages.queries import ServiceView


def installation(said: Json) -> InstallationView:
    """The services, and the servers that store the ledger."""
    followers = tuple(
        FollowerStatus(
            name=one.get("name", ""),
            current=one.get("current", False),
            offline=one.get("offline", False),
            lag=number(one, "lag"),
        )
        for one in said.get("followers", ())
    )
    return InstallationView(
        tip=int(said.get("tip") or 0),
        services={one["name"]: _service(one) for one in said.get("services", ())},
        ledger=StreamStatus(leader=said.get("leader", ""), replicas=followers) if said.get("clustered") else None,
    )


def _service(said: Json) -> ServiceView | None:
    if not said.get("answered"):
        return None
    return ServiceView(
        service=said["name"],
        folded=int(said.get("sequence") or 0),
        now=moment(said.get("time")),
        engine=said.get("engine", ""),
        detail={name: int(count) for name, count in said.get("detail", {}).items()},
        reads=said.get("reads", 0),
        level=said.get("level", 0),
        newest=said.get("newest", 0),
        held_back=tuple(said.get("held_back", ())),
        trouble=said.get("trouble", ""),
    )
