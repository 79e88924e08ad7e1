"""What can go wrong with a request or an append."""

from __future__ import annotations


class LogError(Exception):
    """Base class of errors of a log, and of requests.

    LogError
    ├── LogUnavailable   the server cannot be reached, or did not answer in time: try again
    │   ├── NoListener   no service or stream listens on the subject: the request was not received
    │   └── NoStorage    it has no room on its disk, and has stored nothing: try again when space has been freed
    ├── LogRefused       the server refused it (no permission): the message says why
    │   ├── TooLarge     the message is larger than the server accepts
    │   └── LogFull      the subject or the stream holds as much as it may: try again when some of it has been read
    └── WrongLast        the subject has another last message than the writer thought: read on, decide again

    Readers of a log have two more, see `headrace.bus.log`.
    """


class LogUnavailable(LogError):
    """The server cannot be reached, or did not answer in time."""


class NoListener(LogUnavailable):
    """Nothing listens on the subject, so the request was not received."""


class NoStorage(LogUnavailable):
    """The disk is full, and the message has not been stored; the text names the machine."""


class LogRefused(LogError):
    """The server refused the message; the text says why."""


class TooLarge(LogRefused):
    """The message is larger than the server accepts."""


class LogFull(LogRefused):
    """The subject or the stream is full until some of it has been read."""


class WrongLast(LogError):
    """The subject has another last message than the writer expected. `last`: its sequence (0: no message), if the server told it."""

    def __init__(self, text: str, last: int | None = None) -> None:
        super().__init__(text)
        self.last = last
