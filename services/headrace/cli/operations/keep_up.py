"""The foreground of `headrace up`: everything from its start to its end."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shlex
import signal
import sys
import time

import structlog

from headrace.bus.log import LogError
from headrace.cli.arguments import Failed
from headrace.cli.operations.page import STAYS_FOR
from headrace.client import HeadraceError, connect
from headrace.service.engine_version import has_compiled_rules
from headrace.supervisor.installation import OWNER, Installation, Settings
from headrace.supervisor.launcher.up import Up
from headrace.supervisor.network.ports import PortTaken
from headrace.supervisor.processes.forked import ForkServer, forking
from headrace.supervisor.processes.pidfile import AlreadyRunning
from headrace.supervisor.processes.process_specs import IMPORTED_ONCE
from headrace.supervisor.processes.readiness import NotReady

PLAIN_RULES = (
    "rules  plain Python; the wheel for Linux x86-64, or COMPILED=1 behind make in a checkout, has them compiled: twice as fast"
)


def keep_up(installation: Installation, settings: Settings, args: argparse.Namespace) -> int:
    """Start everything, and keep it alive until a signal."""
    with forking(IMPORTED_ONCE) as server:  # as long as this process has one thread
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # errors come as exceptions
        return asyncio.run(_until_stopped(installation, settings, args, server))


async def _until_stopped(
    installation: Installation, settings: Settings, args: argparse.Namespace, server: ForkServer | None
) -> int:
    began = time.monotonic()
    print(f"Headrace in {installation.directory}", flush=True)
    whole = Up(installation, settings, nats_port=args.nats_port, api_port=args.api_port, fork_server=server, progress=_progress)
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
            welcome = _welcome(installation, whole, page, detached=args.detach)
            print(f"Ready after {time.monotonic() - began:.1f} s.\n\n{welcome}", flush=True)
            if args.detach:
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
