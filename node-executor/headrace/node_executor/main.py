"""Sets the executor up, runs it, and stops it in order: `python -m headrace.node_executor run`.

Exit codes: 0 stopped as asked, 1 failed, 2 invalid arguments.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import structlog

from headrace.contracts.facts import NodeRegisteredV1
from headrace.contracts.facts.levels import LEVEL as READS
from headrace.contracts.transport.subjects import node_writer
from headrace.health.config import BadAddress, read_config, serving
from headrace.health.health import Health
from headrace.node_executor.arguments import EC2, END, Settings, parse
from headrace.node_executor.containers import containers_of, find_engine, keep_reconciling
from headrace.node_executor.core import vocabulary as v
from headrace.node_executor.core.node import Node
from headrace.node_executor.dependencies import ExecutorDependencies
from headrace.node_executor.ec2_notice import notice_of_ec2
from headrace.node_executor.enforcement.discovery import mechanisms_for
from headrace.node_executor.enforcement.enforcement import Enforcement
from headrace.node_executor.enforcement.enforcement_worker import EnforcementWorker
from headrace.node_executor.enforcement.in_containers import levels_inside
from headrace.node_executor.enforcement.owners import LeaseOwners
from headrace.node_executor.executor import Executor
from headrace.node_executor.files.retention import RetentionPolicy
from headrace.node_executor.files.workspace import Workspace, shows_polling
from headrace.node_executor.joining import NotJoined, with_login
from headrace.node_executor.launch.environment import inherited
from headrace.node_executor.launch.preparation import Bounds, Preparation
from headrace.node_executor.launch.secrets import references
from headrace.node_executor.metadata_rules import keep_from_metadata
from headrace.node_executor.metrics import show
from headrace.node_executor.monitoring.disk_usage import DiskUsageMonitor, Size
from headrace.node_executor.monitoring.monitors import DeviceMonitors, MonitorListeners
from headrace.node_executor.reporting.journal import Journal
from headrace.node_executor.reporting.ledger import FactWriter
from headrace.node_executor.reporting.link import BusListener, Link, LinkTimings
from headrace.node_executor.reporting.tracing import tracing
from headrace.node_executor.runtimes import CALLBACK
from headrace.node_executor.runtimes.either import Either
from headrace.node_executor.runtimes.keeper_client import Spawner
from headrace.node_executor.runtimes.process import ProcessRuntime
from headrace.node_executor.self_check import SelfCheck
from headrace.node_executor.self_end import Limits, Notice, age_of, keep_to_limits, notice_in
from headrace.node_executor.system import c_programs, native
from headrace.node_executor.system.account_numbers import AccountNumbers
from headrace.node_executor.system.accounts import OWN, Accounts, chosen
from headrace.node_executor.system.cgroups import CONTROLLERS, Groups, group_name
from headrace.node_executor.system.clock import clock
from headrace.node_executor.system.daemon_thread import in_daemon_thread
from headrace.node_executor.system.instance_lock import DirectoryInUse, InstanceLock
from headrace.node_executor.system.log_setup import configure_logs
from headrace.node_executor.system.machine import boot_id

STOPPED, FAILED = 0, 1
LAST_FACTS = 5.0
"""Seconds that the last facts get to reach the ledger; after that the journal keeps them for the next start."""

OVERTIME = 5.0
"""Seconds past the grace in which killed processes have to disappear."""
PRUNE_EVERY = 600.0
CHECK_SLICES_EVERY = 10.0
MEASURE_EVERY, MEASURE_PART, MEASURE_PAUSE_MAX = 5.0, 20.0, 300.0
"""Seconds between two measurements of working directories; at most a twentieth of the time is spent on them."""
CLEAN_EVERY, CLEAN_PART = 1.0, 50.0
"""Seconds for which the journal may have what a lease ran after its end; at most a fiftieth of the time is spent on that."""

_log = structlog.get_logger("headrace.node_executor")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the executor with these arguments until SIGTERM or SIGINT; returns the exit code."""
    settings = parse(argv, os.environ)
    configure_logs(settings.name)
    try:
        asyncio.run(run(settings))
    except DirectoryInUse as error:
        _log.error("occupied", reason=str(error))
        return FAILED
    except (OSError, BadAddress) as error:
        _log.error("failed", reason=str(error))
        return FAILED
    except Exception as error:  # noqa: BLE001 - the exit code and one line say it to the supervisor
        _log.exception("failed", reason=str(error))
        return FAILED
    return STOPPED


async def run(settings: Settings) -> None:
    """Run the executor from start to stop. Raises `DirectoryInUse`, or `OSError` if the data directory cannot be used."""
    stop = Stop(settings.on_stop == END)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.on_signal, number)
    os.makedirs(settings.data, 0o700, exist_ok=True)
    instance = InstanceLock(settings.data)
    try:
        settings = await with_login(settings)
        monitors = DeviceMonitors(settings.name, settings.devices, clock)
        dependencies = _dependencies(settings, instance.lock, monitors)
        health = Health(f"node-{settings.name}")
        async with serving(health, read_config(os.environ)):
            await _serve(settings, dependencies, monitors, stop, health)
        dependencies.preparation.close()
        dependencies.tracing.close()
        dependencies.journal.close()
        dependencies.enclosing.close()
        settings.devices.close()
    except NotJoined as error:
        stop.end_by_itself(str(error))
        _log.warning("ends_by_itself", reason=str(error))
    finally:
        instance.release()
    _log.info("stopped")
    if stop.by_itself and settings.power_off:
        _log.warning("powering_off", command=settings.power_off)
        await asyncio.to_thread(subprocess.run, shlex.split(settings.power_off), check=False)


class Stop:
    """Whether and how the executor is to stop: SIGTERM and SIGINT as configured, SIGQUIT by killing everything at once.

    SIGHUP: restart at once; jobs go on, whatever the settings say.
    """

    def __init__(self, ends_jobs: bool) -> None:
        self.wanted = asyncio.Event()
        self.at_once = asyncio.Event()
        self.ends_jobs = ends_jobs
        self.by_itself = ""
        """Why the executor ends by itself; empty if it was told to."""

    def end_by_itself(self, why: str) -> None:
        """End the jobs and stop, for a reason of its own."""
        self.by_itself, self.ends_jobs = why, True
        self.wanted.set()

    def on_signal(self, number: int) -> None:
        """Handle a received signal."""
        if number == signal.SIGQUIT:
            self.ends_jobs = True
            self.at_once.set()
        elif number == signal.SIGHUP and not self.wanted.is_set():
            self.ends_jobs = False
        self.wanted.set()


async def _serve(
    settings: Settings, dependencies: ExecutorDependencies, monitors: DeviceMonitors, stop: Stop, health: Health
) -> None:
    worker, limits = dependencies.enclosing, settings.limits_of_instance
    age = age_of(settings.data) if limits.max_life else 0.0
    await worker.prove()
    link = Link(settings.name, settings.address, LinkTimings(settings.heartbeat, settings.ask_every), clock)
    journal = dependencies.journal
    ledger = FactWriter(link, node_writer(settings.name), _engine(), clock, journal)
    enforcement = worker.enforcement
    inside = levels_inside(enforcement.levels, engine=dependencies.contains, shared=enforcement.shared)
    node = Node(registration(settings, enforcement.overall, enforcement.levels, inside), closed(journal), journal.last)
    checks = SelfCheck(dependencies, lambda complaint: executor.handle(v.Checked(clock(), complaint)))
    dependencies = dependencies._replace(others={v.Ask: link.ask_now, v.Check: checks.begin})
    executor = Executor(node, dependencies, ledger.state)
    show(health, link, executor, journal, len(settings.devices.inventory()), _engine())
    monitors.set_listeners(
        MonitorListeners(executor.handle, lambda: executor.held, link.publish, lambda: worker.enforcement.watchdog.used)
    )
    await worker.in_turn(
        lambda: worker.enforcement.reconcile(left.order.lease for left in journal.open.values() if not left.ended)
    )
    for left in [left for left in journal.open.values() if not left.ended]:
        executor.adopt(left)
    measuring = DiskUsageMonitor(executor.handle, lambda: executor.held, clock, Size(settings.work_limit, settings.work_files))
    listener = BusListener(
        pushed=lambda orders: executor.handle(v.Pushed(clock(), orders)),
        answered=lambda answer: executor.handle(v.Answered(clock(), answer)),
        returned=lambda: executor.handle(v.Returned(clock())),
        logs=executor.read_log,
    )
    work: list[asyncio.Future[None]] = [
        asyncio.ensure_future(link.run(listener, ledger, lambda: executor.running)),
        asyncio.ensure_future(_keep_polling_checkpoints(executor, settings.heartbeat)),
        asyncio.ensure_future(_keep_measuring(measuring)),
        asyncio.ensure_future(monitors.run(settings.heartbeat)),
        *([] if worker.enforcement.quick else [asyncio.ensure_future(_keep_checking_slices(worker))]),
        asyncio.ensure_future(keep_reconciling(dependencies)),
        asyncio.ensure_future(_keep_pruning(executor, RetentionPolicy(settings.keep, settings.keep_logs))),
        asyncio.ensure_future(_keep_clean(journal)),
        asyncio.ensure_future(keep_to_limits(limits, settings.name, link, ledger, executor, stop, notice_reader(limits), age)),
    ]
    stopping = asyncio.ensure_future(_wait(stop.wanted))
    try:
        await asyncio.wait([stopping, *work], return_when=asyncio.FIRST_COMPLETED)
        for task in work:
            if task.done():
                task.result()  # a task ends by an error only
        reason = v.MACHINE_STOPPED if await in_daemon_thread(dependencies.is_shutting_down) else v.EXECUTOR_STOPPED
        stop.ends_jobs |= reason == v.MACHINE_STOPPED  # otherwise they end soon after the executor, unknown to the ledger
        _log.info("stopping", running=executor.running, jobs="end" if stop.ends_jobs else "go on", reason=reason)
        if stop.ends_jobs:
            await _end_jobs(executor, settings.stop_grace, stop.at_once, reason)
        await _send_last_facts(ledger)
    finally:
        for task in (stopping, *work):
            task.cancel()
        await asyncio.gather(stopping, *work, return_exceptions=True)


def notice_reader(limits: Limits) -> Callable[[], Notice | None] | None:
    """What reads the provider's notice that it takes this instance back; None if none can come."""
    if limits.notice == EC2:
        return notice_of_ec2
    return partial(notice_in, limits.notice) if limits.notice else None


async def _wait(event: asyncio.Event) -> None:
    await event.wait()


async def _end_jobs(executor: Executor, grace: float, at_once: asyncio.Event, reason: str) -> None:
    """End all jobs within a bounded time, for this reason."""
    executor.halt(0.0 if at_once.is_set() else grace, reason)
    ended, hurried = asyncio.ensure_future(_wait(executor.finished)), asyncio.ensure_future(_wait(at_once))
    await asyncio.wait([ended, hurried], timeout=grace + OVERTIME, return_when=asyncio.FIRST_COMPLETED)
    if not ended.done() and hurried.done():
        executor.halt(0.0, reason)
        await asyncio.wait([ended], timeout=OVERTIME)
    if not ended.done():
        _log.error("not_all_ended", running=executor.running)
    for waiting in (ended, hurried):
        waiting.cancel()


async def _send_last_facts(ledger: FactWriter) -> None:
    """Send the last facts if that is soon possible; otherwise they stay in the journal."""
    try:
        async with asyncio.timeout(LAST_FACTS):
            await ledger.all_stored()
    except TimeoutError:
        _log.warning("facts_not_stated", help="the next start of this executor states them")


async def _keep_polling_checkpoints(executor: Executor, every: float) -> None:
    while True:
        await asyncio.sleep(every)
        await executor.poll_checkpoints()


async def _keep_measuring(measuring: DiskUsageMonitor) -> None:
    while True:
        began = time.monotonic()
        await measuring.measure()
        await asyncio.sleep(max(MEASURE_EVERY, min(MEASURE_PAUSE_MAX, MEASURE_PART * (time.monotonic() - began))))


async def _keep_checking_slices(worker: EnforcementWorker) -> None:
    while True:
        await asyncio.sleep(CHECK_SLICES_EVERY)
        try:
            await worker.in_turn(worker.enforcement.check_foreign_slices)
        except Exception:  # noqa: BLE001 - whatever a driver says, it is looked at again
            _log.exception("slices_unseen")


async def _keep_pruning(executor: Executor, kept: RetentionPolicy) -> None:
    while True:
        with contextlib.suppress(OSError):
            await executor.prune(kept)
        await asyncio.sleep(PRUNE_EVERY)


async def _keep_clean(journal: Journal) -> None:
    while True:
        began = time.monotonic()
        journal.clean()
        await asyncio.sleep(max(CLEAN_EVERY, CLEAN_PART * (time.monotonic() - began)))


def _dependencies(settings: Settings, lock: int, monitors: DeviceMonitors) -> ExecutorDependencies:
    bounds = _bounds(settings)
    workspace = Workspace(settings.data, settings.checkpoints, others=bounds.accounts.others)
    if not shows_polling(workspace.leases):
        _log.warning(
            "polling_unseen",
            reason=f"the file system of {workspace.leases} notes no access times",
            help="mount it with relatime, or have jobs that poll HEADRACE_PREEMPT_FILE create HEADRACE_CONTROL_DIR/hook",
        )
    base = inherited(os.environ, settings.pass_env)
    program = native.built(c_programs.KEEPER, native.cache_directory(os.environ, f"{settings.data}/bin"))
    if not program:
        help_ = "install the wheel for this platform, or a C compiler: jobs start faster then, and take less memory"
        _log.warning("keepers_in_python", reason="the C program could not be built", help=help_)
    journal = Journal(f"{settings.data}/journal", boot=boot_id())
    if gone := journal_gone(journal, workspace, f"{settings.data}/journal"):
        _log.error("journal_gone", reason=gone)
    runtime = ProcessRuntime(Spawner(program, lock), workspace.kept)
    engine = find_engine(settings.containers, os.environ.get("XDG_RUNTIME_DIR", ""))
    containers = containers_of(settings, engine, runtime)
    keep_from_metadata(settings.metadata, bounds.accounts, containers=containers is not None)
    known = {workspace.name(left.order) for left in journal.open.values()}
    if bounds.groups is not None:
        bounds.groups.sweep(known)
    abandoned = runtime.abandon(known | {f"{name}.{CALLBACK}" for name in known})
    if abandoned:
        _log.warning("abandoned_killed", names=abandoned)
    mechanisms = mechanisms_for(
        settings.name, settings.data, settings.devices, os.environ, monitors.slices_changed, bounds.accounts.of_trials()
    )
    enforcement = Enforcement(settings.devices, mechanisms, LeaseOwners(workspace.leases), monitors.overran)
    return ExecutorDependencies(
        workspace=workspace,
        preparation=Preparation(workspace, settings.devices, base, references(settings.secrets, os.environ), bounds),
        devices=settings.devices,
        enclosing=EnforcementWorker(enforcement),
        runtime=Either(runtime, containers),
        journal=journal,
        tracing=tracing(settings.name),
        output_limit=settings.output_limit,
        contains=bool(engine),
        containers=containers,
    )


def _bounds(settings: Settings) -> Bounds:
    """Return the means of this node to limit jobs. Raises `OSError` if required ones are missing."""
    choice, why = chosen(settings.run_as, settings.data)
    if why:
        _log.warning("jobs_run_as_we_do", reason=why, help="give --run-as self to say that this is meant")
    numbers = None
    if choice == OWN:
        folders = (f"{settings.data}/leases", settings.checkpoints or f"{settings.data}/checkpoints")
        numbers = AccountNumbers(f"{settings.data}/numbers.json", folders)
    accounts, groups = Accounts(choice, numbers), None
    if settings.limits != "off":
        try:
            groups = Groups(group_name(settings.name, settings.data))
        except OSError as error:
            why = f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
        missing = CONTROLLERS if groups is None else groups.missing
        if missing and settings.limits == "required":
            raise OSError(f"this node cannot limit {', '.join(missing)}: {why or 'the controllers are not there'}")
        if missing:
            _log.warning("not_limited", what=missing, reason=why or "the controllers are not there")
    return Bounds(accounts, groups, settings.pids)


def registration(settings: Settings, isolation: str, levels: Mapping[str, str], inside: Mapping[str, str]) -> NodeRegisteredV1:
    """Return the node's registration; `isolation` and `levels` as proved, `inside` those in containers."""
    return NodeRegisteredV1(
        node=settings.name,
        labels={**settings.devices.labels, **settings.labels},
        devices=settings.devices.inventory(),
        cpu=settings.cpu,
        memory=settings.memory,
        executor=_engine(),
        isolation=isolation,
        levels={kind: level for kind, level in levels.items() if level != isolation} | dict(inside),
        reads=READS,
        at=clock(),
    )


def journal_gone(journal: Journal, workspace: Workspace, path: str) -> str:
    """Return a message if jobs have run on this node and the journal of them is missing; otherwise ""."""
    if journal.found or not os.listdir(workspace.leases):
        return ""
    return (
        f"{path} is gone, and {workspace.leases} has jobs that it knew of: what still runs of them is ended, and the ledger has them "
        "lost, so that they go on from their checkpoints; nothing is to be done, unless the whole directory was lost: then it is a new node"
    )


def closed(journal: Journal) -> dict[str, int]:
    """Return the leases of a former executor that are over; their ends are in the journal, and on their way."""
    return {lease: left.order.granted for lease, left in journal.open.items() if left.ended}


def _engine() -> str:
    try:
        return f"headrace-node/{version('headrace')}"
    except PackageNotFoundError:  # run from a checkout that is not installed
        return "headrace-node/0"
