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
    except Exception as error:  # noqa: BLE001 - the exit code and one line say it to the supervisor
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
    try:
        equipment = _equipment(settings)
        await _serve(settings, equipment, stop)
        equipment.tracing.close()
        equipment.journal.close()
    finally:
        tenure.release()
    _log.info("stopped")


async def _serve(settings: Settings, equipment: Equipment, stop: asyncio.Event) -> None:
    link = Link(settings.name, settings.address, Pace(settings.heartbeat, settings.ask_every), clock)
    ledger = Ledger(link, node_writer(settings.name), _engine(), clock, lambda facts: executor.recorded(facts))  # noqa: PLW0108 - it comes later
    executor = Executor(Node(registration(settings), unstated(equipment.journal, clock())), equipment, ledger.state)
    hears = Hears(
        pushed=lambda orders: executor.handle(v.Pushed(clock(), orders)),
        answered=lambda answer: executor.handle(v.Answered(clock(), answer)),
        returned=lambda: executor.handle(v.Returned(clock())),
        logs=executor.read_log,
    )
    work: list[asyncio.Future[None]] = [
        asyncio.ensure_future(link.run(hears, ledger, lambda: executor.running)),
        asyncio.ensure_future(_keep_looking(executor, settings.heartbeat)),
        asyncio.ensure_future(_keep_pruning(executor, Kept(settings.keep, settings.keep_logs))),
    ]
    stopping = asyncio.ensure_future(_set(stop))
    try:
        await asyncio.wait([stopping, *work], return_when=asyncio.FIRST_COMPLETED)
        for task in work:
            if task.done():
                task.result()  # it ends by an error only
        await _wind_down(executor, ledger, settings.stop_grace)
    finally:
        for task in (stopping, *work):
            task.cancel()
        await asyncio.gather(stopping, *work, return_exceptions=True)


async def _set(event: asyncio.Event) -> None:
    await event.wait()


async def _wind_down(executor: Executor, ledger: Ledger, grace: float) -> None:
    """Everything that runs ends, then the last facts go out; both take a bounded time."""
    _log.info("stopping", running=executor.running)
    executor.halt(grace)
    try:
        async with asyncio.timeout(grace + OVERTIME):
            await executor.finished.wait()
    except TimeoutError:
        _log.error("not_all_ended", running=executor.running)
    try:
        async with asyncio.timeout(LAST_FACTS):
            await ledger.settled()
    except TimeoutError:
        _log.warning("facts_not_stated", help="the next start of this executor states how its leases ended")


async def _keep_looking(executor: Executor, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        await executor.look_for_checkpoints()


async def _keep_pruning(executor: Executor, kept: Kept) -> None:
    while True:
        with contextlib.suppress(OSError):
            await executor.prune(kept)
        await asyncio.sleep(PRUNE_EVERY)


def _equipment(settings: Settings) -> Equipment:
    workspace = Workspace(settings.data, settings.checkpoints)
    base = inherited(os.environ, settings.pass_env)
    return Equipment(
        workspace=workspace,
        preparation=Preparation(workspace, settings.devices, base, settings.secrets),
        devices=settings.devices,
        runtime=ProcessRuntime(),
        journal=Journal(f"{settings.data}/journal"),
        tracing=tracing(settings.name),
        output_limit=settings.output_limit,
    )


def registration(settings: Settings) -> NodeRegisteredV1:
    """What the node says of itself."""
    return NodeRegisteredV1(
        node=settings.name,
        labels={**settings.devices.labels, **settings.labels},
        devices=settings.devices.inventory(),
        cpu=settings.cpu,
        memory=settings.memory,
        executor=_engine(),
        isolation=settings.devices.isolation if settings.devices.inventory() else "none",
        at=clock(),
    )


def unstated(journal: Journal, at: int) -> dict[str, Closed]:
    """The leases of a former executor as of `at`: their processes are gone (`Tenure`), their ends perhaps not in the ledger."""
    found = {}
    for lease, step in journal.open.items():
        if isinstance(step, Began):
            job, attempt, rank = split_lease_id(lease)
            fact = LeaseEndedV1(
                job=job, attempt=attempt, rank=rank, outcome="lost", message="the executor was restarted", exited_at=at, at=at
            )
        else:
            fact = step.fact
        found[lease] = Closed(step.granted, fact)
    return found


def configure_logs(node: str) -> None:
    """One JSON object a line on stderr; other libraries' warnings too."""
    level = logging.getLevelNamesMapping().get(os.environ.get(LEVEL, "INFO").upper(), logging.INFO)
    shared: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, _Named(node), structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    foreign = logging.StreamHandler(sys.stderr)
    foreign.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                _Named(node),
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    logging.basicConfig(handlers=[foreign], level=max(level, logging.WARNING), force=True)


class _Named:
    """Puts into every line who speaks."""

    def __init__(self, node: str) -> None:
        self._node = node

    def __call__(self, _logger: object, _method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
        event["service"], event["node"] = "node", event.get("node", self._node)
        return event


def _engine() -> str:
    try:
        return f"headrace-node/{version('headrace-node-executor')}"
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "headrace-node/0"
