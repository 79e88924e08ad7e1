"""`headrace queues`, `pools`, `nodes`, and `headrace node ...`: capacity, its use, and the machines that it is on."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from headrace.cli.arguments import Command, Nouns, Parser, add_command, add_login_options, asking, client, key_value
from headrace.cli.away import ordered
from headrace.cli.output.explain_view import UNUSABLE_HEADS, unusable_row
from headrace.cli.output.formatting import ago, as_json
from headrace.cli.output.tables import table
from headrace.cli.resources import approve
from headrace.contracts.messages.explanation import MaintenanceView
from headrace.contracts.messages.queries import BudgetView, NodeRequest, NodeView, PoolView, QueueView
from headrace.contracts.values.amounts import CPU, GPU, MEMORY, format_amount
from headrace.contracts.values.durations import DurationError, format_time, parse_duration, parse_time
from headrace.contracts.values.isolation import KINDS
from headrace.contracts.values.natural_order import natural_order

if TYPE_CHECKING:
    from headrace.supervisor.installation import Installation, Settings

POLL_EVERY = 0.5
"""Interval in seconds at which a node that is drained is polled."""


def add(nouns: Nouns) -> None:
    add_login_options(
        add_command(
            nouns,
            "queues",
            queues,
            "list the queues, and the usage of their policies",
            "headrace queues\nheadrace queues --json",
        )
    )
    add_login_options(add_command(nouns, "pools", pools, "list the pools, and what is free in them", "headrace pools"))
    add_login_options(add_command(nouns, "nodes", nodes, "list the nodes", "headrace nodes"))
    node = add_command(
        nouns,
        "node",
        _nothing,
        "run a node executor on this machine, or set a node aside",
        "headrace node run --devices sim:8xH100-80GB\nheadrace node cordon gpu01 --reason fan\nheadrace node drain gpu01",
    )
    verbs = node.add_subparsers(title="verbs", metavar="VERB", required=True, parser_class=Parser)
    _add_run(verbs)
    for name, says in (("cordon", "start no new jobs on a node"), ("uncordon", "start new jobs on a node again")):
        verb = _add_verb(verbs, name, cordon, says, f"headrace node {name} gpu01 --reason 'fan replaced'")
        verb.set_defaults(verb=name)
    _add_emptying(verbs)
    approve.add(verbs)


def _add_verb(verbs: Nouns, name: str, run: Command, says: str, examples: str) -> Parser:
    """Add a verb for one node, with a reason."""
    verb = add_command(verbs, name, run, says, examples)
    verb.add_argument("node", metavar="NAME")
    verb.add_argument("--reason", default="", help="stored with the fact")
    add_login_options(verb)
    return verb


def _add_emptying(verbs: Nouns) -> None:
    verb = _add_verb(
        verbs,
        "drain",
        drain,
        "cordon a node, stop its jobs with time to save their work, requeue them, and wait until the node is empty",
        "headrace node drain gpu01 --reason 'new driver'\nheadrace node drain gpu01 --no-wait\nheadrace node uncordon gpu01\n"
        "headrace node drain gpu01 --at 2026-12-01T22:00+01:00 --reason 'new fans'\nheadrace node drain gpu01 --at 8h",
    )
    verb.add_argument("--no-wait", action="store_true", help="do not wait until the last job has left")
    verb.add_argument(
        "--at",
        metavar="TIME",
        type=time_ahead,
        default=0,
        help="drain it then, and start only jobs there until then that end before by their time limit: a time such as "
        "2026-12-01T22:00+01:00 (UTC if it names no zone), or how far ahead, such as 8h; `headrace node uncordon` cancels it (R41)",
    )
    _add_verb(
        verbs,
        "confirm-empty",
        confirm_empty,
        "confirm that overdue jobs no longer run on a node, or, if the node is lost, that no job does",
        "headrace node confirm-empty gpu01 --reason 'powered off'",
    )
    _add_verb(
        verbs,
        "remove",
        remove,
        "remove a node that has left for good; it must be away and hold no jobs; its tokens are revoked",
        "headrace node remove gpu01 --reason sold",
    )


def _add_run(verbs: Nouns) -> None:
    verb = add_command(verbs, "run", run, "run the node executor here, until Ctrl-C")
    verb.add_argument("--name", default="")
    verb.add_argument("--labels", action="append", default=[])
    verb.add_argument("--devices", default="auto")
    verb.add_argument("--data")
    verb.format_help = _executors_help  # type: ignore[method-assign]  # its options are the executor's, which has a parser of its own
    verb.set_defaults(takes_more=True)


def _executors_help() -> str:
    """The help of the executor, as wide as this terminal."""
    from headrace.supervisor.processes import process_specs  # noqa: PLC0415 - other commands need not load it

    command = process_specs.python(process_specs.EXECUTOR, "run", "--help")
    environment = {**os.environ, "COLUMNS": str(shutil.get_terminal_size().columns)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout  # noqa: S603 - our own program


def _nothing(args: argparse.Namespace) -> int:
    raise AssertionError(args)


@asking
async def queues(args: argparse.Namespace) -> int:
    """Print the queues (policy x profile) and the use of their policies."""
    async with client(args) as hr:
        found = await hr.queues()
    tenant = f"tenant {hr.tenant}" if hr.tenant else "your tenant"
    none = f"No queues in {tenant}; `headrace apply` makes them, and --tenant asks for those of another tenant."
    print(as_json(found) if args.json else queue_table(found) if found else none)
    return 0


def queue_table(found: Iterable[QueueView]) -> str:
    """Table of the queues (policy x profile) and the use of their policies, a row for each key."""
    heads = ("QUEUE", "CLOSED", "PENDING", "RUNNING", "KEY", "USED", "RESERVATION", "BORROWED", "LIMIT", "BUDGET")
    queues = list(found)
    first = table(heads, (row for queue in queues for row in _queue_rows(queue)))
    policies = {queue.policy: queue for queue in queues if queue.users}
    users = (row for queue in policies.values() for row in _user_rows(queue))
    return f"{first}\n\n{table(_USER_HEADS, users)}" if policies else first


_USER_HEADS = ("POLICY", "USER", "KEY", "USED", "LIMIT", "PENDING", "AT MOST")


def _user_rows(queue: QueueView) -> Iterator[tuple[object, ...]]:
    """What each user of a policy holds, the one with the most in use first."""
    fair = f"{queue.policy} (fair)" if queue.fair_among else queue.policy
    for user in queue.users:
        first: tuple[object, ...] = (fair, user.user)
        last: tuple[object, ...] = (user.pending, user.max_pending or "")
        for key in dict.fromkeys((GPU, *user.limit)):
            limit = format_amount(key, user.limit[key]) if key in user.limit else ""
            yield (*first, key, format_amount(key, user.used.get(key, 0)), limit, *last)
            first, last = ("", ""), ("", "")
        fair = ""


def _queue_rows(queue: QueueView) -> Iterator[tuple[object, ...]]:
    closed = queue.closed or ("window" if queue.shut else "")
    first: tuple[object, ...] = (queue.name, closed, queue.pending, queue.running)
    budgets = ", ".join(f"{one.used} of {one.hours} h {one.key} per {one.per}{_alarm(one)}" for one in queue.budgets)
    for scope in queue.scopes or (None,):
        if scope is None:
            yield (*first, "", "", "", "", "", budgets)
        else:
            amounts = (scope.used, scope.reservation, scope.borrowed, scope.limit)
            shown = ("" if amount is None else format_amount(scope.key, amount) for amount in amounts)
            yield (*first, scope.key, *shown, budgets)
        first, budgets = ("", "", "", ""), ""


def _alarm(budget: BudgetView) -> str:
    """Short sign that a budget is, or soon will be, used up; `headrace usage` and `why` have the details."""
    return ", used up" if budget.spent else ", nearly used up" if budget.warning else ""


@asking
async def pools(args: argparse.Namespace) -> int:
    """Print the pools, a row for each key."""
    async with client(args) as hr:
        found = await hr.pools()
    print(as_json(found) if args.json else pool_table(found) if found else "No pools; `headrace apply` makes them.")
    return 0


def pool_table(found: Iterable[PoolView]) -> str:
    """Table of the pools, a row for each key; below it what is unusable, and why."""
    pools = list(found)
    heads = ("POOL", "NODES", "RUNNING", "PENDING", "KEY", "CAPACITY", "USABLE", "USED", "KEPT", "UNUSABLE", "FREE")
    first = table(heads, (row for pool in pools for row in _pool_rows(pool)))
    causes = [unusable_row(one, pool.name) for pool in pools for key in pool.keys for one in key.causes]
    return f"{first}\n\n{table(UNUSABLE_HEADS, causes)}" if causes else first


def _pool_rows(pool: PoolView) -> Iterator[tuple[object, ...]]:
    first: tuple[object, ...] = (pool.name, pool.nodes, pool.running, pool.pending)
    for key in pool.keys:
        amounts = (key.capacity, key.usable, key.used, key.kept, key.unusable, key.free)
        yield (*first, key.key, *(format_amount(key.key, amount) for amount in amounts))
        first = ("", "", "", "")
    if not pool.keys:
        yield (*first, "", "", "", "", "", "", "")


@asking
async def nodes(args: argparse.Namespace) -> int:
    """Print the nodes and what is free on each."""
    async with client(args) as hr:
        found = await hr.nodes()
    print(as_json(found) if args.json else node_table(found) if found else "No nodes; `headrace node run` adds one.")
    return 0


def node_table(found: Iterable[NodeView]) -> str:
    """Table of the nodes and what is free on each."""
    heads = (
        "NODE",
        "POOL",
        "STATE",
        "MODEL",
        "GPUS",
        "FREE",
        "UNFIT",
        "ISOLATION",
        "CPU",
        "FREE CPU",
        "MEMORY",
        "FREE MEMORY",
        "HEARD",
        "OWNER",
        "LABELS",
        "UNAPPROVED",
        "REASON",
        "MAINTENANCE",
    )
    return table(heads, map(_node_row, sorted(found, key=lambda node: natural_order(node.name))))


def _node_row(node: NodeView) -> tuple[object, ...]:
    free, cpu, cpu_free = format_amount(GPU, node.gpu_free), format_amount(CPU, node.cpu), format_amount(CPU, node.cpu_free)
    memory, memory_free = format_amount(MEMORY, node.memory), format_amount(MEMORY, node.memory_free)
    labels = ",".join(f"{key}={value}" for key, value in sorted(node.labels.items()))
    return (
        node.name,
        node.pool,
        node.state,
        node.model + (" (MIG)" if node.slices else ""),
        node.gpus,
        free,
        ",".join(sorted(node.unfit)),
        "/".join(dict.fromkeys(node.isolation.get(kind, "") for kind in KINDS)) if node.gpus else "",
        cpu,
        cpu_free,
        memory,
        memory_free,
        ago(node.last_heard),
        node.dedicated_to,
        labels,
        ", ".join(node.unapproved),
        node.reason,
        _maintenance(node.maintenance) if node.maintenance is not None else "",
    )


def _maintenance(one: MaintenanceView) -> str:
    """`drain 2026-12-01T22:00:00.000Z (new fans)`, `window 2026-… to 2026-…`."""
    until = f" to {format_time(one.ends)}" if one.ends else ""
    return f"{one.kind} {format_time(one.begins)}{until}" + (f" ({one.reason})" if one.reason else "")


def cordon(args: argparse.Namespace) -> int:
    """Cordon or uncordon a node."""
    order = NodeRequest(node=args.node, reason=args.reason)
    fields = {"name": f"nodes/{args.node}", "reason": args.reason}
    method = f"{args.verb.capitalize()}Node"
    answer = ordered(args, lambda hr: hr.node_order(args.verb, order), method, fields)
    for warning in answer.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(as_json(answer) if args.json else f"{args.node} is {args.verb}ed")
    return 0


def time_ahead(text: str) -> int:
    """Microseconds since 1970 of a time, or of as far ahead as a duration says. Raises ArgumentTypeError if malformed."""
    try:
        return time.time_ns() // 1_000 + parse_duration(text)
    except DurationError:
        pass
    try:
        return parse_time(text)
    except DurationError:
        raise argparse.ArgumentTypeError(
            f"invalid time {text[:80]!r}: use a time such as 2026-12-01T22:00+01:00, or how far ahead, such as 8h"
        ) from None


async def drain(args: argparse.Namespace) -> int:
    """Drain a node; prints on standard error how many jobs are left whenever that changes."""
    import asyncio  # noqa: PLC0415 - the other commands do not need it

    request, shown = NodeRequest(node=args.node, reason=args.reason, begins=args.at), -1
    async with client(args) as hr:
        if args.at:
            answer = await hr.node_order("drain", request)
            print(as_json(answer) if args.json else f"{args.node} will be drained at {format_time(args.at)}")
            return 0
        while True:
            answer = await hr.node_order("drain", request)
            if not answer.running or args.no_wait:
                break
            if answer.running != shown:
                shown = answer.running
                print(f"{args.node}: {shown} jobs have to stop", file=sys.stderr)
            await asyncio.sleep(POLL_EVERY)
    left = f"is draining: {answer.running} jobs have to stop" if answer.running else "is drained"
    print(as_json(answer) if args.json else f"{args.node} {left}")
    return 0


@asking
async def remove(args: argparse.Namespace) -> int:
    """Remove a node from the installation."""
    async with client(args) as hr:
        answer = await hr.node_order("remove", NodeRequest(node=args.node, reason=args.reason))
    print(as_json(answer) if args.json else f"{args.node} is removed")
    return 0


@asking
async def confirm_empty(args: argparse.Namespace) -> int:
    """State that a person has checked that the node runs nothing."""
    async with client(args) as hr:
        answer = await hr.node_order("confirm-empty", NodeRequest(node=args.node, reason=args.reason))
    sentence = (
        f"{args.node} is empty: {answer.running} jobs are requeued" if answer.running else f"no job was left on {args.node}"
    )
    print(as_json(answer) if args.json else sentence)
    return 0


def run(args: argparse.Namespace) -> NoReturn:
    """Become the node executor, with a login made here, or with the one that the environment names for a Headrace on another machine."""
    from headrace.bus.variables import PASSWORD, URL, USER  # noqa: PLC0415 - the other commands do not need these
    from headrace.supervisor.installation import Installation  # noqa: PLC0415
    from headrace.supervisor.processes import process_specs  # noqa: PLC0415

    installation = Installation()
    name = args.name or installation.settings().host
    data = Path(args.data) if args.data else installation.node_directory(name)
    environment = dict(os.environ)
    if not all(environment.get(variable) for variable in (URL, USER, PASSWORD)):
        environment |= _login(installation, name, data)
    labels = dict(key_value(pair) for pair in ",".join(args.labels).split(",") if pair)
    words = (*process_specs.executor_arguments(name, data, labels, args.devices), *args.more)
    sys.stdout.flush()
    os.execve(sys.executable, process_specs.python(process_specs.EXECUTOR, *words), environment)  # noqa: S606 - our own program, which replaces this process


def _login(installation: Installation, name: str, data: Path) -> Mapping[str, str]:
    """Login of the node at the installation on this machine.

    A new one is written into the configuration of the NATS servers, for their next start. Until then *callout* lets the node in.
    """
    from headrace.bus.variables import PASSWORD, URL, USER  # noqa: PLC0415 - as in `run`
    from headrace.supervisor.errors import InstallationError  # noqa: PLC0415
    from headrace.supervisor.processes import process_specs  # noqa: PLC0415
    from headrace.supervisor.processes.pidfile import read_running  # noqa: PLC0415

    running = read_running(installation)
    names = {place.name for place in installation.servers()}
    if running is None or not any(child.name in names and child.pid for child in running.children):
        raise InstallationError(
            f"no Headrace is up in {installation.directory}: `headrace up` starts one; for one elsewhere set {URL}, {USER} and {PASSWORD}"
        )
    if running.child(process_specs.NODE + name) is not None:
        raise InstallationError(f"--name: {name} is run by `headrace up` already; choose another")
    settings: Settings = installation.settings()
    is_new = not (installation.credentials / f"node-{name}.json").exists()
    login = installation.node(name)
    if is_new:
        installation.write_nats_config(settings.client_ports, settings.route_ports)
    return process_specs.login_environment(running.url, login, data)
