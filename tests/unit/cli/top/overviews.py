"""An answer of `/v1/overview` with a pool, a queue, and two nodes, one of them lost."""

from __future__ import annotations

JOB = "01jd3v8k5w2m4x6z8b0c2e4g6h"
GPU = 126_000


def overview(sequence: int = 7, running: int = 1) -> dict:
    scope = {"key": "gpu", "used": "1.5", "reservation": "2", "borrowed": "0", "limit": "3"}
    return {
        "sequence": str(sequence),
        "time": "2026-11-26T14:02:11Z",
        "pools": [{"name": "pools/hall", "keys": [{"key": "gpu", "capacity": "4", "used": "2", "free": "1", "unusable": "1"}]}],
        "queues": [
            {
                "name": "tenants/acme/queues/dev/one",
                "policy": "dev",
                "profile": "one",
                "running": str(running),
                "pending": "2",
                "scopes": [scope],
            }
        ],
        "nodes": {"name": ["n1", "n2"], "pool": ["hall", "hall"], "state": ["ready", "lost"], "model": ["", ""]},
        "devices": {
            "node": [0, 0, 0, 1],
            "name": ["g0", "g1", "g2", "g0"],
            "used": [GPU, GPU, 0, 0],
            "kept": [0, 0, 0, 0],
            "unfit": ["", "", "", "XID 79"],
            "shares": {"device": [0], "holder": [0], "units": [GPU], "mig": [""], "start": [0]},
        },
        "holders": {"id": [JOB], "tenant": ["acme"], "user": ["ann"], "queue": ["dev/one"]},
    }
