"""Facts about the ledger itself, stated by *audit*: files stored beside it, which can be verified by the digest in the fact."""

from __future__ import annotations

from headrace.contracts.facts.fact import Fact


class SnapshotTakenV1(Fact, frozen=True, kw_only=True, tag="snapshot.taken.v1"):
    """A snapshot of the fold behind record `sequence` is in the object store under `name`, with size `bytes`.

    `schema` identifies the releases that can read it, `digest` is SHA-256 of its bytes in hexadecimal; `facts` is the number of facts
    folded
    into it.
    """

    name: str
    sequence: int
    schema: str
    digest: str
    bytes: int
    facts: int


class LedgerSealedV1(Fact, frozen=True, kw_only=True, tag="ledger.sealed.v1"):
    """A signature over the records `first` to `last`. `number` counts seals from 1 on, `prev` is the digest of the previous seal.

    `contents` is the digest of all records' digests (subject and bytes), `times` that of the server's times; all three in hexadecimal.
    `marks` are twelve bytes for each record, base64, which identify a record that differs. `key` is the Ed25519 key (public,
    base64) of the `signature` (base64).
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
