"""`headrace status`: the supervisor's view of every part, and what each part reports."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from headrace.cli.arguments import Failed, Nouns, add_command, add_json, add_where_options, client
from headrace.cli.output.formatting import ago, as_json
from headrace.cli.output.service_status import count_in, found, show_services, status_row, troubles
from headrace.cli.output.tables import table
from headrace.client import HeadraceError, Refused
from headrace.client.api import Api, ApiTarget
from headrace.client.contexts import Chosen, chosen_context
from headrace.client.endpoint import data_directory, read_endpoint, read_login
from headrace.client.status_answers import installation as installation_view
from headrace.client.streams import answered
from headrace.contracts.messages.installation import InstallationView
from headrace.contracts.messages.queries import ServiceView
from headrace.health.addresses import read_targets
from headrace.health.query import ask_all
from headrace.supervisor.directories import CLUSTER_FILE, CREDENTIALS, LOGS, METRICS, METRICS_TOKEN
from headrace.supervisor.ledger_roles import roles, summary
from headrace.supervisor.processes.pidfile import RunningInstallation, read_running_in

STATUS_WITHIN = 5.0
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
    """What the services report, and a problem of all together."""

    view: InstallationView
    trouble: str = ""


def add(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "status",
        status,
        "show every part: whether it runs, how often it was restarted, how far it has read",
        "headrace status\nheadrace status --json\nheadrace status --server https://headrace.example:8080",
    )
    add_where_options(parser)
    add_json(parser)


def status(args: argparse.Namespace) -> int:
    """Print the status of every part. Raises `Failed` if one of them is not well."""
    remote = chosen_context(Chosen(args.server, args.context, args.data))
    if remote is not None:
        return show_services({"server": remote.server}, answered(_remote_view(args)), "", json=args.json)
    directory = data_directory(args.data)
    running = read_running_in(directory)
    if running is None and (directory / CLUSTER_FILE).exists():
        answers = _ask_over_nats(directory)
        return show_services({"directory": str(directory)}, answers.view, answers.trouble, json=args.json)
    if running is None:
        raise Failed(f"Headrace is not up in {directory}; `headrace up` starts it")
    answers = _ask(directory)
    pages = ask_all(read_targets(directory / METRICS))
    followers = roles(answers.view.ledger)
    names = [child.name for child in running.children]
    rows = [_part(name, running, answers) | followers.get(name, {}) | pages.get(name, {}) for name in names]
    if args.json:
        print(as_json(_whole(directory, running, answers) | {"parts": rows}))
    else:
        print(f"Headrace in {directory}, up since {ago(running.since)} (pid {running.pid})")
        print(f"API {running.api}/v1, NATS {running.url}")
        print(f"jobs: {running.jobs}\n" if running.jobs else "")
        shown = [row | {"since": ago(count_in(row["since"])).removesuffix(" ago"), "pid": row["pid"] or None} for row in rows]
        print(table(tuple(COLUMNS), ([row.get(key) for key in COLUMNS.values()] for row in shown)))
        if followers:
            print(f"\n{summary(followers)}")
        if pages:
            token = directory / CREDENTIALS / METRICS_TOKEN
            print(f"\nMETRICS are http://ADDRESS/metrics (token: {token}), /livez and /readyz beside them.")
        for line in (*_level_lines(answers.view.services.get("governance")), *_behind(rows, followers)):
            print(line)
    if wrong := _wrong(directory, rows, answers):
        raise Failed("; ".join(wrong))
    return 0


async def _remote_view(args: argparse.Namespace) -> InstallationView:
    as_itself = argparse.Namespace(data=args.data, server=args.server, context=args.context, tenant="", user="")
    try:
        async with client(as_itself) as hr:
            return await hr.status()
    except Refused as refusal:
        if refusal.code != "NOT_ALLOWED":
            raise
        raise Failed(
            "only administrators and viewers of the installation may see its status: use a token of one of them"
        ) from None


def _ask(directory: Path) -> Answers:
    """By one question to the API as the owner; if that does not answer, or has no NATS, by a question to each service."""
    try:
        view = answered(_ask_api(directory))
    except HeadraceError:
        view = None
    return Answers(view) if view is not None and view.tip else _ask_over_nats(directory)


async def _ask_api(directory: Path) -> InstallationView | None:
    endpoint = read_endpoint(directory)
    if endpoint is None or not endpoint.local:
        return None
    owner = read_login(directory / endpoint.credentials)
    api = Api(ApiTarget(socket=endpoint.local, token=owner.password))
    try:
        return installation_view(await api.get("/v1/status", within=STATUS_WITHIN))
    finally:
        await api.close()


def _ask_over_nats(directory: Path) -> Answers:
    import asyncio  # noqa: PLC0415 - NATS and what it needs take half a second to import

    from headrace.cli.operations import status_over_nats  # noqa: PLC0415
    from headrace.supervisor.installation import Installation  # noqa: PLC0415

    return Answers(*asyncio.run(status_over_nats.ask(Installation(directory))))


def _whole(directory: Path, running: RunningInstallation, answers: Answers) -> Row:
    """Status of the installation, with the level of facts in use and what holds newer levels back (`contracts.facts.levels`)."""
    view = answers.view.services.get("governance")
    level = {} if view is None else {"level": {"stated": view.level, "newest": view.newest, "held_back": view.held_back}}
    return {
        "directory": str(directory),
        "pid": running.pid,
        "since": running.since,
        "url": running.url,
        "api": running.api,
        "ready": running.ready,
        "jobs": running.jobs,
        "tip": answers.view.tip,
        **level,
    }


def _level_lines(view: ServiceView | None) -> Iterator[str]:
    if view is not None and view.level < view.newest:
        yield f"Facts have level {view.level}; it rises to {view.newest} when every part can read that:"
        yield from (f"  {line}" for line in view.held_back)


def _behind(rows: list[Row], followers: Mapping[str, object]) -> Iterator[str]:
    """A line for each part that is not ready or far behind the ledger."""
    for row in rows:
        if row.get("ready") is False and row["state"] in WELL:
            yield f"{row['name']} is not ready: {row['health']}"
        if count_in(row.get("lag")) > LAG_SHOWN and row["name"] not in followers:
            pace = f", and reads {row['facts_per_s']} facts a second" if "facts_per_s" in row else ""
            yield f"{row['name']} is {row['lag']} records behind the ledger{pace}."


def _wrong(directory: Path, rows: list[Row], answers: Answers) -> list[str]:
    """Problems that an operator has to solve."""
    silent = [str(row["name"]) for row in rows if row["state"] not in WELL]
    wrong = (
        [answers.trouble]
        if answers.trouble
        else [f"{', '.join(silent)}: not ready; see the logs in {directory / LOGS}"]
        if silent
        else []
    )
    wrong += [*troubles(rows), *found(rows)]
    if answers.view.ledger is not None and not answers.view.ledger.leader and not answers.trouble:
        wrong.append("the ledger has no leader among the NATS servers: most of them have to be up")
    return wrong


def _part(name: str, running: RunningInstallation, answers: Answers) -> Row:
    child = running.child(name)
    row: Row = {} if child is None else msgspec.structs.asdict(child)
    view = answers.view.services.get(name)
    if name in answers.view.services and view is None and row.get("state") == "running":
        row["state"] = "silent"
    if view is not None:
        row_of_view = status_row(name, view, answers.view.tip)
        row |= row_of_view | {"state": row_of_view["state"] if row.get("state") == "running" else row.get("state")}
    return row
