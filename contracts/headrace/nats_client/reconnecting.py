"""The client of nats-py, which is not to go silent for ever: connected, coming back, or closed, and nothing in between.

Strategy: nats-py 2.16 comes back in one task, and ends that task with the first error it has no name for, so that the client is neither
connected nor closed from then on. uvloop raises such an error whenever a socket is gone that is written to, which is what happens where a
server dies a second time while it is come back to. Here the task begins again. Beyond that: who reads for a connection that is over is
ended before there is another one, a socket to somebody who is silent is dropped and not emptied first, a reader that stops by an error
of its own is an error of the connection, and what was said before a `flush` has been heard after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from nats import errors
from nats.aio.client import Client, Srv
from nats.aio.transport import TcpTransport

TRY_AGAIN = 0.1
"""Seconds until it is tried again after an error that nats-py does not know."""


class ReturningClient(Client):
    """`connect` once; from then on it is repaired for as long as it is not closed."""

    async def _attempt_reconnect(self) -> None:
        while True:
            self._drop()
            try:
                await super()._attempt_reconnect()
            except Exception as error:  # noqa: BLE001 - whatever it was, nobody else would try again
                if self.is_closed:
                    return
                self._status = Client.RECONNECTING
                await self._told(error)
                await asyncio.sleep(TRY_AGAIN)
            else:
                return

    async def _connect_to_server(self, s: Srv) -> None:
        """As the library's, on a socket of its own; who still reads from the last one must not read from this one."""
        for task in self._tasks():
            task.cancel()
        self._drop()
        self._transport = None
        await super()._connect_to_server(s)

    async def _process_connect_init(self) -> None:
        """As the library's, which is in doubt where the server says something else before it answers."""
        await super()._process_connect_init()
        if self.is_connecting:
            self._status = Client.CONNECTED

    async def _send_ping(self, future: asyncio.Future[Any] | None = None) -> None:
        """As the library's, which lets a ping go before what was said earlier: its answer would not mean that the server has heard that."""
        if self._transport is not None and self.is_connected and self._pending:
            self._transport.writelines(self._pending)
            self._pending, self._pending_data_size = [], 0
        await super()._send_ping(future)

    async def _process_pong(self) -> None:
        """As the library's; one that nobody waits for any more ends nothing."""
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
        """Let go of the socket, without waiting until what is still to be said has been heard."""
        transport = self._transport
        if isinstance(transport, TcpTransport) and transport._io_writer is not None:
            transport._io_writer.transport.abort()

    def _tasks(self) -> Iterable[asyncio.Task[None]]:
        found = (self._reading_task, self._ping_interval_task, self._flusher_task)
        return (task for task in found if task is not None and not task.done())

    async def _told(self, error: Exception) -> None:
        """Tell whoever listens for complaints; that one fails at it changes nothing."""
        try:
            await self._error_cb(error)
        except Exception:  # noqa: BLE001 - it may be that very error: a log on a full disk
            return
