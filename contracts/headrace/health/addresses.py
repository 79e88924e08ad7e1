"""Where health and metrics are found: the paths, and the files by which Prometheus and the command line find the addresses."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import msgspec

LIVE, READY, FIGURES = "/livez", "/readyz", "/metrics"


def write_target(directory: Path, name: str, address: str) -> None:
    """Write the target file atomically. Raises OSError."""
    target = {"targets": [address], "labels": {"job": "headrace", "instance": name}}
    draft = directory / f".{name}.{os.getpid()}"
    draft.write_bytes(msgspec.json.encode([target]) + b"\n")
    draft.replace(directory / f"{name}.json")


class _Target(msgspec.Struct):
    targets: list[str]
    labels: dict[str, str] = {}


def read_targets(directory: Path) -> dict[str, str]:
    """Addresses by name from all target files in a directory; unreadable files are skipped."""
    found: dict[str, str] = {}
    for path in sorted(directory.glob("*.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            for target in msgspec.json.decode(path.read_bytes(), type=list[_Target]):
                found |= {target.labels.get("instance", path.stem): address for address in target.targets}
    return found
