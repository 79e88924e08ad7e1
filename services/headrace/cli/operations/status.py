"""`headrace status`: the supervisor's view of every part, and what each part reports."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from headrace.bus.nats.permissions import SERVICES
from headrace.cli.arguments import Failed, Nouns, add_command, add_data_option, add_json
from headrace.cli.output.formatting import ago, as_json
from headrace.cli.output.service_status import count_in, found, show_cluster, tells, troubles
from headrace.cli.output.tables import table
from headrace.client import HeadraceError
from headrace.contracts.messages.queries import ServiceView
from headrace.contracts.transport.subjects import LEDGER_STREAM
from headrace.health.config import read_targets
from headrace.health.query import ask_all
from headrace.supervisor.cluster.cluster_config import FILE
from headrace.supervisor.installation import CALLOUT, METRICS_TOKEN, Installation
from headrace.supervisor.launcher import process_specs
from headrace.supervisor.launcher.pidfile import RunningInstallation, read_running
from headrace.supervisor.nats.servers import StreamStatus, roles, standing, summary
from headrace.supervisor.service_query import ask_service, operator_client

STATUS_WITHIN = 2.0
WELL = ("running", "standby")
LAG_SHOWN = 1_000
"""Lag in records from which on it is printed as a sentence."""

COLUMNS = {
    "PART": "name",
    "STATE": "state",
    "PID": "pid",
    "RESTARTS": "restarts",
    "UP": "since",
    "FOLDED": "folded",
    "LAG": "lag",
    "JOBS": "jobs",
    "PENDING": "pending",
    "RUNNING": "running",
    "METRICS": "metrics",
}
"""Column headings for people, and the names of the fields in JSON."""

Row = dict[str, object]


class Answers(NamedTuple):
    """Answers of the services (None: no answer), the end of the ledger, its leader, and a problem of all together."""

    views: dict[str, ServiceView | None]
    tip: int
    led: StreamStatus | None
    trouble: str


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "status",
        status,
        "every part: whether it runs, how often it was restarted, how far it has read",
        "headrace status\nheadrace status --json",
    )
    add_data_option(parser)
    add_json(parser)


async def status(args: argparse.Namespace) -> int:
    """Print the status of every part. Raises `Failed` if one of them is not well."""
    installation = Installation(args.data)
    running = read_running(installation)
    if running is None and (installation.directory / FILE).exists():
        all_parts = (*SERVICES, CALLOUT, *(f"{name}{process_specs.STANDBY}" for name in process_specs.STANDBYS))
        said = await _ask_services(installation, all_parts)
        return show_cluster(installation, said.views, said.tip, said.trouble, json=args.json)
    if running is None:
        raise Failed(f"Headrace is not up in {installation.directory}; `headrace up` starts it")
    second = [child.name for child in running.children if child.name.endswith(process_specs.STANDBY)]
    said = await _ask_services(installation, (*SERVICES, *second))
    pages = await ask_all(read_targets(installation.metrics))
    followers = roles(said.led)
    names = [child.name for child in running.children]
    rows = [_part(name, running, said) | followers.get(name, {}) | pages.get(name, {}) for name in names]
    if args.json:
        print(as_json(_whole(installation, running, said) | {"parts": rows}))
    else:
        print(f"Headrace in {installation.directory}, up since {ago(running.since)} (pid {running.pid})")
        print(f"API {running.api}/v1, NATS {running.url}")
        print(f"jobs: {running.jobs}\n" if running.jobs else "")
        shown = [row | {"since": ago(count_in(row["since"])).removesuffix(" ago"), "pid": row["pid"] or None} for row in rows]
        print(table(tuple(COLUMNS), ([row.get(key) for key in COLUMNS.values()] for row in shown)))
        if followers:
            print(f"\n{summary(followers)}")
        if pages:
            token = installation.credentials / METRICS_TOKEN
            print(f"\nMETRICS are http://ADDRESS/metrics (token: {token}), /livez and /readyz beside them.")
        for line in (*_level_lines(said.views.get("governance")), *_behind(rows, followers)):
            print(line)
    if wrong := _wrong(installation, rows, said):
        raise Failed("; ".join(wrong))
    return 0


def _whole(installation: Installation, running: RunningInstallation, said: Answers) -> Row:
    """Status of the installation, with the level of facts in use and what holds newer levels back (`contracts.facts.levels`)."""
    view = said.views.get("governance")
    level = {} if view is None else {"level": {"stated": view.level, "newest": view.newest, "held_back": view.held_back}}
    return {
        "directory": str(installation.directory),
        "pid": running.pid,
        "since": running.since,
        "url": running.url,
        "api": running.api,
        "ready": running.ready,
        "jobs": running.jobs,
        "tip": said.tip,
        **level,
    }


def _level_lines(view: ServiceView | None) -> Iterator[str]:
    if view is not None and view.level < view.newest:
        yield f"Facts are at level {view.level}; they go to {view.newest} when every part reads it:"
        yield from (f"  {line}" for line in view.held_back)


def _behind(rows: list[Row], followers: Mapping[str, object]) -> Iterator[str]:
    """A line for each part that is not ready or far behind the ledger."""
    for row in rows:
        if row.get("ready") is False and row["state"] in WELL:
            yield f"{row['name']} is not ready: {row['health']}"
        if count_in(row.get("lag")) > LAG_SHOWN and row["name"] not in followers:
            pace = f", and takes in {row['facts_per_s']} facts a second" if "facts_per_s" in row else ""
            yield f"{row['name']} is {row['lag']} records behind the ledger{pace}."


def _wrong(installation: Installation, rows: list[Row], said: Answers) -> list[str]:
    """Problems that an operator has to solve."""
    silent = [str(row["name"]) for row in rows if row["state"] not in WELL]
    wrong = (
        [said.trouble] if said.trouble else [f"{', '.join(silent)}: not well; look into {installation.logs}"] if silent else []
    )
    wrong += [*troubles(rows), *found(rows)]
    if said.led is not None and not said.led.leader and not said.trouble:
        wrong.append("the ledger has no leader among the NATS servers: most of them have to be up")
    return wrong


def _part(name: str, running: RunningInstallation, said: Answers) -> Row:
    child = running.child(name)
    row: Row = {} if child is None else msgspec.structs.asdict(child)
    view = said.views.get(name)
    if name in said.views and view is None and row.get("state") == "running":
        row["state"] = "silent"
    if view is not None:
        told = tells(name, view, said.tip)
        row |= told | {"state": told["state"] if row.get("state") == "running" else row.get("state")}
    return row


async def _ask_services(installation: Installation, names: tuple[str, ...]) -> Answers:
    try:
        async with operator_client(installation) as asking:
            stream = await asking.ask(f"$JS.API.STREAM.INFO.{LEDGER_STREAM}", within=STATUS_WITHIN)
            tip = int(json.loads(stream).get("state", {}).get("last_seq", 0))
            answers = await asyncio.gather(*(ask_service(asking, name) for name in names))
            return Answers(dict(zip(names, answers, strict=True)), tip, standing(stream), "")
    except HeadraceError as error:
        return Answers(dict.fromkeys(names), 0, None, str(error))
