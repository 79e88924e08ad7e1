"""What JetStream answers to who publishes: stored, or why not."""

from __future__ import annotations

import msgspec

NOT_STORED = 10_077
"""The error's number where a message could not be stored: because there are as many as there may be, or because of the disk."""
NO_STORAGE = 10_047
"""The one where there is no room on the disk."""
TOO_LARGE = 10_054
"""The one of a message beyond the stream's bound."""
TOO_MANY_REQUESTS = 10_167
"""The one where so many messages wait for the stream that no more are taken."""

TRY_AGAIN_AFTER = 5
"""Seconds after which either may have passed: some of the subject has been read, somebody made room."""
TOO_MANY_WISHES = f"too many wishes of this queue are not judged yet; try again in {TRY_AGAIN_AFTER} s"
TOO_MANY_AT_ONCE = (
    f"too many wishes of this tenant, or of all, are being stored at this moment; try again in {TRY_AGAIN_AFTER} s"
)

DUPLICATE = "NATS took it for the repetition of another message with the same Nats-Msg-Id, and has not stored it"


class PublishError(msgspec.Struct):
    """Why not: `err_code` is JetStream's own number, `code` that of the kind of fault, as in HTTP."""

    code: int = 0
    err_code: int = 0
    description: str = ""

    @property
    def is_full(self) -> bool:
        """There is as much as there may be, of this subject or in all; only the words tell that from a disk that takes no more."""
        return self.err_code == NOT_STORED and self.description.startswith("maximum ")

    @property
    def of_the_disk(self) -> str:
        """What people are told where nothing can be written to the disk; empty where that is not it."""
        if self.err_code == NO_STORAGE:
            return self.description
        if self.err_code != NOT_STORED or self.is_full:
            return ""
        why = self.description.rpartition(": ")[2]  # before it stands which file of the server's
        return f"NATS cannot write to its disk ({why}): nothing is accepted until it can, then it goes on by itself"


class Acknowledgement(msgspec.Struct):
    """The answer: the place in the stream, or the fault.

    `duplicate`: the message itself is not stored; `seq` is that of an earlier one with the same message id, whatever that says.
    """

    seq: int = 0
    duplicate: bool = False
    error: PublishError | None = None

    @property
    def is_busy(self) -> bool:
        """There are too many requests at this moment: it may be asked again at once."""
        return self.error is not None and self.error.err_code == TOO_MANY_REQUESTS
