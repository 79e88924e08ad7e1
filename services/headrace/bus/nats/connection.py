"""The connection of a service to NATS: waits for a server that is not up yet, and logs when the server is lost and back."""

from __future__ import annotations

import asyncio

import structlog
from nats import errors

from headrace.bus.log import LogRefused
from headrace.nats_client.connection import Address, Connection, Observer, is_refused

WAIT_FIRST, WAIT_MOST = 0.1, 1.0

_log = structlog.get_logger("headrace.bus")


class _Logged(Observer):
    def lost(self, server: str) -> None:
        _log.warning("nats_lost", url=server)

    def back(self, server: str) -> None:
        _log.info("nats_back", url=server)

    def complained(self, complaint: str) -> None:
        _log.warning("nats_complains", complaint=complaint)


async def connect(url: str, user: str = "", password: str = "", *, name: str = "") -> Connection:
    """A connection to the server(s) at `url` (comma-separated); waits until one is up and logs that once.

    Raises `LogRefused` if the server does not know the user or the password.
    """
    wait = WAIT_FIRST
    while True:
        connection = Connection(_Logged())
        try:
            await connection.open(Address(url, user, password), name)
        except (OSError, TimeoutError, errors.Error) as error:
            if is_refused(error):
                raise LogRefused(
                    f"NATS at {url} does not let {user or 'without a user'!r} in: look at the user and the password"
                ) from None
            if wait == WAIT_FIRST:
                _log.info("nats_awaited", url=url, reason=str(error))
            await asyncio.sleep(wait)
            wait = min(2 * wait, WAIT_MOST)
        else:
            return connection
