"""Notices of EC2 that it takes an instance back, from its metadata service (IMDSv2): `spot/instance-action`, about two minutes ahead."""

from __future__ import annotations

import http.client
from datetime import datetime

import msgspec

from headrace.node_executor.self_end import Notice

METADATA = "169.254.169.254"
WITHIN = 2.0
LIVES = "60"
"""Seconds for which the session with the metadata service is asked for."""


class _Action(msgspec.Struct):
    action: str
    time: str


def notice_of_ec2(address: str = METADATA) -> Notice | None:
    """The notice; None without one, or if the metadata service does not answer. `address`: host, or host:port."""
    connection = http.client.HTTPConnection(address, timeout=WITHIN)
    try:
        connection.request("PUT", "/latest/api/token", headers={"X-aws-ec2-metadata-token-ttl-seconds": LIVES})
        answer = connection.getresponse()
        session = answer.read().decode("ascii", "replace")
        if answer.status != http.client.OK:
            return None
        connection.request("GET", "/latest/meta-data/spot/instance-action", headers={"X-aws-ec2-metadata-token": session})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != http.client.OK:
            return None
        found = msgspec.json.decode(body, type=_Action)
        deadline = datetime.fromisoformat(found.time).timestamp()
    except (OSError, http.client.HTTPException, msgspec.DecodeError, ValueError):
        return None
    finally:
        connection.close()
    return Notice(kind="spot", deadline=int(deadline * 1_000_000))
