"""`headrace jobs`, `job`, `why`, `logs`, `requeue`, `preempt`; `cancel` has its own module."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Coroutine, Sequence
from typing import Any

from headrace.cli.arguments import (
    Failed,
    Nouns,
    Parser,
    add_command,
    add_login_options,
    asking,
    client,
    did_you_mean,
    instant,
    moment,
    natural,
    positive,
)
from headrace.cli.jobs.columns import FURTHER, USUAL, columns, rows
from headrace.cli.jobs.follow import follow, known, print_attempt
from headrace.cli.jobs.names import ANY, find_job, find_unended_job, split_part
from headrace.cli.jobs.selection import add_filters, add_selection, agreed, is_by_filters, select
from headrace.cli.output.endings import ending
from headrace.cli.output.explain_view import because
from headrace.cli.output.formatting import amounts, as_json, local
from headrace.cli.output.tables import pairs, table
from headrace.cli.output.terminal import clear
from headrace.client import Client, Refused
from headrace.contracts.messages.queries import FINAL, AttemptView, FactView, ForceRequest, JobView
from headrace.contracts.values.arrays import ELEMENTS_MAX, INDEX_MAX, format_array, holds, parse_array, parse_part
from headrace.contracts.values.gpu_memory import memory_text
from headrace.contracts.values.ids import index_of, written

STATES = ("pending", "running", "preempting", "stopping", "suspended", "succeeded", "failed", "cancelled", "rejected")
COUNTS = "; it counts as borrowed until it is used again (R39)"
REQUEUED = ("running", "preempting", "suspended")
"""States of jobs that can be requeued."""
WATCH_EVERY = 2.0
"""Seconds between two lists of `--watch`."""


def add(nouns: Nouns) -> None:
    _add_jobs(nouns)
    example = "01jd3v8k5w2m4x6z8b0c2e4g6h"
    _job_command(
        nouns,
        "job",
        job,
        "show one job: its attempts, and what happened to it",
        f"headrace job {example}\nheadrace job last\nheadrace job train --json",
    )
    parser = _job_command(
        nouns,
        "why",
        why,
        "why a job waits: the reason, what is missing, who has it, when it may start, and what would start it",
        f"headrace why {example}\nheadrace why last\nheadrace why train --at 2026-11-21T08:00:00Z\nheadrace why 01jd3v --at 81234",
    )
    parser.add_argument(
        "--at", type=instant, default=(0, 0), metavar="TIME|SEQ", help="at that time, or after that record of the ledger"
    )
    parser = _job_command(
        nouns,
        "logs",
        logs,
        "print what a job has written",
        f"headrace logs {example}\nheadrace logs sweep:0-9\nheadrace logs last -f\nheadrace logs train --attempt 1 --rank 3",
        json=False,
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="continue until the job has ended, through all its attempts"
    )
    parser.add_argument("--attempt", type=natural, default=0, metavar="N", help="of this attempt (default: the latest)")
    parser.add_argument("--rank", type=natural, default=0, metavar="N", help="of this replica (default: 0)")
    raw = "pass control characters such as colours to the terminal; by default they are shown as text"
    parser.add_argument("--raw", action="store_true", help=raw)
    _add_requeue(nouns, example)
    _add_preempt(nouns, example)


def _add_jobs(nouns: Nouns) -> None:
    parser = add_command(
        nouns,
        "jobs",
        jobs,
        "list jobs, newest first, with the reason why each waits, and how each ended",
        """headrace jobs
        headrace jobs --state pending --state running --queue ai-dev/half
        headrace jobs --owner alice --since 24h --label run=7 --limit 20 --json
        headrace jobs --columns job,name,state,wait,run,labels
        headrace jobs --array sweep --state failed
        headrace jobs --watch""",
    )
    parser.add_argument("--state", action="append", default=[], choices=STATES, help="only jobs in this state; may be repeated")
    add_filters(parser)
    parser.add_argument("--owner", default="", metavar="USER", help="only this user's")
    parser.add_argument(
        "--since", type=moment, default=0, metavar="TIME", help="only those submitted since then: 24h for a day ago, or a time"
    )
    parser.add_argument(
        "--array",
        default="",
        metavar="JOB",
        help="the elements of this array that have started or ended, and the next one, instead of jobs",
    )
    parser.add_argument("--limit", type=positive, default=100, metavar="N", help="maximum number of jobs (default: 100)")
    parser.add_argument(
        "--columns",
        type=columns,
        default=USUAL,
        metavar="A,B",
        help=f"which columns, in this order (default: {','.join(USUAL)}; there are also {','.join(FURTHER)}). wait: from the submit "
        "to the latest start; run: of the latest attempt",
    )
    parser.add_argument("--watch", action="store_true", help="show the list again every two seconds, until Ctrl-C")
    add_login_options(parser)


def _add_requeue(nouns: Nouns, example: str) -> None:
    parser = add_command(
        nouns,
        "requeue",
        requeue,
        "stop running or suspended jobs, with time to save their work, and put them back into the queue at their place",
        f"""headrace requeue {example}
        headrace requeue train --reason "slow node"
        headrace requeue sweep:0-9                             the running ones of ten elements of an array
        headrace requeue --name 'sweep-*'                      all of a sweep; shows how many, and asks for confirmation
        headrace requeue --queue ai-dev/half --everybody --yes all that runs in a queue, without confirmation""",
    )
    add_selection(parser, REQUEUED, "requeued")
    add_login_options(parser, json=False)


def _add_preempt(nouns: Nouns, example: str) -> None:
    parser = _job_command(
        nouns,
        "preempt",
        preempt,
        "stop a job even if it is inside its reservation; stored with who ordered it and why",
        f"""headrace preempt {example} --force --reason "the demo at noon"
        headrace node cordon gpu01                           first, if its GPUs are not to be granted again at once
        headrace delete policy ai-dev --mode freeze          or this, if its queue is not to start anything meanwhile""",
    )
    parser.add_argument("--force", action="store_true", help="required, because the job may be inside its reservation")
    parser.add_argument("--reason", default="", help="required; stored with the order")


def _job_command(nouns: Nouns, name: str, run: object, says: str, examples: str, *, json: bool = True) -> Parser:
    parser = add_command(nouns, name, run, says, examples)  # type: ignore[arg-type]
    parser.add_argument("job", metavar="JOB", help=f"which: {ANY}")
    add_login_options(parser, json=json)
    return parser


@asking
async def preempt(args: argparse.Namespace) -> int:
    """Order the preemption of a job."""
    async with client(args) as hr:
        name = await find_unended_job(hr, args.job)
        answer = await hr.preempt(ForceRequest(job=name, force=args.force, reason=args.reason))
    print(as_json(answer) if args.json else f"{written(name.rpartition('.')[2])} is told to stop")
    return 0


def jobs(args: argparse.Namespace) -> int | Coroutine[Any, Any, int]:
    """Print the list; with `--watch` again and again."""
    if args.watch and args.json:
        raise Failed("--watch and --json: use one of them")
    return _jobs(args) if args.watch else asking(_jobs)(args)


async def _jobs(args: argparse.Namespace) -> int:
    async with client(args) as hr:
        array = (await find_job(hr, args.array)).rpartition(".")[2] if args.array else ""
        while True:
            found = await hr.jobs(
                **({"array": array} if array else {}),
                states=args.state,
                queue=args.queue,
                user=args.owner,
                limit=args.limit,
                name=args.name,
                labels=dict(args.label),
                since=args.since,
            )
            if args.watch and sys.stdout.isatty():
                clear()
            await _print_list(hr, args, found)
            if not args.watch:
                return 0
            import asyncio  # noqa: PLC0415 - one list needs no event loop

            await asyncio.sleep(WATCH_EVERY)


async def _print_list(hr: Client, args: argparse.Namespace, found: Sequence[JobView]) -> None:
    if args.json:
        print(as_json(found))
    elif not found:
        print("No jobs.")
        queues = [queue.name for queue in await hr.queues()] if args.queue else []
        if args.queue and args.queue not in queues:
            print(f"headrace: there is no queue {args.queue}{did_you_mean(args.queue, queues)}", file=sys.stderr)
    else:
        print(table([name.upper() for name in args.columns], rows(found, args.columns, time.time_ns() // 1_000)), flush=True)
        if len(found) == args.limit:
            print(f"The newest {args.limit}; --limit shows more.", file=sys.stderr)


@asking
async def job(args: argparse.Namespace) -> int:
    """Print one job, its attempts and its history."""
    async with client(args) as hr:
        name = await find_job(hr, args.job)
        view = await hr.job(name)
        story = await hr.facts(name)
    if args.json:
        print(as_json({"job": view, "facts": story}))
        return 0
    print(_details(view))
    if view.attempts:
        print("\n" + _attempts(view.attempts))
    if story:
        print("\n" + _story(story))
    return 0


def _details(view: JobView) -> str:
    ended = ending(view) if view.state == "failed" else ""
    reason = f"{view.reason}: {view.message}" if view.message else view.reason
    return pairs(
        (
            ("job", view.id),
            ("name", view.name),
            ("tenant", view.tenant),
            ("user", view.user),
            ("queue", view.queue),
            ("state", view.state),
            ("array", view.array),
            ("elements", ", ".join(f"{count} {state}" for state, count in view.elements.items())),
            ("reason", ended or reason),
            ("exit code", None if ended else view.exit_code),
            ("request", _request(view)),
            ("preemptible", "yes" if view.preemptible else "no"),
            ("priority", view.priority or None),
            ("preempted", f"{view.preemptions} times" if view.preemptions else None),
            ("idle", f"since {local(view.idle_at)}{COUNTS if view.idle_yields else ''}" if view.idle_at else None),
            ("checkpoint", view.checkpoint),
            ("labels", ", ".join(f"{key}={value}" for key, value in sorted(view.labels.items()))),
            ("admitted", local(view.admitted_at)),
            ("ended", local(view.ended_at)),
        )
    )


def _request(view: JobView) -> str:
    """Request as `gpu 0.5 (slice 3g.40gb), 2 replicas`."""
    cut = f" (slice {view.mig})" if view.mig else ""
    asked = amounts(view.request) + cut + (f", {view.replicas} replicas" if view.replicas > 1 else "")
    if not view.shares:
        return asked
    return f"{asked}; {memory_text(view.gpu_memory, view.shares)}"


def _attempts(attempts: tuple[AttemptView, ...]) -> str:
    heads = ("ATTEMPT", "POOL", "NODES", "DEVICES", "STARTED", "ENDED", "EXIT", "CAUSE", "RESUMED FROM")
    rows = (
        (
            *(attempt.attempt, attempt.pool, ",".join(attempt.nodes), ",".join(attempt.devices)),
            *(local(attempt.started_at), local(attempt.ended_at), attempt.exit_code, attempt.cause, attempt.resume_from),
        )
        for attempt in attempts
    )
    return table(heads, rows)


def _story(story: tuple[FactView, ...]) -> str:
    rows = ((local(line.at), line.by, line.text, line.rule) for line in story)
    return table(("TIME", "BY", "WHAT", "RULE"), rows)


@asking
async def why(args: argparse.Namespace) -> int:
    """Print why a job waits."""
    sequence, at = args.at
    async with client(args) as hr:
        view = await hr.why(await find_job(hr, args.job), sequence=sequence, at=at)
    print(as_json(view) if args.json else because(view))
    return 0


async def requeue(args: argparse.Namespace) -> int:
    """Requeue the jobs that are named or selected; those that cannot be requeued are reported, and the others continue."""
    by_filters = is_by_filters(args)
    refused = 0
    async with client(args) as hr:
        names = args.jobs
        if by_filters:
            found, what = await select(hr, args, REQUEUED)
            if not found:
                print("No such jobs.")
                return 0
            if not args.yes and not agreed(f"{what} will be stopped and put back into the queue. Continue? [y/N] "):
                print("No job is requeued.")
                return 1
            names = [view.job for view in found]
        for name in names:
            try:
                print(await _requeue(hr, name, args.reason))
            except (Failed, Refused) as error:
                refused = 1
                print(f"headrace: {error}", file=sys.stderr)
    return refused


async def _requeue(hr: Client, name: str, reason: str) -> str:
    """Look the job up first: a wrong id is reported at once, and an administrator may requeue any user's job."""
    name, part = split_part(name)
    view = await known(hr, await find_unended_job(hr, name))
    if part and not view.array:
        raise Failed(f"{view.id} is not an array; leave out :{part}")
    if view.state in FINAL:
        raise Failed(f"{view.id} has ended: it is {view.state}; submit it again with `headrace submit`, as a new job")
    if view.state == "pending":
        raise Failed(f"{view.id} is pending already")
    await hr.requeue(view.job, reason, **({"elements": part} if part else {}))
    what = f"what runs of {view.id}{part and ':'}{part}" if view.array else view.id
    return f"{what} is stopped, with time to save its work, and put back into the queue"


def logs(args: argparse.Namespace) -> int | Coroutine[Any, Any, int]:
    """Print the output so far, or with `-f` until the job has ended."""
    return _follow(args) if args.follow else _print_logs(args)


async def _follow(args: argparse.Namespace) -> int:
    async with client(args) as hr:
        await follow(hr, await find_job(hr, args.job), args.attempt, args.rank)
    return 0


@asking
async def _print_logs(args: argparse.Namespace) -> int:
    """Print the output of a job; of an array, or a part of one, that of each element that has started, by index."""
    name, part = split_part(args.job)
    async with client(args) as hr:
        found = await find_job(hr, name)
        if not part:
            try:
                await print_attempt(hr, found, args.attempt, args.rank)
            except Refused as refusal:
                if refusal.code != "INVALID" or not (await hr.job(found)).array:
                    raise
            else:
                return 0
        wanted = parse_part(part) if part else ((0, INDEX_MAX),)
        whole = await hr.job(found)
        if not whole.array:
            raise Failed(f"{whole.id} is not an array; leave out :{part}")
        if part and not (elements := parse_array(whole.array)).numbers(wanted):
            raise Failed(f"array {whole.id} has no element {part}; its indices are {format_array(elements, bound=False)}")
        started = [
            one for one in await hr.jobs(array=whole.id, limit=ELEMENTS_MAX) if holds(wanted, index_of(one.id)) and one.attempts
        ]
        if not started:
            raise Failed(f"no element of {args.job} has started; `headrace why {args.job}` says what they wait for")
        for element in reversed(started):
            print(f"-- {written(element.id)} --", file=sys.stderr, flush=True)
            await print_attempt(hr, element.job, args.attempt, args.rank)
    return 0
