"""nats-py that is always connected, reconnecting or closed, safe against hostile messages, and faster on the paths that all messages take.

This is the only module that overrides private methods of nats-py or replaces globals of its parser, so nats-py is pinned to the version
that was read (`pyproject.toml`); `tests/unit/nats_client/test_hardened_client.py` says what to check when it is raised.

Strategy, reconnecting: nats-py 2.16 reconnects in one task, and an error that it does not expect ends that task, so that the client is
neither connected nor closed from then on. uvloop raises one on every write to a closed socket, which happens if a server stops a second
time during a reconnect. This client restarts the task. It also cancels the tasks of the old connection before it opens a new one, aborts
the socket of an unresponsive server without flushing it, treats an error of the reading task as an error of the connection, reconnects if
its permission has expired (nats-py would close for good), and sends everything written before a `flush` ahead of the ping of that `flush`.

Strategy, messages: the server forwards any byte except blanks in a subject, and any header block; nats-py 2.16 can parse neither. A form
feed in a subject makes its parser close the connection, bytes that are not UTF-8 (in a subject or in a status line) end its read loop for
good; stored in a stream, that message would come again after each restart. Here lines are split at blanks only, as the server does,
subjects that are not UTF-8 arrive with U+FFFD (an invalid token, so they are refused), and headers that cannot be read are dropped. A
socket that breaks during a publish is an error of the connection. Listeners (`listen`) skip the library's queue and task for each
subscription.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from nats import errors
from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport
from nats.protocol import parser

from headrace.nats_client.raw_message import Listener, RawMessage, read_headers

if TYPE_CHECKING:
    from nats.aio.subscription import Subscription

TRY_AGAIN = 0.1
"""Seconds between attempts after an error that nats-py does not expect."""
EXPIRED = "authentication expired"

_PLAIN = b"NATS/1.0\r\n"

parser.MSG_RE = re.compile(rb"\AMSG[ \t]+([^ \t\r\n]+)[ \t]+(\d+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)\r\n")
parser.HMSG_RE = re.compile(rb"\AHMSG[ \t]+([^ \t\r\n]+)[ \t]+(\d+)[ \t]+(([^ \t\r\n]+)[ \t]+)?(\d+)[ \t]+(\d+)\r\n")


class HardenedClient(Client):
    """A client that reconnects for as long as it is not closed; call `connect` once."""

    def __init__(self) -> None:
        super().__init__()
        self.listeners: dict[int, Listener] = {}

    # Messages

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

    # Reconnecting

    async def _attempt_reconnect(self) -> None:
        while True:
            self._drop()
            try:
                await super()._attempt_reconnect()
            except Exception as error:  # noqa: BLE001 - after any error the task has to go on, or the client stays disconnected
                if self.is_closed:
                    return
                self._status = Client.RECONNECTING
                await self._report(error)
                await asyncio.sleep(TRY_AGAIN)
            else:
                return

    async def _connect_to_server(self, s: Srv) -> None:
        """Connect as the library does, on a new socket; the tasks of the old connection are cancelled first."""
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            # Python 3.11's `wait_for` lets an error of the connection pass in place of a cancellation that comes at the same moment.
            raise asyncio.CancelledError
        for task in self._tasks():
            task.cancel()
        self._drop()
        self._transport = None
        await super()._connect_to_server(s)

    async def _process_connect_init(self) -> None:
        """Connect as the library does; the status is CONNECTED even if the server sent something else before its answer."""
        await super()._process_connect_init()
        if self.is_connecting:
            self._status = Client.CONNECTED

    async def _process_err(self, err_msg: str) -> None:
        """Handle an error of the server as the library does; an expired permission is a reason to reconnect."""
        if EXPIRED in err_msg.lower():
            await self._process_op_err(errors.StaleConnectionError())
        else:
            await super()._process_err(err_msg)

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        """Ping as the library does, after all that is pending, so that the pong means that the server has received it."""
        if self._transport is not None and self.is_connected and self._pending:
            self._transport.writelines(self._pending)
            self._pending, self._pending_data_size = [], 0
        await super()._send_ping(future)

    async def _process_pong(self) -> None:
        """Handle a pong as the library does; a pong whose waiter was cancelled is skipped."""
        if self._pongs and self._pongs[0].done():
            self._pongs.pop(0)
            self._pings_outstanding = 0
            return
        await super()._process_pong()

    async def _read_loop(self) -> None:
        await super()._read_loop()
        if self._reading_task is asyncio.current_task() and self.is_connected:
            await self._process_op_err(errors.UnexpectedEOF())

    def _drop(self) -> None:
        """Abort the socket without flushing what is pending."""
        transport = self._transport
        if isinstance(transport, TcpTransport) and transport._io_writer is not None:
            transport._io_writer.transport.abort()

    def _tasks(self) -> Iterable[asyncio.Task[None]]:
        found = (self._reading_task, self._ping_interval_task, self._flusher_task)
        return (task for task in found if task is not None and not task.done())

    async def _report(self, error: Exception) -> None:
        """Report an error to the error callback; an error of the callback itself is ignored."""
        try:
            await self._error_cb(error)
        except Exception:  # noqa: BLE001 - the callback may fail by the same cause, such as a log on a full disk
            return


def _as_text(raw: bytes) -> bytes:
    """The bytes if they are UTF-8, else with U+FFFD in place of invalid ones."""
    return raw if raw.isascii() else raw.decode("utf-8", "replace").encode()
