"""How NATS servers find each other: the part of a server's configuration that makes several of them one."""

from __future__ import annotations

import json
from typing import NamedTuple

CLUSTER = "headrace"


class Routes(NamedTuple):
    """A server's place among several: where it listens to the others, where all of them do (`host:port`), what they show each other.

    `tls`: the files of a certificate, its key, and the authority that the others' are good by.
    """

    listen: str
    everybody: tuple[str, ...]
    user: str
    password: str
    tls: tuple[str, str, str] | None = None


def clustered(routes: Routes) -> list[str]:
    """The lines. Clients are told of all servers by us, and by none of these."""
    login = {"user": routes.user, "password": routes.password, "timeout": 3}
    urls = [f"nats-route://{routes.user}:{routes.password}@{address}" for address in routes.everybody]
    certificate, key, ca = routes.tls or ("", "", "")
    files = {"cert_file": certificate, "key_file": key} | ({"ca_file": ca} if ca else {}) | {"timeout": 5}
    return [
        "cluster {",
        f"  name: {CLUSTER}",
        f"  listen: {json.dumps(routes.listen)}",
        "  no_advertise: true",
        f"  authorization: {json.dumps(login)}",
        *([f"  tls: {json.dumps(files)}"] if routes.tls else []),
        f"  routes: {json.dumps(urls)}",
        "}",
    ]
