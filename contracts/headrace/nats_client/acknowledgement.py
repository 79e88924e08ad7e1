"""JetStream's answer to a publish: stored, or the error."""

from __future__ import annotations

import msgspec

NOT_STORED = 10_077
"""JetStream's error number if a message could not be stored: the stream or subject is at its limit, or the disk failed."""
NO_STORAGE = 10_047
"""JetStream's error number if the disk is full."""
TOO_LARGE = 10_054
"""JetStream's error number if the message is larger than the stream allows."""
TOO_MANY_REQUESTS = 10_167
"""JetStream's error number if too many messages wait to be stored in the stream."""

PASSING = frozenset(
    {
        10005,  # no server for the replicas yet
        10008,  # JetStream is temporarily unavailable
        10009,  # that server is not the leader
        10023,  # insufficient resources
        10039,  # JetStream is not enabled for the account yet
        10074,  # too few servers for the replicas yet
        10076,  # JetStream is not enabled yet
        10164,  # another append on the subject is under way
        10167,  # too many requests wait for the stream
    }
)
"""Errors that pass with time: the server starts, elects, or still processes an earlier attempt."""

TRY_AGAIN_AFTER = 5
"""Seconds after which to try again."""
TOO_MANY_SUBMISSIONS = f"too many submissions of this queue are not judged yet; try again in {TRY_AGAIN_AFTER} s"
TOO_MANY_AT_ONCE = (
    f"too many submissions of this tenant, or of all, are being stored at this moment; try again in {TRY_AGAIN_AFTER} s"
)

DUPLICATE = "NATS took it for the repetition of another message with the same Nats-Msg-Id, and did not store it"


class PublishError(msgspec.Struct):
    """The error of a publish: `err_code` is JetStream's error number, `code` a status as in HTTP."""

    code: int = 0
    err_code: int = 0
    description: str = ""

    @property
    def is_full(self) -> bool:
        """True if the stream or the subject holds its maximum; only the description tells that from a disk error."""
        return self.err_code == NOT_STORED and self.description.startswith("maximum ")

    @property
    def disk_error(self) -> str:
        """The message for people if NATS cannot write to its disk; empty for other errors."""
        if self.err_code == NO_STORAGE:
            return self.description
        if self.err_code != NOT_STORED or self.is_full:
            return ""
        why = self.description.rpartition(": ")[2]  # the text before it names a file of the server
        return f"NATS cannot write to its disk ({why}): nothing is accepted until it can; it then continues by itself"


class Acknowledgement(msgspec.Struct):
    """The answer to a publish: the sequence in the stream, or the error.

    `duplicate`: the message was not stored; `seq` is that of an earlier message with the same message id, whatever its content.
    """

    seq: int = 0
    duplicate: bool = False
    error: PublishError | None = None

    @property
    def is_busy(self) -> bool:
        """True if the server has too many requests at this moment; the publish may be repeated at once."""
        return self.error is not None and self.error.err_code == TOO_MANY_REQUESTS
