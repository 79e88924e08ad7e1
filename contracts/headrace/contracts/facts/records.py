"""Records: one message on the ledger = one decision = several facts, all or none."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from headrace.contracts.facts import AnyFact
from headrace.contracts.facts.fact import Whole

RECORD_BYTES_MAX = 512 * 1024
NODE_RECORD_BYTES_MAX = 128 * 1024
"""Bytes of a node's record above which the record counts against the node's allowance (`governance.node_allowance`)."""
RECORD_FACTS_MAX = 1_000


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The facts that a writer states at once.

    `by`: the writer, equal to the last part of the subject. `now`: max(time of its fold, its clock), microseconds (R34).
    `engine`: its software version. `as_of`: the ledger sequence it decided on. `prev`: the digest of its previous record
    (services only; empty for the first). `cause`: what led to it, for people and audit. `trace`: a W3C traceparent.
    """

    by: str
    now: Whole
    engine: str
    as_of: Whole
    prev: str = ""
    cause: str = ""
    trace: str = ""
    facts: tuple[AnyFact, ...]


def digest(payload: bytes) -> str:
    """The digest by which a writer's next record names this one: 128 bits of BLAKE2b over the bytes as stored."""
    return blake2b(payload, digest_size=16).hexdigest()
