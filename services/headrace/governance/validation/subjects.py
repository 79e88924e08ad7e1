"""Check of issuers' subjects in users' documents: a subject belongs to one user in the whole installation. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from headrace.contracts.documents.model import User
from headrace.domain.state.state import State
from headrace.governance.objects import PlacedDocument, current
from headrace.governance.validation.diagnostics import Diagnostics


def check_subjects(
    before: State, after: State, changed: Iterable[PlacedDocument], findings: Diagnostics, *, everywhere: bool
) -> None:
    """Report each subject that is new with a user and belongs to another user already; earlier duplicates are not refused again.

    `everywhere`: the author sees all tenants, so the message may name the other user.
    """
    new: list[tuple[PlacedDocument, User]] = []
    for one in changed:
        was = current(before, one.name)
        if (
            isinstance(one.document, User)
            and one.document.subject
            and (was is None or _subject(was[0]) != one.document.subject)
        ):
            new.append((one, one.document))
    for one, user in new:
        others = (
            written.document
            for bearer, written in after.users.items()
            if _subject(written.document) == user.subject and bearer != (user.tenant, user.handle)
        )
        other = next(others, None)
        if isinstance(other, User):
            shown = everywhere or other.tenant == user.tenant
            whose = f"of user {other.tenant}/{other.handle}" if shown else "of a user in another tenant; ask the provider"
            message = f"it is the subject {whose}; one subject is one person here: take it out there first"
            findings.error(findings.where(one.name, "subject"), message)


def _subject(document: object) -> str:
    return document.subject if isinstance(document, User) else ""
