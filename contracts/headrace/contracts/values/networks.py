"""Networks that containers of jobs may have (R44)."""

from __future__ import annotations

PRIVATE, HOST, NONE = "private", "host", "none"
NETWORKS = (PRIVATE, HOST, NONE)
"""`private`: one of their own behind the node's, made by the container engine; the default. `host`: that of the node. `none`: the loopback
interface only."""
