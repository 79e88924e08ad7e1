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
