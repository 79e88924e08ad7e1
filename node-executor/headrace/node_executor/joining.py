"""How an instance gets the login of its node: it exchanges the one-time code that it was started with, once (R38).

What it gets is kept in its data directory, readable by its owner alone, and used from then on. So is the nonce that it makes before it
first asks: with that, and only with that, the exchange can be repeated if its answer was lost.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from typing import TYPE_CHECKING

import msgspec
import structlog
from nats import errors

from headrace.contracts.messages.burst import JoinRequest
from headrace.contracts.messages.queries import Answer
from headrace.contracts.messages.tokens import TokenAnswer, TokenRole, read_bearer
from headrace.contracts.transport import subjects
from headrace.contracts.transport.codec import Malformed, decode, encode
from headrace.nats_client.connection import Connection, Observer
from headrace.nats_client.errors import LogError

if TYPE_CHECKING:
    from headrace.node_executor.arguments import Settings

FILE = "login.json"
AGAIN = 1.0
ASK_WITHIN, CLOSE_WITHIN = 5.0, 2.0
FOR_GOOD = ("NOT_ALLOWED", "INVALID")
"""Codes of refusals that do not change."""

_log = structlog.get_logger("headrace.node_executor")


class NotJoined(Exception):
    """The instance got no login: its code was used or has expired, or no answer came in time."""


class _Login(msgspec.Struct):
    nonce: str
    token: str = ""


async def with_login(settings: Settings) -> Settings:
    """The settings with the token of the node, if they have a one-time code; else as they are. Raises NotJoined."""
    bearer = read_bearer(settings.address.password)
    if bearer is None or bearer.role != TokenRole.INSTANCE:
        return settings
    path = os.path.join(settings.data, FILE)
    login = _kept(path)
    if login is None:
        login = _Login(secrets.token_hex(16))
        _keep(path, login)
    if not login.token:
        login.token = await _exchange(settings, login.nonce)
        _keep(path, login)
    return settings._replace(address=settings.address._replace(password=login.token))


async def _exchange(settings: Settings, nonce: str) -> str:
    within = settings.limits_of_instance.join_within
    until, waiting = time.monotonic() + within, ""
    while True:
        try:
            return await _ask(settings, nonce)
        except (OSError, TimeoutError, errors.Error, LogError, Malformed) as error:
            reason = str(error) or type(error).__name__
        if reason != waiting:
            _log.warning("login_awaited", url=settings.address.url, reason=reason)
            waiting = reason
        if within and time.monotonic() >= until:
            raise NotJoined(f"it has got no login within {within:g} s: {reason}")
        await asyncio.sleep(AGAIN)


async def _ask(settings: Settings, nonce: str) -> str:
    connection = Connection(Observer())
    await connection.open(settings.address, f"instance {settings.name}")
    try:
        request = JoinRequest(code=settings.address.password, nonce=nonce)
        message = await connection.ask(subjects.join_query(settings.name), encode(request), within=ASK_WITHIN)
        answer = decode(message.data, Answer)
        if answer.code in FOR_GOOD:
            raise NotJoined(answer.error)
        if answer.code:
            raise Malformed(f"{answer.code}: {answer.error}")
        return decode(bytes(answer.body), TokenAnswer).token
    finally:
        await asyncio.wait_for(connection.close(), CLOSE_WITHIN)


def _kept(path: str) -> _Login | None:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=_Login)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        return None


def _keep(path: str, login: _Login) -> None:
    """Write the file whole, and onto the disk, before anything depends on it."""
    draft = f"{path}.new"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(msgspec.json.encode(login))
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
