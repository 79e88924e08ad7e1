"""Where a process shows its health, from the environment, and the note by which Prometheus finds it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog

from headrace.health.health import Health
from headrace.health.http import HealthServer

LISTEN = "HEADRACE_METRICS"
"""The environment variable that says where: `127.0.0.1:9101`, port 0 for any free one. Not set: nowhere."""
TOKEN = "HEADRACE_METRICS_TOKEN"  # noqa: S105 - the name of the variable
"""What who reads `/metrics` has to show. Not set: nothing."""
TARGETS = "HEADRACE_METRICS_TARGETS"
"""A directory for notes of what listens where, as Prometheus' `file_sd_configs` reads them."""

AGAIN_AFTER = 5.0

_log = structlog.get_logger("headrace.health")


class BadPlace(Exception):
    """What the environment says is no place to listen at."""


class HealthConfig(NamedTuple):
    """Where to listen, what to ask for, and where to leave the note."""

    host: str
    port: int
    token: str = ""
    targets: Path | None = None


def place_of(environment: Mapping[str, str]) -> HealthConfig | None:
    """Where the environment says; None: nowhere. Raises `BadPlace`."""
    said = environment.get(LISTEN, "")
    if not said:
        return None
    host, _, port = said.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise BadPlace(f"{LISTEN}: {said!r} is no address; write one such as 127.0.0.1:9101, or port 0 for any free one")
    targets = environment.get(TARGETS, "")
    return HealthConfig(host.strip("[]"), int(port), environment.get(TOKEN, ""), Path(targets) if targets else None)


@contextlib.asynccontextmanager
async def shown(health: Health, place: HealthConfig | None) -> AsyncIterator[None]:
    """Shows it there. Where somebody else listens, it is said and tried again: no work waits for being looked at."""
    if place is None:
        yield
        return
    page = HealthServer(health, place.token)
    opening = asyncio.create_task(_open(page, health, place))
    try:
        await asyncio.sleep(0)
        yield
    finally:
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await page.close()


async def _open(page: HealthServer, health: Health, place: HealthConfig) -> None:
    while True:
        try:
            await page.open(place.host, place.port)
            break
        except OSError as error:
            address, reason = f"{place.host}:{place.port}", error.strerror or str(error)
            _log.error("health_not_shown", address=address, reason=reason, help="it is tried again")
            await asyncio.sleep(AGAIN_AFTER)
    _log.info("health_shown", address=f"{place.host}:{page.port}")
    if place.targets is not None:
        try:
            note(place.targets, health.name, f"{place.host}:{page.port}")
        except OSError as error:
            _log.error("target_not_noted", directory=str(place.targets), reason=error.strerror or str(error))


def note(directory: Path, name: str, address: str) -> None:
    """Leave the note: whoever reads it sees the old one or the new, never a part. Raises `OSError`."""
    target = {"targets": [address], "labels": {"job": "headrace", "instance": name}}
    draft = directory / f".{name}.{os.getpid()}"
    draft.write_bytes(msgspec.json.encode([target]) + b"\n")
    draft.replace(directory / f"{name}.json")


class _Target(msgspec.Struct):
    targets: list[str]
    labels: dict[str, str] = {}


def noted(directory: Path) -> dict[str, str]:
    """Name to address of all notes in a directory; what is none is left out."""
    found: dict[str, str] = {}
    for path in sorted(directory.glob("*.json")):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            for target in msgspec.json.decode(path.read_bytes(), type=list[_Target]):
                found |= {target.labels.get("instance", path.stem): address for address in target.targets}
    return found
