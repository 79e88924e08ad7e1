"""Facts about the ledger itself, stated by *audit*: what was kept beside it, and can be trusted because the ledger says its digest."""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact


class SnapshotTakenV1(Fact, frozen=True, kw_only=True, tag="snapshot.taken.v1"):
    """The fold behind the record `sequence` lies in the object store under `name`, as so many `bytes`.

    `schema` says which releases can read it, `digest` is SHA-256 of its bytes in hexadecimal; `facts` are those folded into it.
    """

    name: str
    sequence: int
    schema: str
    digest: str
    bytes: int
    facts: int


class LedgerSealedV1(Fact, frozen=True, kw_only=True, tag="ledger.sealed.v1"):
    """What the records `first` to `last` hold, signed. `number` counts seals from 1 on, `prev` is the digest of the one before.

    `contents` is the digest of all records' digests (subject and bytes), `times` that of the server's times; all three in hexadecimal.
    `marks` are twelve bytes for each record, base64, by which it is found which is another one. `key` is the Ed25519 key (public,
    base64) whose `signature` (base64) this is.
    """

    number: int
    first: int
    last: int
    prev: str
    contents: str
    times: str
    marks: str
    key: str
    signature: str
