"""A client of nats-py that is always connected, reconnecting or closed.

Strategy: nats-py 2.16 reconnects in one task, and an error that it does not expect ends that task, so that the client is neither connected
nor closed from then on. uvloop raises one on every write to a closed socket, which happens if a server stops a second time
during a reconnect. This client restarts the task. It also cancels the tasks of the old connection before it opens a new one, aborts the
socket of an unresponsive server without flushing it, treats an error of the reading task as an error of the connection, and sends
everything written before a `flush` ahead of the ping of that `flush`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from nats import errors
from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport

TRY_AGAIN = 0.1
"""Seconds between attempts after an error that nats-py does not expect."""


class ReturningClient(Client):
    """A client that reconnects for as long as it is not closed; call `connect` once."""

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
