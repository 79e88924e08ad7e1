"""Personal data in the ledger: what a document says about a person beyond the handle is sealed under the person's own key.

Sealed when it is stated, opened where it is needed: in the folds of *governance* and of the services that check logins. When the
key is destroyed, the data is unreadable in every record, archive and copy.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import json
from msgspec.structs import replace

from headrace.bus.text_encryption import Keyring, SealError
from headrace.contracts.documents.model import User
from headrace.contracts.facts import AnyFact, UserAppliedV1
from headrace.contracts.facts.records import Record
from headrace.domain.state.state import GovernanceObject, State


class PersonalData:
    """Seals and opens personal data with the keys of a keyring."""

    def __init__(self, keys: Keyring) -> None:
        self._keys = keys

    def sealed(self, facts: tuple[AnyFact, ...]) -> tuple[AnyFact, ...]:
        """The same facts with personal data sealed, for the ledger."""
        return tuple(replace(fact, user=self.seal(fact.user)) if isinstance(fact, UserAppliedV1) else fact for fact in facts)

    def seal(self, user: User) -> User:
        """The user with personal data sealed, for the ledger."""
        if not user.subject and not user.email:
            return user
        text = json.encode((user.subject, user.email))
        return replace(user, subject="", email="", sealed=self._keys.seal(_owner(user), text, _about(user)))

    def opened(self, user: User) -> User:
        """The user with personal data opened; without data that was erased."""
        if not user.sealed:
            return user
        try:
            subject, email = json.decode(self._keys.open(_owner(user), user.sealed, _about(user)), type=tuple[str, str])
        except SealError:
            return replace(user, sealed="")
        return replace(user, subject=subject, email=email, sealed="")

    def open_all(self, state: State) -> None:
        """Open the personal data of all users in a state."""
        for key, written in state.users.items():
            if isinstance(written.document, User) and written.document.sealed:
                state.users[key] = GovernanceObject(self.opened(written.document), written.revision)

    def listener(self, state: State) -> Callable[[Record, object], None]:
        """A listener that opens the personal data of users in each new record, right after the fold."""

        def open_record(record: Record, _message: object) -> None:
            if any(isinstance(fact, UserAppliedV1) for fact in record.facts):
                self.open_all(state)

        return open_record


def _owner(user: User) -> str:
    return f"{user.tenant}.{user.handle}"


def _about(user: User) -> str:
    return f"user/{user.tenant}.{user.handle}"
