"""Connected as the operator, to an installation on this machine that is up: for commands about the log itself."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from headrace.bus.connection import Connection, connect
from headrace.bus.log import LogError
from headrace.cli.arguments import Failed
from headrace.contracts.trust import CA
from headrace.supervisor.installation import Installation
from headrace.supervisor.running import read_running


@asynccontextmanager
async def operating(data: str | None) -> AsyncIterator[Connection]:
    """A connection to its bus. What goes wrong with the log becomes one line."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    installation = Installation(data)
    running = read_running(installation)
    if running is None or not running.url:
        raise Failed(f"Headrace is not up in {installation.directory}; `headrace up` starts it")
    tls = installation.certificates()
    if tls is not None and tls.ca:
        os.environ.setdefault(CA, tls.ca)
    operator = installation.operator()
    try:
        connection = await connect(running.url, operator.name, operator.password, name="headrace")
        try:
            yield connection
        finally:
            await connection.close()
    except LogError as error:
        raise Failed(str(error)) from None
