"""Puts the executor together, runs it, and ends it in order: `python -m headrace.node_executor run`.

Exit codes: 0 stopped as asked, 1 failed, 2 wrong arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

import structlog

from headrace.contracts.facts import LeaseEndedV1, NodeRegisteredV1
from headrace.contracts.ids import split_lease_id
from headrace.contracts.subjects import node_writer
from headrace.node_executor.arguments import Settings, parse
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.node import Closed, Node
from headrace.node_executor.environment import inherited
from headrace.node_executor.executor import Equipment, Executor, clock
from headrace.node_executor.journal import Began, Journal
from headrace.node_executor.ledger import Ledger
from headrace.node_executor.link import Hears, Link, Pace
from headrace.node_executor.preparation import Preparation
from headrace.node_executor.retention import Kept
from headrace.node_executor.runtimes.process import ProcessRuntime
from headrace.node_executor.tenure import Occupied, Tenure
from headrace.node_executor.tracing import tracing
from headrace.node_executor.workspace import Workspace

STOPPED, FAILED = 0, 1
LAST_FACTS = 5.0
"""Seconds that the last facts get to reach the ledger; after that the journal keeps the ends of leases for the next start."""

OVERTIME = 5.0
"""Seconds past the grace in which killed processes have to disappear."""

PRUNE_EVERY = 600.0
LEVEL = "HEADRACE_LOG_LEVEL"

_log = structlog.get_logger("headrace.node_executor")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the executor with these arguments until SIGTERM or SIGINT; the exit code."""
    settings = parse(argv, os.environ)
    configure_logs(settings.name)
    try:
        asyncio.run(run(settings))
    except Occupied as error:
        _log.error("occupied", reason=str(error))
        return FAILED
    except OSError as error:
        _log.error("failed", reason=str(error))
        return FAILED
    except Exception as error:
        _log.exception("failed", reason=str(error))
        return FAILED
    return STOPPED


async def run(settings: Settings) -> None:
    """One life of the executor. Raises `Occupied`, or `OSError` where the data directory cannot be used."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    os.makedirs(settings.data, 0o700, exist_ok=True)
    tenure = Tenure(settings.data)
    tenure.watch()
    journal = Journal(f"{settings.data}/journal")
    traces = tracing(settings.name)
    try:
        await _serve(settings, _equipment(settings, journal), stop)
    finally:
        traces.close()
        journal.close()
        tenure.release()
    _log.info("stopped")
