"""Routes of NATS servers: the part of a server's configuration that makes a cluster of several."""

from __future__ import annotations

import json
from typing import NamedTuple

CLUSTER = "headrace"


class Routes(NamedTuple):
    """Routes of one server: its own address, those of all servers (`host:port`), and the login that they use among each other.

    `tls`: files of the certificate, of its key, and of the authority for the others' certificates.
    """

    listen: str
    addresses: tuple[str, ...]
    user: str
    password: str
    tls: tuple[str, str, str] | None = None


def clustered(routes: Routes) -> list[str]:
    """Lines of the configuration. Clients get the addresses of all servers from Headrace, not from the servers."""
    login = {"user": routes.user, "password": routes.password, "timeout": 3}
    urls = [f"nats-route://{routes.user}:{routes.password}@{address}" for address in routes.addresses]
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
