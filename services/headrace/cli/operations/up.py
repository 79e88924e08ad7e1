"""`headrace up`, `down`: starts and stops the whole system on this machine."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shlex
import signal
import subprocess
import sys
import time

import msgspec
import structlog

from headrace.bus.log import LogError
from headrace.cli.arguments import (
    Failed,
    Nouns,
    add_command,
    add_data_option,
    between,
    currency,
    key_value,
    natural,
)
from headrace.cli.operations.page import STAYS_FOR
from headrace.cli.operations.tls_options import add_listening, listening
from headrace.client import HeadraceError, connect
from headrace.host.layouts import LAYOUTS
from headrace.service.engine_version import has_compiled_rules
from headrace.supervisor.installation import CLUSTER_OF, OWNER, Installation, Settings
from headrace.supervisor.launcher.up import Up
from headrace.supervisor.network.ports import PortTaken
from headrace.supervisor.processes import process_specs
from headrace.supervisor.processes.pidfile import AlreadyRunning, read_running, stop_running
from headrace.supervisor.processes.readiness import NotReady

DOWN_WITHIN = 120.0
POLL_EVERY = 0.05
PLAIN_RULES = (
    "rules  plain Python; the wheel for Linux x86-64, or COMPILED=1 behind make in a checkout, has them compiled: twice as fast"
)

NODES_MAX, GPUS_MAX = 256, 1_024
"""Limits of what one machine can simulate."""


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "up",
        up,
        "start everything on this machine: NATS, PostgreSQL, the services, a simulated node",
        """headrace up                                      until Ctrl-C, or `headrace down` in another terminal
        headrace up --detach                             in the background; returns when everything is ready
        headrace up --nodes 3 --gpus 8 --gpu-model A100-80GB
        headrace up --layout together                    for a machine with little memory
        headrace up --nodes 0                            without simulated nodes; `headrace node run` adds real ones
        headrace up --data /srv/headrace --nats-port 4222

The user who starts it gets an administrator's login (credentials/owner.json in the data directory): tenant `default`, and the name of
        your account as the user. Further users are written as documents (`headrace apply`), and that login may act for any of them with
        --user NAME. Options that are omitted keep their last values. A second `up` on the same data continues where the first ended.

        If root starts it, jobs of each user run under an account of their own. Otherwise all jobs run under your account and can read your
        files; then others cannot log in (--listen, tokens, an OpenID provider) unless you add --jobs-are-trusted.""",
    )
    add_data_option(parser)
    parser.add_argument("--nodes", type=between(0, NODES_MAX), metavar="N", help="number of simulated nodes (default: 1)")
    parser.add_argument("--gpus", type=between(1, GPUS_MAX), metavar="G", help="GPUs of each (default: 8)")
    parser.add_argument("--currency", type=currency, metavar="ISO", help="currency of prices, such as EUR (default: USD)")
    parser.add_argument("--gpu-model", metavar="M", help="their model (default: H100-80GB)")
    parser.add_argument("--labels", type=key_value, action="append", metavar="K=V", help="labels of each (default: site=hq)")
    parser.add_argument(
        "--nats-port",
        type=between(1, 65_535),
        metavar="P",
        help="where NATS listens (default: as the last time, else any free one)",
    )
    parser.add_argument(
        "--nats-servers",
        type=natural,
        choices=(1, CLUSTER_OF),
        metavar="N",
        help="number of NATS servers: 1, or 3 with a copy of everything each, so that one may be lost (default: as at first, else 1)",
    )
    parser.add_argument(
        "--api-port",
        type=between(1, 65_535),
        metavar="P",
        help="where the HTTP API listens (default: as the last time, else 8080, else any free one)",
    )
    _add_processes(parser)
    add_listening(parser)
    parser.add_argument("--detach", action="store_true", help="return when everything is ready, and leave it running")
    parser.add_argument("--detached", action="store_true", help=argparse.SUPPRESS)
    parser = add_command(nouns, "down", down, "stop what `up` started", "headrace down\nheadrace down --now")
    add_data_option(parser)
    parser.add_argument("--now", action="store_true", help="stop at once: running jobs get no time to save their work")


def _add_processes(parser: argparse.ArgumentParser) -> None:
    """Flags that say how the services run."""
    parser.add_argument(
        "--standby",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="run a second allocator, preemption and feed, which take over within a second if the first one ends (default: no)",
    )
    parser.add_argument(
        "--layout",
        choices=LAYOUTS,
        help="which services share a process: those that answer clients (default), as many as possible (together), or none (apart)",
    )
    parser.add_argument(
        "--hold-level",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="keep the present level of facts, so that you can return to the former release; `headrace status` shows it (default: no)",
    )


def up(args: argparse.Namespace) -> int:
    """Start in the foreground, or in the background."""
    installation = Installation(args.data)
    settings = changed_settings(installation.settings(), args)
    if args.detach:
        return _detach(installation, args)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # errors come as exceptions
    return asyncio.run(_keep_up(installation, settings, args))


def changed_settings(last: Settings, args: argparse.Namespace) -> Settings:
    """The settings of the last start with those that the arguments name. Raises `Failed` if they contradict each other."""
    given = {
        name: getattr(args, name)
        for name in (
            "nodes",
            "gpus",
            "gpu_model",
            "currency",
            "standby",
            "layout",
            "nats_servers",
            "hold_level",
            "jobs_are_trusted",
        )
        if getattr(args, name) is not None
    }
    labels = {"labels": dict(args.labels)} if args.labels is not None else {}
    return listening(msgspec.structs.replace(last, **given, **labels), args)


async def _keep_up(installation: Installation, settings: Settings, args: argparse.Namespace) -> int:
    began = time.monotonic()
    print(f"Headrace in {installation.directory}", flush=True)
    whole = Up(installation, settings, nats_port=args.nats_port, api_port=args.api_port, progress=_progress)
    stopping = asyncio.Event()
    task = asyncio.current_task()

    def stop() -> None:
        """Stop in order; a second call stops at once."""
        if stopping.is_set():
            whole.hurry()
        elif task is not None and not whole.ready:
            stopping.set()
            task.cancel()
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    try:
        async with whole:
            page = await _page(installation, whole.api)
            welcome = _welcome(installation, whole, page, detached=args.detached)
            print(f"Ready after {time.monotonic() - began:.1f} s.\n\n{welcome}", flush=True)
            if args.detached:
                _leave_terminal(installation)
            await stopping.wait()
            print("\nStopping. Ctrl-C again stops at once, and jobs get no time to save their work.", flush=True)
    except asyncio.CancelledError:
        print("Stopped before it was ready.", file=sys.stderr)
        return 1
    except (AlreadyRunning, PortTaken, NotReady, LogError) as error:
        raise Failed(str(error)) from None
    print("Stopped.", flush=True)
    return 0


def _progress(part: str, what: str) -> None:
    print(f"  {part:<14} {what}", flush=True)


async def _page(installation: Installation, server: str) -> str:
    """A link to the page that logs in once; without a login if the API does not give one."""
    try:
        async with connect(data=installation.directory) as owner:
            return await owner.login_link(server, STAYS_FOR)
    except HeadraceError:
        return f"{server}/page"


def _welcome(installation: Installation, whole: Up, page: str, *, detached: bool) -> str:
    owner = installation.owner()
    lines = [
        f"page   {page} (logs in once; `headrace page` makes another link)",
        f"API    {whole.api}/v1 (what it can do: /openapi.json)",
        f"NATS   {whole.url}",
        f"login  {installation.credentials / OWNER}.json: user {owner.user} of tenant {owner.tenant}, and any user with --user",
        f"logs   {installation.logs}",
        "",
    ]
    tls = installation.certificates()
    if tls is None:
        lines[-1:] = [
            "       everything listens on this machine only (127.0.0.1), without TLS; `headrace up --help` shows how to change that",
            "",
        ]
    elif tls.ca:
        lines[-1:] = [f"TLS    clients on other machines: copy {tls.ca} there and set HEADRACE_CA to the copy", ""]
    if not has_compiled_rules():
        lines[-1:] = [PLAIN_RULES, ""]
    if installation.directory != Installation().directory:
        lines.append(f"export HEADRACE_DATA={shlex.quote(str(installation.directory))} lets the commands find it.")
    lines.append("Next: headrace apply -f FILE, headrace submit --queue POLICY/PROFILE -- COMMAND, headrace status.")
    lines.append(("" if detached else "Ctrl-C here, or ") + "headrace down stops everything.")
    return "\n".join(f"  {line}".rstrip() for line in lines) + "\n"


def _leave_terminal(installation: Installation) -> None:
    """Redirect the output to a log from now on."""
    sys.stdout.flush()
    log = os.open(installation.logs / "supervisor.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(log, number)
    os.close(log)


def _detach(installation: Installation, args: argparse.Namespace) -> int:
    """Start the same in a session of its own, and wait until it is ready or has failed; its output appears here until then."""
    words = ["up", "--data", str(installation.directory), "--detached"]
    for flag, value in (
        ("--nodes", args.nodes),
        ("--gpus", args.gpus),
        ("--gpu-model", args.gpu_model),
        ("--currency", args.currency),
        ("--layout", args.layout),
        ("--nats-port", args.nats_port),
        ("--nats-servers", args.nats_servers),
        ("--api-port", args.api_port),
        ("--tls-cert", args.tls_cert),
        ("--tls-key", args.tls_key),
        ("--tls-ca", args.tls_ca),
        ("--listen", args.listen),
        ("--reached-as", args.reached_as),
    ):
        words += [] if value is None else [flag, str(value)]
    words += [flag for flag, value in (("--dev-ca", args.dev_ca), ("--no-tls", args.no_tls)) if value]
    words += [] if args.standby is None else ["--standby" if args.standby else "--no-standby"]
    words += [] if args.hold_level is None else ["--hold-level" if args.hold_level else "--no-hold-level"]
    trusted = {True: ["--jobs-are-trusted"], False: ["--no-jobs-are-trusted"], None: []}
    words += trusted[args.jobs_are_trusted]
    words += [word for key, value in args.labels or () for word in ("--labels", f"{key}={value}")]
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a signal to this process ends both, as Ctrl-C does
    process = subprocess.Popen(process_specs.python("headrace.cli", *words), stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603
    try:
        while process.poll() is None:
            running = read_running(installation)
            if running is not None and running.pid == process.pid and running.ready:
                return 0
            time.sleep(POLL_EVERY)
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        raise
    return process.returncode or 1


def down(args: argparse.Namespace) -> int:
    """Stop everything and wait for it."""
    installation = Installation(args.data)
    running = read_running(installation)
    if running is None:
        print(f"Headrace is not up in {installation.directory}.")
        return 0
    print(f"Stopping Headrace in {installation.directory} (pid {running.pid})", flush=True)
    if not stop_running(installation, DOWN_WITHIN, at_once=args.now):
        raise Failed(f"it has not stopped within {DOWN_WITHIN:g} s; `headrace down --now` waits for no job")
    print("Stopped.")
    return 0
