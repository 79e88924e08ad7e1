"""nats-py made safe against hostile messages, and faster on the paths that all messages take.

Strategy: the server forwards any byte except blanks in a subject, and any header block; nats-py 2.16 can parse neither. A form feed in a
subject makes its parser close the connection, bytes that are not UTF-8 (in a subject or in a status line) end its read loop for good;
stored in a stream, that message would come again after each restart. Here lines are split at blanks only, as the server does, subjects
that are not UTF-8 arrive with U+FFFD (an invalid token, so they are refused), and headers that cannot be read are dropped. A socket that
breaks during a publish is an error of the connection. Listeners (`listen`) skip the library's queue and task for each subscription.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nats import errors
from nats.protocol import parser

from headrace.bus.nats.raw_message import Listener, RawMessage, read_headers
from headrace.nats_client.reconnecting import ReturningClient

if TYPE_CHECKING:
    from nats.aio.subscription import Subscription

parser.MSG_RE = re.compile(rb"\AMSG[ \t]+([^ \t\r\n]+)[ \t]+(\d+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)\r\n")
parser.HMSG_RE = re.compile(rb"\AHMSG[ \t]+([^ \t\r\n]+)[ \t]+(\d+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)[ \t]+(\d+)\r\n")


_PLAIN = b"NATS/1.0\r\n"


class HardenedClient(ReturningClient):
    """The client of nats-py, for processes that read what untrusted users publish."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: dict[int, Listener] = {}

    async def listen(self, subject: str, listener: Listener, queue: str = "") -> Subscription:
        """Subscribe, and call `listener` for each message as it is read: it must return fast, and cannot await.

        `queue`: the group in which one member gets each message.
        """
        sid = self._sid + 1
        self.listeners[sid] = listener
        try:
            return await self.subscribe(subject, queue)
        except BaseException:
            self.listeners.pop(sid, None)
            raise

    async def publish(self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, Any] | None = None) -> None:
        """Publish as the library does; converts an error of uvloop about a closed socket into one that the library knows."""
        try:
            await super().publish(subject, payload, reply, headers)
        except RuntimeError as error:
            raise errors.ConnectionClosedError from error

    def _remove_sub(self, sid: int, max_msgs: int = 0) -> None:
        self.listeners.pop(sid, None)
        super()._remove_sub(sid, max_msgs)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes | None) -> None:
        listener = self.listeners.get(sid)
        if listener is None:
            await super()._process_msg(sid, _as_text(subject), _as_text(reply), data, headers)  # type: ignore[arg-type]
            return
        try:
            listener(RawMessage(subject.decode("utf-8", "replace"), reply.decode("utf-8", "replace"), data, headers or b""))
        except Exception as error:  # noqa: BLE001  # as with a queue: one bad message must not end the read loop
            await self._error_cb(error)

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        if not headers:
            return None
        try:
            return read_headers(headers) if headers.startswith(_PLAIN) else await super()._process_headers(headers) or {}
        except (ValueError, IndexError):
            return {}


def _as_text(raw: bytes) -> bytes:
    """The bytes if they are UTF-8, else with U+FFFD in place of invalid ones."""
    return raw if raw.isascii() else raw.decode("utf-8", "replace").encode()
