"""Heartbeats: every process of a service announces every two seconds that it runs and which level of facts it reads.

*governance* listens: it raises the installation's level when all instances read it. Instances announce themselves, so the number of
instances and their machines need not be configured.
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
    from headrace.nats_client.connection import Connection

EVERY = 2.0
"""Interval of heartbeats in seconds."""


async def announce(connection: Connection, service: str, called: str) -> None:
    """Send heartbeats until cancelled, and then that this instance leaves; `called` is the instance's name for people."""
    here = Presence(service=service, called=called, instance=secrets.token_hex(8), reads=LEVEL)
    try:
        while True:
            await _progress(connection, here)
            await asyncio.sleep(EVERY)
    finally:
        await _progress(connection, replace(here, leaves=True))


async def _progress(connection: Connection, announcement: Presence) -> None:
    if connection.is_connected:
        with suppress(errors.Error):
            await connection.publish(presence(announcement.service), encode(announcement))
