"""nats-py made safe against what a hostile publisher can put on the wire, and quick on the paths that everything goes through.

Strategy: the server forwards any byte in a subject that is no blank, and any header block; nats-py 2.16 reads neither. A form
feed in a subject makes its parser give up the connection, bytes that are no UTF-8 (in a subject or in a status line) end its
read loop for good; stored in a stream, such a message would come again after each restart. Here lines are split at blanks
only, as the server does, subjects that are no text arrive with U+FFFD (no token, so whoever judges them refuses), and
headers that cannot be read are none. And a socket that breaks while somebody publishes is an error of the connection.

What is heard directly (`listen`) skips the library's queue and task for each subscription.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nats import errors
from nats.protocol import parser

from headrace.bus.nats.raw_message import Delivered, Listener, read_headers
from headrace.nats_client.reconnecting import ReturningClient

if TYPE_CHECKING:
    from nats.aio.subscription import Subscription

parser.MSG_RE = re.compile(rb"\AMSG[ \t]+([^ \t\r\n]+)[ \t]+(\d+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)\r\n")
parser.HMSG_RE = re.compile(rb"\AHMSG[ \t]+([^ \t\r\n]+)[ \t]+(\d+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)[ \t]+(\d+)\r\n")


_PLAIN = b"NATS/1.0\r\n"


class GuardedClient(ReturningClient):
    """The client of nats-py, for processes that read what strangers publish."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: dict[int, Listener] = {}

    async def listen(self, subject: str, listener: Listener, queue: str = "") -> Subscription:
        """Subscribe, and have `listener` called for each message as it is read: it must not take long, and cannot wait.

        `queue`: the group of which one member hears each message.
        """
        sid = self._sid + 1
        self.listeners[sid] = listener
        try:
            return await self.subscribe(subject, queue)
        except BaseException:
            self.listeners.pop(sid, None)
            raise

    async def publish(self, subject: str, payload: bytes = b"", reply: str = "", headers: dict[str, Any] | None = None) -> None:
        """As the library's; where the socket has just been closed, uvloop raises an error that the library does not know."""
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
            listener(Delivered(subject.decode("utf-8", "replace"), reply.decode("utf-8", "replace"), data, headers or b""))
        except Exception as error:  # noqa: BLE001  # as where there is a queue: one message that cannot be taken ends nothing
            await self._error_cb(error)

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        if not headers:
            return None
        try:
            return read_headers(headers) if headers.startswith(_PLAIN) else await super()._process_headers(headers) or {}
        except (ValueError, IndexError):
            return {}


def _as_text(raw: bytes) -> bytes:
    """The bytes themselves where they are UTF-8, else with U+FFFD where they are not."""
    return raw if raw.isascii() else raw.decode("utf-8", "replace").encode()
