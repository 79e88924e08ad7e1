"""Who is there: every process of a service says so once a second, and which level of facts it reads (`contracts.facts.levels`).

*governance* listens: it raises the installation's level when all have said that they read it. Nothing is asked, so nobody has to know
how many instances there are, or where.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace
from nats import errors

from headrace.contracts.facts.levels import LEVEL
from headrace.contracts.messages.queries import Presence
from headrace.contracts.transport.codec import encode
from headrace.contracts.transport.subjects import presence

if TYPE_CHECKING:
    from headrace.bus.nats.connection import Connection

EVERY = 1.0
"""Seconds."""


async def announce(connection: Connection, service: str, called: str) -> None:
    """Say that we are there until cancelled, and then goodbye; `called` is the name of this instance, for people."""
    here = Presence(service=service, called=called, instance=secrets.token_hex(8), reads=LEVEL)
    try:
        while True:
            await _say(connection, here)
            await asyncio.sleep(EVERY)
    finally:
        await _say(connection, replace(here, leaves=True))


async def _say(connection: Connection, said: Presence) -> None:
    if connection.is_connected:
        with suppress(errors.Error):
            await connection.publish(presence(said.service), encode(said))
