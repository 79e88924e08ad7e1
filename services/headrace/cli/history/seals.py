"""`headrace audit seals`: lists the seals of the ledger, or writes them to a file for independent storage."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headrace.audit.seals import flaw
from headrace.cli.arguments import Failed, Nouns, add_command, add_login_options
from headrace.cli.output.formatting import as_json
from headrace.cli.output.output_file import write_out
from headrace.cli.output.tables import table
from headrace.cli.whole_ledger import Progress, records
from headrace.contracts.facts import LedgerSealedV1
from headrace.contracts.facts.writers import AUDIT
from headrace.contracts.transport.codec import Malformed, decode_record, encode
from headrace.contracts.transport.subjects import ledger

if TYPE_CHECKING:
    from headrace.domain.fold.ledger import StoredMessage


def add_seals(verbs: Nouns) -> None:
    """Add `headrace audit seals`."""
    parser = add_command(
        verbs,
        "seals",
        seals,
        "list the seals of the ledger, or write them into a file that you keep in another place",
        """headrace audit seals
        headrace audit seals --out /mnt/vault/seals.jsonl      then: headrace audit verify --seals /mnt/vault/seals.jsonl

        Every minute, or thousand records, `audit` states a seal: the digest of the records since the last one, signed with the
        installation's key. A copy of the seals in another place proves that not a byte was changed up to the last one.""",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write all of them into this file, one line each")
    add_login_options(parser)


async def seals(args: argparse.Namespace) -> int:
    """Print or write the seals in the ledger. Malformed ones are left out; `verify` reports them."""
    found: list[LedgerSealedV1] = []
    progress, through = Progress(), 0
    async for tip, messages in records(args):
        for message in messages:
            through = message.sequence
            found += _sealed(message)
        progress.show(through, tip)
    progress.end()
    if args.out is not None:
        if not found:
            raise Failed("no seals yet: the first comes a minute after the first record")
        write_out("--out", args.out, b"".join(encode(seal) + b"\n" for seal in found))
        print(f"{len(found)} seals, through record {found[-1].last}, key {found[-1].key}: {args.out}")
    elif args.json:
        print(as_json([msgspec.to_builtins(seal) for seal in found]))
    elif found:
        heads = ("SEAL", "FIRST", "LAST", "CONTENTS", "KEY")
        print(table(heads, ((seal.number, seal.first, seal.last, seal.contents[:16], seal.key) for seal in found)))
    else:
        print("No seals yet.")
    return 0


def _sealed(message: StoredMessage) -> list[LedgerSealedV1]:
    if message.subject != ledger(AUDIT):
        return []
    try:
        facts = decode_record(message.payload).facts
    except Malformed:
        return []
    return [fact for fact in facts if isinstance(fact, LedgerSealedV1) and not flaw(fact, "")]
