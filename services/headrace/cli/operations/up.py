"""`headrace up`, `down`: starts and stops the whole system on this machine."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time

import msgspec

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
from headrace.cli.operations.tls_options import add_listening, listening
from headrace.host.layouts import LAYOUTS
from headrace.supervisor.installation import CLUSTER_OF, Installation, Settings
from headrace.supervisor.processes.beginning import begin_session
from headrace.supervisor.processes.pidfile import read_running, stop_running

DOWN_WITHIN = 120.0
POLL_EVERY = 0.05

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
        pid = _fork_into_background()
        if pid:
            return _wait_until_ready(installation, pid)
    import headrace.health.without_rich  # noqa: F401, PLC0415 - before structlog
    from headrace.cli.operations.keep_up import keep_up  # noqa: PLC0415 - takes half a second, which `down` and `up --detach` do not need

    return keep_up(installation, settings, args)


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


def _fork_into_background() -> int:
    """Go on in a process of a session of its own as well; returns 0 there, and its id here."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        begin_session(0)
    return pid


def _wait_until_ready(installation: Installation, pid: int) -> int:
    """Wait until the process in the background is ready or has failed; its output appears here until then."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a signal to this process ends both, as Ctrl-C does
    try:
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status) or 1
            running = read_running(installation)
            if running is not None and running.pid == pid and running.ready:
                return 0
            time.sleep(POLL_EVERY)
    except KeyboardInterrupt:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)
        raise


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
