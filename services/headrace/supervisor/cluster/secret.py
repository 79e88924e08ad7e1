"""The files of `headrace config write` as one Kubernetes Secret, from which each pod gets those that it needs.

The authority's key stays where it was made, and so do files that services make while they run. Names of keys have no `/` and no `@`.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from headrace.supervisor.directories import CLUSTER_FILE
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import Installation

PARTS = (
    *("env/*.env", "nats/*.conf", "gateway/envoy.json", "gateway/api.pb", "identity/callout.key"),
    *("credentials/*", "tls/ca.pem", "tls/server.pem", "tls/server.key", "endpoint.json", CLUSTER_FILE),
)
BYTES_MAX = 1 << 20
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def key_of(path: str) -> str:
    """The key of a file, by its path below the directory: `env/allocator@1.env` becomes `env__allocator.1.env`."""
    return path.replace("/", "__").replace("@", ".")


def secret(installation: Installation, name: str) -> dict[str, Any]:
    """The Secret. Raises InstallationError for a malformed name, and for what does not fit into one."""
    if not _NAME.fullmatch(name):
        raise InstallationError(f"invalid name {name!r}: use 1-253 of a-z, 0-9, '-' and '.'")
    directory = installation.directory
    files = sorted(path for pattern in PARTS for path in directory.glob(pattern))
    data = {key_of(str(path.relative_to(directory))): path.read_bytes() for path in files}
    if (size := sum(map(len, data.values()))) > BYTES_MAX:
        raise InstallationError(f"the files have {size} bytes, and a Secret holds {BYTES_MAX} at most")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {"name": name},
        "data": {key: base64.b64encode(text).decode() for key, text in data.items()},
    }
