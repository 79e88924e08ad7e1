"""Logins of nodes in the installation's own files, for a node that is newer than the list of logins that the NATS server has read.

A NATS server reads the list of logins that bypass this service (`auth_users`) when it starts, and does not read it again on SIGHUP.
"""

from __future__ import annotations

import hmac
from pathlib import Path

from headrace.callout.questions import Question
from headrace.client.endpoint import read_login
from headrace.client.errors import Unreachable
from headrace.contracts.messages.tokens import NODE_TENANT
from headrace.contracts.values.ids import is_token
from headrace.identity.caller import Caller, Role
from headrace.identity.owner import NEVER, OWNER_FILE


class InstallationLogins:
    """The logins below an installation's directory `data`, one file each."""

    def __init__(self, data: Path) -> None:
        self._directory = (data / OWNER_FILE).parent

    def node(self, question: Question) -> Caller | None:
        """The node whose user name and password were given; None if there is no such node."""
        if not is_token(question.user):  # it becomes the name of a file
            return None
        try:
            login = read_login(self._directory / f"{question.user}.json")
        except Unreachable:
            return None
        is_right = login.password and hmac.compare_digest(login.password.encode(), question.token.encode("utf-8", "replace"))
        return Caller(Role.NODE, NODE_TENANT, login.node, expires_at=NEVER) if is_right and login.kind == "node" else None
