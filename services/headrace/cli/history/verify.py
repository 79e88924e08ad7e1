"""`headrace audit verify`: checks whether the ledger is as it was written, and whether this engine decides the same."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.audit.seal_store import SEALS, SealStore, SealStoreError, read_seals
from headrace.audit.verify import LedgerVerifier
from headrace.cli.arguments import Failed, Nouns, add_command, add_login_options
from headrace.cli.whole_ledger import Progress, here, records
from headrace.contracts.transport.codec import encode
from headrace.service.engine_version import ENGINE

if TYPE_CHECKING:
    from headrace.contracts.messages.audit import Finding, VerifyReport

SHOWN = 40
"""Maximum number of lines about a finding's facts."""


def add_verify(verbs: Nouns) -> None:
    """Add `headrace audit verify`."""
    parser = add_command(
        verbs,
        "verify",
        verify,
        "check that no record is missing or changed, and that the same decisions would be made again",
        """headrace audit verify
        headrace audit verify --data /srv/headrace          that installation, whether it runs or not
        headrace audit verify --seals /mnt/vault/seals.jsonl   against seals that you have kept elsewhere
        headrace audit verify --chains                      the records only, without repeating decisions
        headrace audit verify --json

        First it checks every record: that none is missing or present twice, that each record of a service names the one before it, and that
        all are those that were sealed. Then it repeats the decisions that this version of allocator, preemption and admission made, each on
        the records that were known to it, and shows what differs. What jobs run is encrypted, and submissions that could not be read are
        not in the ledger, so verdicts of admission are checked as far as it allows; those that only the submission could explain are
        counted. The files of an installation on this machine are read, whether it runs or not; otherwise an administrator's login
        requests the records.
        Exit code 0: nothing found; 1: a record is not as it was written, or a decision would be another one.""",
    )
    parser.add_argument("--chains", action="store_true", help="check the records only: faster, decisions are not repeated")
    parser.add_argument(
        "--seals",
        type=Path,
        metavar="FILE",
        help="file of seals that `headrace audit seals --out` wrote (default: those in DATA/seals)",
    )
    add_login_options(parser)


async def verify(args: argparse.Namespace) -> int:
    """Verify the ledger and print the report."""
    verifier = _verifier(args)
    progress = Progress()
    async for tip, messages in records(args):
        verifier.take(messages)
        progress.show(verifier.chains.last, tip)
    verifier.finish()
    progress.end()
    report = verifier.report()
    print(encode(report).decode() if args.json else shown(report))
    return 1 if report.found else 0


def _verifier(args: argparse.Namespace) -> LedgerVerifier:
    """Verifier with the seals of `--seals`, or with those that the installation on this machine has stored."""
    engine, installation = None if args.chains else ENGINE, here(args)
    try:
        if args.seals is not None:
            seals = read_seals(args.seals)
            if not seals:
                raise Failed(f"--seals: {args.seals} has no seals; `headrace audit seals --out FILE` writes them")
            return LedgerVerifier(engine, kept=seals, key=seals[0].key)
        if installation is None:
            return LedgerVerifier(engine)
        kept = SealStore(installation.directory / SEALS)
        seals = kept.seals()
        return LedgerVerifier(engine, kept=seals, tail=kept.tail(seals[-1].last if seals else 0), key=kept.public())
    except SealStoreError as error:
        raise Failed(str(error)) from None


def shown(report: VerifyReport) -> str:
    """The report as text for people."""
    lines = [f"records    {report.records} read, through record {report.through}", _seals(report)]
    if report.voids:
        voids = ", ".join(f"{node}: {count}" for node, count in report.voids.items())
        lines.append(f"void       {sum(report.voids.values())} records of nodes are void ({voids})")
    if report.folded or report.stopped:
        lines += _decisions(report)
    if not report.found:
        return "\n".join([*lines, "Nothing found."])
    lines.append(
        f"found      {report.found}{f', the first {len(report.findings)} of them' if report.found > len(report.findings) else ''}:"
    )
    return "\n".join([*lines, *(line for finding in report.findings for line in _finding(finding))])


def _seals(report: VerifyReport) -> str:
    if not report.key:
        return "seals      none: nothing shows whether records of nodes, or the last record of each service, were changed"
    behind = report.through - report.sealed_through
    rest = f"; the {behind} after it are not sealed yet" if behind > 0 else ""
    return f"seals      {report.seals} are valid, through record {report.sealed_through}{rest}; key {report.key}"


def _decisions(report: VerifyReport) -> list[str]:
    lines = [f"decisions  {report.recomputed} repeated, with {report.decision_facts} of {report.facts} facts"]
    if report.judged or report.untold:
        counts = ", ".join(f"{reason}: {count}" for reason, count in report.untold.items())
        rest = f"; {sum(report.untold.values())} that only the submission itself could explain ({counts})" if counts else ""
        lines.append(
            f"           of them {report.judged} verdicts of admission, as far as the ledger says what was submitted{rest}"
        )
    lines += [f"           {count} by {engine}: {ENGINE} cannot repeat these" for engine, count in report.other_engines.items()]
    if report.observed:
        counts = ", ".join(f"{by}: {count}" for by, count in report.observed.items())
        lines.append(f"           {sum(report.observed.values())} that depend on more than the ledger has ({counts})")
    if report.late:
        lines.append(f"           {report.late} based on records too far back")
    if report.stopped:
        lines.append(f"           checked through record {report.folded} only: {report.stopped}")
    return lines


def _finding(finding: Finding) -> list[str]:
    where = str(finding.sequence) if finding.through == finding.sequence else f"{finding.sequence}-{finding.through}"
    facts = [f"    recorded  {fact}" for fact in finding.recorded] + [f"    computed  {fact}" for fact in finding.computed]
    return [f"  {where:<12} {finding.kind:<10} {finding.text}", *facts[:SHOWN]]
