"""Which tokens are good, as the fold keeps it. A token speaks for a bearer: a user or service account of a tenant, or a node."""

from __future__ import annotations

from dataclasses import dataclass, field

from headrace.contracts.values.durations import DAY

REVOCATION_KEPT = 400 * DAY
"""How long the revocation of a token that we did not make is remembered: longer than any may live."""


@dataclass(slots=True, eq=False)
class Token:
    """One that the embedded issuer made; it leaves the fold when it expires. `revoked_at` 0: it is good. `sequence`: its record's."""

    role: str
    tenant: str
    handle: str
    author: str
    created_at: int
    expires_at: int
    sequence: int
    revoked_at: int = 0


@dataclass(slots=True, eq=False)
class GroupClaims:
    """Groups of a user as a provider's token names them, until that token expires."""

    groups: tuple[str, ...]
    issued_at: int
    until: int


@dataclass(slots=True, eq=False)
class Tokens:
    """All of them, by id.

    `revoked`: ids of tokens that others made, with the time of revocation. `outdated`: bearers of whom nothing counts that they were
    given up to (sequence, time). A bearer is (tenant, handle); a node ("", its name); all of a tenant: (tenant, "").
    `claims`: what the newest token of a provider says of its bearer's groups.
    `erased`: people of whom nothing is known any more, with the name in the place of theirs.
    `vouched`: users of whom the provider has said which subject of an issuer they are.
    """

    known: dict[str, Token] = field(default_factory=dict)
    revoked: dict[str, int] = field(default_factory=dict)
    outdated: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    claims: dict[tuple[str, str], GroupClaims] = field(default_factory=dict)
    erased: dict[tuple[str, str], str] = field(default_factory=dict)
    vouched: set[tuple[str, str]] = field(default_factory=set)

    def is_outdated(self, bearer: tuple[str, str], sequence: int, issued_at: int) -> bool:
        """Whether what a bearer was given by the record `sequence` (0: by another issuer, at the time `issued_at`) counts no more."""
        for whose in (bearer, (bearer[0], "")):
            at = self.outdated.get(whose)
            if at is not None and (sequence <= at[0] if sequence else issued_at <= at[1]):
                return True
        return False
