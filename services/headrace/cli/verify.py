"""`headrace audit verify`: whether the ledger is what was written, and what was written what this engine decides."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from typing import TYPE_CHECKING

import structlog

from headrace.audit.verify import Verifier
from headrace.audit.verify_reading import what_is_there
from headrace.bus.jetstream import JetStreamLog
from headrace.bus.log import LogError
from headrace.cli.arguments import Failed, Nouns, add_asker, add_command, client
from headrace.client.endpoint import TOKEN, URL
from headrace.contracts.codec import encode
from headrace.contracts.queries import RecordsAnswer, RecordsRequest
from headrace.contracts.subjects import LEDGER_STREAM
from headrace.service.engine import ENGINE
from headrace.supervisor.installation import OPERATOR, Installation
from headrace.supervisor.readiness import NotReady
from headrace.supervisor.running import AlreadyRunning
from headrace.supervisor.store import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from headrace.contracts.audit import Finding, VerifyReport
    from headrace.domain.fold.ledger import StoredMessage

PAGE_WITHIN = 60.0
"""Seconds for a page of the ledger."""
SHOWN = 40
"""Lines about a finding's facts."""


def add_verify(verbs: Nouns) -> None:
    """The verb of `headrace audit`."""
    parser = add_command(
        verbs,
        "verify",
        verify,
        "look whether the ledger is whole, and decide again what was decided",
        """headrace audit verify
        headrace audit verify --data /srv/headrace          whether or not that installation runs
        headrace audit verify --chains                      the records alone, without deciding anything again
        headrace audit verify --json

        Looks at every record: that none is missing or there twice, and that each record of a service names the one before it. Then folds
        them, decides again what this version of the allocator and of preemption decided, on the records that it was decided on, and shows
        what differs. Where the installation is on this machine its own files are read; else an administrator's login asks for them.
        Exit code 0: nothing found; 1: something is not as it was written, or not as it would be decided.""",
    )
    parser.add_argument("--chains", action="store_true", help="look at the records alone: faster, and nothing is decided again")
    add_asker(parser)


async def verify(args: argparse.Namespace) -> int:
    """Read, look, show."""
    verifier = Verifier(None if args.chains else ENGINE)
    progress = _Progress()
    installation = Installation(args.data)
    is_here = (installation.credentials / f"{OPERATOR}.json").exists()
    batches = _stored(installation) if is_here and not _elsewhere() else _asked_for(args)
    async for tip, messages in batches:
        verifier.take(messages)
        progress.tell(verifier.chains.last, tip)
    verifier.finish()
    progress.end()
    report = verifier.report()
    print(encode(report).decode() if args.json else shown(report))
    return 1 if report.found else 0


def _elsewhere() -> bool:
    """Whether the environment names another place than this machine's."""
    return URL in os.environ or TOKEN in os.environ


async def _stored(installation: Installation) -> AsyncIterator[tuple[int, Iterable[StoredMessage]]]:
    """The records as they lie there, holes left out, and where they end."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))  # what matters comes as errors
    try:
        async with open_store(installation) as connection:
            log = JetStreamLog(connection, LEDGER_STREAM)
            tip = await log.tip()
            async for batch in what_is_there(log, 0, tip):
                yield tip, batch
    except (LogError, NotReady, AlreadyRunning) as error:
        raise Failed(str(error)) from None


async def _asked_for(args: argparse.Namespace) -> AsyncIterator[tuple[int, Iterable[StoredMessage]]]:
    """The records as governance hands them out, and where they end."""
    async with client(args) as hr:
        after = 0
        while True:
            answer = await hr.query("governance", "records", RecordsRequest(after=after), RecordsAnswer, PAGE_WITHIN)
            if not answer.records:
                return
            yield answer.tip, answer.records
            after = answer.records[-1].sequence


class _Progress:
    """One line that is written over, on a terminal."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._told = 0.0

    def tell(self, sequence: int, tip: int) -> None:
        """Where it stands."""
        now = time.monotonic()
        if sys.stderr.isatty() and now - self._told > 0.2:
            self._told = now
            left = (now - self._began) * (tip - sequence) / max(1, sequence)
            print(f"\rrecord {sequence} of {tip}, {left:.0f} s left\033[K", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Nothing is under way any more."""
        if self._told:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def shown(report: VerifyReport) -> str:
    """The report for people."""
    lines = [f"records    {report.records} read, through record {report.through}"]
    if report.voids:
        voids = ", ".join(f"{node}: {count}" for node, count in report.voids.items())
        lines.append(f"void       {sum(report.voids.values())} records of nodes count for nothing ({voids})")
    if report.folded or report.stopped:
        lines += _decisions(report)
    if not report.found:
        return "\n".join([*lines, "Nothing found."])
    lines.append(
        f"found      {report.found}{f', the first {len(report.findings)} of them' if report.found > len(report.findings) else ''}:"
    )
    return "\n".join([*lines, *(line for finding in report.findings for line in _finding(finding))])


def _decisions(report: VerifyReport) -> list[str]:
    lines = [f"decisions  {report.recomputed} made again, {report.decision_facts} of {report.facts} facts"]
    lines += [
        f"           {count} by {engine}: not to be made again by {ENGINE}" for engine, count in report.other_engines.items()
    ]
    if report.observed:
        told = ", ".join(f"{by}: {count}" for by, count in report.observed.items())
        lines.append(f"           {sum(report.observed.values())} that follow from more than the ledger holds ({told})")
    if report.stopped:
        lines.append(f"           followed through record {report.folded} and no further: {report.stopped}")
    return lines


def _finding(finding: Finding) -> list[str]:
    where = str(finding.sequence) if finding.through == finding.sequence else f"{finding.sequence}-{finding.through}"
    facts = [f"    recorded  {fact}" for fact in finding.recorded] + [f"    computed  {fact}" for fact in finding.computed]
    return [f"  {where:<12} {finding.kind:<10} {finding.text}", *facts[:SHOWN]]
