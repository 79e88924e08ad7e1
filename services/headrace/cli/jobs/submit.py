"""`headrace submit`: submits jobs and, with `--wait`, waits for their end."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import shlex
import stat
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from headrace.cli.arguments import Failed, Nouns, Parser, add_command, add_login_options, between, client, key_value
from headrace.cli.jobs.follow import follow
from headrace.cli.jobs.names import ANY, find_job
from headrace.cli.output.endings import ending
from headrace.cli.output.formatting import as_json, plain
from headrace.cli.output.streams import complain
from headrace.cli.output.terminal import progress
from headrace.client import Client, Refused, SubmittedJob, Unreachable
from headrace.client.contexts import only_here
from headrace.client.submissions import SubmissionOptions, make_submission
from headrace.contracts.messages.queries import JobView
from headrace.contracts.messages.submissions import PRIORITY_MAX, RETRIES_MAX, JobSubmission
from headrace.contracts.messages.trials import TrialAnswer
from headrace.contracts.values.arrays import ArrayError, parse_array

WAITS_AT_ONCE = 50
SHOWN_MAX = 10
COUNT_MAX = 1_000_000
JUDGED_MAX = 1_000
"""Number of jobs that a dry run judges."""
AT_ONCE = 1_000
"""Number of jobs that are made and sent before the next ones are made."""

WORKDIR = """directory in which it starts; a relative path counts from here (default: this directory, if the installation is on this machine
only and there is no --image; otherwise, and with --workdir '', an empty directory of its own)"""

_SHELL_SYNTAX = re.compile(r"[|&;<>()$`\\*?\[#~!{}\n]|^\s*\w+=")
"""Characters that a shell interprets. It also matches inside quotes, where running the command by a shell does no harm."""

EXAMPLES = """
headrace submit --queue ai-dev/half -- python train.py --epochs 3
headrace submit --queue ai-dev/half --name sweep --count 20 --env SEED=7 -- ./run.sh
headrace submit --queue ai-dev/half --array 0-499%8 -- sh -c './run.sh $HEADRACE_ARRAY_INDEX'     500 jobs, 8 at once
headrace submit --queue ai-dev/half --on-abort "python save.py" --time-limit 8h -- python train.py
headrace submit --queue ai-dev/half --on-abort 'cp *.pt "$HEADRACE_CHECKPOINT_DIR"' -- ./run.sh
headrace submit --queue ai-dev/half --request gpu=0.25 --after train:ok --wait -- make report
headrace submit --queue ai-dev/half --dry-run --time-limit 8h -- python train.py     what it would cost in the cloud
headrace submit --queue ai-dev/half --user bob -- true      as another user, with the login of the installation's owner
"""


def add(nouns: Nouns) -> None:
    parser = add_command(nouns, "submit", submit, "submit a job to a queue; prints its id once it is durable", EXAMPLES)
    parser.add_argument("--queue", required=True, metavar="POLICY/PROFILE", help="the queue; `headrace queues` lists them")
    parser.add_argument("--name", default="", help="a name of your choice; with --count they are NAME-1, NAME-2, ...")
    parser.add_argument(
        "--id",
        default="",
        metavar="ULID",
        help="the job's id, so that a submit may be repeated: the same id is the same job",
    )
    _add_many(parser)
    parser.add_argument(
        "--env", action="append", default=[], metavar="K=V", help="a variable; K alone takes the value that it has here"
    )
    parser.add_argument("--on-behalf-of", default="", metavar="USER", help="for whom this service account submits")
    parser.add_argument(
        "--secret-env", action="append", default=[], metavar="K", help="a variable whose value is on the node and is not sent"
    )
    parser.add_argument("--image", default="", help="a container image")
    parser.add_argument("--workdir", metavar="DIR", help=WORKDIR)
    parser.add_argument("--non-preemptible", action="store_true", help="never preempted; has to fit inside the reservation")
    parser.add_argument(
        "--priority",
        type=between(-PRIORITY_MAX, PRIORITY_MAX),
        default=0,
        metavar="N",
        help="order among the jobs of its queue, higher first",
    )
    parser.add_argument("--time-limit", default="", metavar="SPAN", help="such as 90m or 8h; the job is stopped after that")
    parser.add_argument(
        "--after",
        action="append",
        default=[],
        metavar="JOB[:ok|any]",
        help=f"start only after that job has ended (ok: with success); {ANY}",
    )
    parser.add_argument(
        "--on-abort",
        type=callback,
        default="",
        metavar="CMD",
        help="command that runs beside the job when it has to stop, before SIGTERM; by `sh -c` if it contains shell syntax",
    )
    parser.add_argument(
        "--retries", type=between(0, RETRIES_MAX), default=0, metavar="N", help="how often it is started again if it fails"
    )
    for option, of, text in (
        ("--request", "KEY=AMOUNT", "below the profile's: gpu=0.25, or gpu_memory=10GiB"),
        ("--label", "K=V", "stored with the job"),
    ):
        parser.add_argument(option, type=key_value, action="append", default=[], metavar=of, help=text)
    parser.add_argument(
        "--wait",
        action="store_true",
        help="print what the job writes (of one job), wait for its end, and exit with its exit code",
    )
    add_login_options(parser)
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the command of the job, after --")


def _add_many(parser: Parser) -> None:
    """Add what submits several jobs at once, or none."""
    parser.add_argument("--count", type=between(1, COUNT_MAX), default=1, metavar="N", help="number of equal jobs (default: 1)")
    parser.add_argument(
        "--array",
        type=array,
        default=None,
        metavar="A-B[:STEP][%N]",
        help="not one job but one for each index, at most N of them at once; HEADRACE_ARRAY_INDEX says which it is",
    )
    parser.add_argument(
        "--dry-run",
        action="store_true",
        help="submit nothing: print whether the jobs would be admitted, and what nodes would cost that are created for them",
    )


def array(text: str) -> str:
    """The array as written, for argparse."""
    try:
        parse_array(text)
    except ArrayError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def callback(command: str) -> tuple[str, ...]:
    """Words of an abort callback: the words of the command, or `sh -c COMMAND` if it has shell syntax.

    Raises `ArgumentTypeError` for a quotation without an end.
    """
    if _SHELL_SYNTAX.search(command):
        return "sh", "-c", command
    try:
        return tuple(shlex.split(command))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{command!r}: {error}; close it, or write a script and name that") from None


async def submit(args: argparse.Namespace) -> int:
    """Print ids at once; then the last job's rejection, if any, and with --wait the end of all."""
    async with client(args) as hr:
        args.after = [await _dependency(hr, text) for text in args.after]
        if args.dry_run:
            if args.count > JUDGED_MAX:
                raise Failed(f"--dry-run judges up to {JUDGED_MAX:,} jobs; use a smaller --count, or an --array")
            return _show_trial(args, await hr.judge(args.queue, list(islice(_submissions(args), JUDGED_MAX))))
        submitted = await _submitted(hr, args)
        if args.wait:
            views = await _ends(hr, submitted, shown=len(submitted) == 1 and not args.json and not args.array)
        else:
            views = [view for view in [await hr.judged(submitted[-1])] if view]
        if args.json:
            _print_json(submitted, views)
    code = _verdict(views, waited=args.wait)
    if code and args.count > len(views):
        print(f"headrace: that is the last of {args.count}; `headrace jobs` shows the others", file=sys.stderr)
    return code


def _show_trial(args: argparse.Namespace, trial: TrialAnswer) -> int:
    """Print what would become of the jobs; 1 if one would be rejected."""
    rejected = [one for one in trial.verdicts if one.reason]
    if args.json:
        print(as_json(trial))
    else:
        counts = Counter(f"{one.reason}: {one.message}" for one in rejected)
        lines = [f"{count} would be rejected: {why}" for why, count in counts.items()]
        admitted = len(trial.verdicts) - len(rejected)
        shares = dict.fromkeys(one.message for one in trial.verdicts if one.message and not one.reason)
        print("\n".join([*([f"{admitted} would be admitted"] if admitted else []), *shares, *lines, *trial.costs]))
    return int(bool(rejected))


async def _dependency(hr: Client, text: str) -> str:
    """`JOB[:ok|any]` with the job's id for what was written."""
    name, _, when = text.rpartition(":")
    if when not in ("ok", "any"):
        name, when = text, ""
    return ":".join(filter(None, (await find_job(hr, name), when)))


async def _submitted(hr: Client, args: argparse.Namespace) -> list[SubmittedJob]:
    """What was submitted: all of it if it is needed later, else the last job. Prints the ids as they are stored."""
    kept: list[SubmittedJob] = []
    done, shows = 0, args.count > AT_ONCE and sys.stderr.isatty()
    making = _submissions(args)
    try:
        while some := list(islice(making, AT_ONCE)):
            submitted = await hr.submit_many(args.queue, some)
            done += len(submitted)
            kept = [*kept, *submitted] if args.wait or args.json else [submitted[-1]]
            if not args.json:
                print("\n".join(job.id for job in submitted), flush=True)
            if shows:
                progress(f"{done} of {args.count} submitted")
    except asyncio.CancelledError:
        named = f"; `headrace cancel --name '{args.name}-*'` ends them" if args.name and args.count > 1 else ""
        complain(f"interrupted: {done} of {args.count} jobs are known to be submitted, and up to {AT_ONCE} more may be{named}")
        raise
    except (Refused, Unreachable) as error:
        if not done:
            raise
        raise Failed(f"{error}; {done} of {args.count} jobs are submitted") from None
    if shows:
        progress("")
    return kept


def _submissions(args: argparse.Namespace) -> Iterator[JobSubmission]:
    """The jobs, made one by one, because there may be very many."""
    if args.id and args.count > 1:
        raise Failed("--id names one job: leave out --count, or submit them one by one")
    if args.array and args.count > 1:
        raise Failed("--array and --count: say one of them; an array is one submission")
    options: SubmissionOptions = {
        "env": dict(_variable(text) for text in args.env),
        "secret_env": args.secret_env,
        **({"on_behalf_of": args.on_behalf_of} if args.on_behalf_of else {}),
        **({"id": args.id} if args.id else {}),
        "image": args.image,
        "workdir": _workdir(args),
        "preemptible": not args.non_preemptible,
        "priority": args.priority,
        "on_abort": args.on_abort,
        "retries": args.retries,
        "time_limit": args.time_limit,
        "after": args.after,
        "request": dict(args.request),
        "labels": dict(args.label),
        **({"array": args.array} if args.array else {}),
    }
    for number in range(1, args.count + 1):
        options["name"] = f"{args.name}-{number}" if args.name and args.count > 1 else args.name
        yield make_submission(args.command, **options)


def _workdir(args: argparse.Namespace) -> str:
    """Where the jobs start: as given; else this directory, if their nodes are this machine and their accounts may enter it."""
    if args.workdir is not None:
        return str(Path(args.workdir).absolute()) if args.workdir else ""
    if args.image:
        return ""
    here = Path.cwd()
    jobs_run_as = only_here(data=args.data, server=args.server, context=args.context)
    if jobs_run_as is None:
        return ""
    if jobs_run_as != os.geteuid() or not jobs_run_as:
        closed = next((part for part in (here, *here.parents) if not part.stat().st_mode & stat.S_IXOTH), None)
        if closed is not None:
            print(
                f"headrace: the job starts in a directory of its own, because accounts of jobs may not enter {closed}",
                file=sys.stderr,
            )
            return ""
    return str(here)


def _variable(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if equals:
        return key, value
    try:
        return key, os.environ[key]
    except KeyError:
        raise Failed(f"--env {key}: the variable is not set here; write {key}=VALUE") from None


async def _ends(hr: Client, submitted: Sequence[SubmittedJob], *, shown: bool) -> list[JobView]:
    """The jobs, all ended; `shown`: print what they write meanwhile."""
    gate = asyncio.Semaphore(WAITS_AT_ONCE)

    async def end(job: SubmittedJob) -> JobView:
        async with gate:
            if shown:
                with contextlib.suppress(
                    Refused, Unreachable
                ):  # a job that never started has no output, and another's id no job
                    await follow(hr, job.key)
            return await hr.wait(job)

    try:
        return await asyncio.gather(*(end(job) for job in submitted))
    except asyncio.CancelledError:
        ids = " ".join(job.id for job in submitted[:3]) + (" ..." if len(submitted) > 3 else "")
        print(f"headrace: the jobs go on; `headrace cancel {ids}` ends them", file=sys.stderr)
        raise


def _print_json(submitted: Sequence[SubmittedJob], views: list[JobView]) -> None:
    by_key = {view.job: plain(view) for view in views}
    print(json.dumps([{"id": job.id, "job": job.key, "view": by_key.get(job.key)} for job in submitted], indent=2))


def _verdict(views: list[JobView], *, waited: bool) -> int:
    """The exit code. Prints a line for each job that did not succeed, SAID_MAX at most."""
    bad = [view for view in views if view.state == "rejected" or (waited and view.state != "succeeded")]
    for view in bad[:SHOWN_MAX]:
        print(f"headrace: {_end_of(view)}", file=sys.stderr)
    if len(bad) > SHOWN_MAX:
        print(f"headrace: and {len(bad) - SHOWN_MAX} more; `headrace jobs` lists them", file=sys.stderr)
    return max((view.exit_code or 1 for view in bad), default=0)


def _end_of(view: JobView) -> str:
    if view.state == "rejected":
        where = f" (in tenant {view.tenant}; --tenant names another one)" if view.reason == "UNKNOWN_QUEUE" else ""
        return f"{view.id} was rejected: {view.reason}: {view.message}{where}"
    return ": ".join(filter(None, (f"{view.id} {view.state}", view.message if view.array else ending(view))))
