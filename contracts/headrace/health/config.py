"""The address where a process serves its health, from the environment, and the file by which Prometheus finds it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple

import structlog

from headrace.health.addresses import write_target
from headrace.health.health import Health
from headrace.health.http import HealthServer

LISTEN = "HEADRACE_METRICS"
"""Environment variable with the address: `127.0.0.1:9101`, port 0 for any free port. Not set: not served."""
TOKEN = "HEADRACE_METRICS_TOKEN"  # noqa: S105 - the name of the variable
"""Environment variable with the bearer token that `/metrics` requires. Not set: no token is required."""
TARGETS = "HEADRACE_METRICS_TARGETS"
"""Environment variable with the directory for target files, as Prometheus' `file_sd_configs` reads them."""

AGAIN_AFTER = 5.0

_log = structlog.get_logger("headrace.health")


class BadAddress(Exception):
    """The environment does not contain a valid address."""


class HealthConfig(NamedTuple):
    """Address to listen on, required token ("": none), and directory of target files."""

    host: str
    port: int
    token: str = ""
    targets: Path | None = None


def read_config(environment: Mapping[str, str]) -> HealthConfig | None:
    """The configuration in the environment; None if no address is set. Raises BadAddress if it is malformed."""
    address = environment.get(LISTEN, "")
    if not address:
        return None
    host, _, port = address.rpartition(":")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise BadAddress(
            f"{LISTEN}: invalid address {address!r}; use HOST:PORT, such as 127.0.0.1:9101, or port 0 for any free port"
        )
    targets = environment.get(TARGETS, "")
    return HealthConfig(host.strip("[]"), int(port), environment.get(TOKEN, ""), Path(targets) if targets else None)


@contextlib.asynccontextmanager
async def serving(health: Health, config: HealthConfig | None) -> AsyncIterator[None]:
    """Serve health while the context is open. If the address is in use, log it and try again; the process does not wait."""
    if config is None:
        yield
        return
    page = HealthServer(health, config.token)
    opening = asyncio.create_task(_open(page, health, config))
    try:
        await asyncio.sleep(0)
        yield
    finally:
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
        await page.close()


async def _open(page: HealthServer, health: Health, config: HealthConfig) -> None:
    while True:
        try:
            await page.open(config.host, config.port)
            break
        except OSError as error:
            address, reason = f"{config.host}:{config.port}", error.strerror or str(error)
            _log.error("health_not_shown", address=address, reason=reason, help="retried every 5 s")
            await asyncio.sleep(AGAIN_AFTER)
    _log.info("health_shown", address=f"{config.host}:{page.port}")
    if config.targets is not None:
        try:
            write_target(config.targets, health.name, f"{config.host}:{page.port}")
        except OSError as error:
            _log.error("target_not_noted", directory=str(config.targets), reason=error.strerror or str(error))
