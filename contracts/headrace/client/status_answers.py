"""The API's answer about the installation as its view. Pure."""

from __future__ import annotations

from headrace.client.answers import Json, moment, number
from headrace.contracts.messages.installation import FollowerStatus, InstallationView, StreamStatus
from headrace.contracts.messages.queries import ServiceView


def installation(answer: Json) -> InstallationView:
    """The services, and the servers that store the ledger."""
    followers = tuple(
        FollowerStatus(
            name=one.get("name", ""),
            current=one.get("current", False),
            offline=one.get("offline", False),
            lag=number(one, "lag"),
        )
        for one in answer.get("followers", ())
    )
    return InstallationView(
        tip=int(answer.get("tip") or 0),
        services={one["name"]: _service(one) for one in answer.get("services", ())},
        ledger=StreamStatus(leader=answer.get("leader", ""), replicas=followers) if answer.get("clustered") else None,
    )


def _service(answer: Json) -> ServiceView | None:
    if not answer.get("answered"):
        return None
    return ServiceView(
        service=answer["name"],
        folded=int(answer.get("sequence") or 0),
        now=moment(answer.get("time")),
        engine=answer.get("engine", ""),
        detail={name: int(count) for name, count in answer.get("detail", {}).items()},
        reads=answer.get("reads", 0),
        level=answer.get("level", 0),
        newest=answer.get("newest", 0),
        held_back=tuple(answer.get("held_back", ())),
        trouble=answer.get("trouble", ""),
    )
