"""The owner's login, which counts as a token on the machine of the installation: on the local socket, and nowhere else.

Strategy: the gateway marks the calls of the local socket with a header, and removes that header from all others (`LOCAL`). The socket
can be opened by the account of the installation only; the login is asked for as well.
"""

from __future__ import annotations

import hmac
from pathlib import Path

from headrace.client.endpoint import read_login
from headrace.client.errors import Unreachable
from headrace.contracts.messages.tokens import PROVIDER_TENANT
from headrace.identity.caller import Caller, Role

LOCAL = "headrace-local"
"""Header of calls that came through the local socket."""
OWNER_FILE = Path("credentials", "owner.json")
NEVER = 2**62
"""Expiry of a login, which has none, in microseconds since 1970."""


class OwnerLogin:
    """The login in the directory of the installation."""

    def __init__(self, data: Path) -> None:
        self._path = data / OWNER_FILE

    def caller(self, shown: str) -> Caller | None:
        """The owner, an administrator of the installation, if this is the owner's password; else None."""
        try:
            login = read_login(self._path)
        except Unreachable:
            return None
        if not login.password or not hmac.compare_digest(login.password.encode(), shown.encode("utf-8", "replace")):
            return None
        return Caller(Role.PROVIDER_ADMIN, PROVIDER_TENANT, login.user or login.name, expires_at=NEVER)
