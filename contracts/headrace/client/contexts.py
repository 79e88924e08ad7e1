"""Which installation is meant, and as whom: options, the environment, the file of contexts, or the installation on this machine.

The first that is given counts: a server, a context, or a data directory as an argument; `HEADRACE_SERVER`, `HEADRACE_CONTEXT`,
`HEADRACE_URL` or `HEADRACE_DATA`; the current context; the installation in the usual directory.

The file (`HEADRACE_CONTEXTS`, by default `~/.config/headrace/contexts.json`) has named installations with their tokens. It is written
with mode 0600, and not read if others can read it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from headrace.client.api import LOOPBACKS, ApiTarget, check_address
from headrace.client.endpoint import (
    DATA,
    TENANT,
    TOKEN,
    URL,
    USER,
    ConnectionTarget,
    ca_file,
    data_directory,
    find,
    read_endpoint,
)
from headrace.client.errors import Refused, Unreachable
from headrace.contracts.messages.tokens import read_bearer
from headrace.contracts.values.ids import DEFAULT_TENANT, is_token

SERVER = "HEADRACE_SERVER"
CONTEXT = "HEADRACE_CONTEXT"
CONTEXTS = "HEADRACE_CONTEXTS"
DEFAULT_FILE = "~/.config/headrace/contexts.json"
UNKNOWN_API = "the API's address or token is unknown: set HEADRACE_SERVER to https://HOST:PORT, and HEADRACE_TOKEN"
LOCAL = "local"
"""Name that stands for the installation on this machine."""


class Context(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One installation. `token` is a secret; without one `HEADRACE_TOKEN` has to be set. `ca`: file of its certificate authority.

    `tenant`, `user`: whom to act as, if the token does not say it or may act for others.
    """

    server: str
    token: str = ""
    ca: str = ""
    tenant: str = ""
    user: str = ""


class Contexts(msgspec.Struct, frozen=True, kw_only=True):
    """All contexts by name. `current`: the one that is taken; empty: the installation on this machine."""

    current: str = ""
    contexts: dict[str, Context] = {}

    def named(self, name: str) -> Context:
        """Raises Refused for an unknown name."""
        try:
            return self.contexts[name]
        except KeyError:
            known = ", ".join(sorted(self.contexts)) or "none; `headrace context add` adds one"
            raise Refused("NOT_FOUND", f"context: unknown context {name!r}; there are {known}") from None


class Chosen(NamedTuple):
    """What was asked for by arguments; empty: nothing."""

    server: str = ""
    context: str = ""
    data: str | Path | None = None
    url: str | None = None
    credentials: str | Path | None = None


class Targets(NamedTuple):
    """Where the API is and where NATS is (None: unknown), and whom the login names (empty: unknown).

    `without_api`: what to say where the API is asked and unknown.
    """

    api: ApiTarget | None
    nats: ConnectionTarget | None
    tenant: str = ""
    user: str = ""
    without_api: str = UNKNOWN_API


def contexts_file(environment: Mapping[str, str] = os.environ) -> Path:
    return Path(environment.get(CONTEXTS) or DEFAULT_FILE).expanduser()


def read_contexts(path: Path) -> Contexts:
    """The contexts in a file; none if it does not exist. Raises Unreachable if it cannot be used."""
    try:
        if path.stat().st_mode & 0o077:
            raise Unreachable(f"{path} can be read by others, and has tokens: `chmod 600 {path}`")
        return msgspec.json.decode(path.read_bytes(), type=Contexts)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise Unreachable(f"{path} cannot be read: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreachable(f"{path} is damaged: {error}") from None


def write_contexts(path: Path, contexts: Contexts) -> None:
    """Replace the file, with mode 0600. Raises Unreachable if it cannot be written."""
    import tempfile  # noqa: PLC0415 - it takes long to import, and reading needs it not

    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".contexts-")
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(contexts)) + b"\n")
        os.replace(name, path)
    except OSError as error:
        raise Unreachable(f"{path} cannot be written: {error.strerror or error}") from None


def chosen_context(chosen: Chosen, environment: Mapping[str, str] = os.environ) -> Context | None:
    """The context that is meant; None: the installation on this machine. Raises Refused, Unreachable."""
    path, named = contexts_file(environment), chosen.context
    server = chosen.server
    if not (server or named or chosen.data or chosen.url or chosen.credentials):
        server, named = environment.get(SERVER, ""), environment.get(CONTEXT, "")
        if not (server or named or environment.get(URL) or environment.get(DATA)):
            named = read_contexts(path).current
    if server:
        known = [] if environment.get(TOKEN) else read_contexts(path).contexts.values()
        return next((one for one in known if one.server.rstrip("/") == server.rstrip("/")), Context(server=server))
    return read_contexts(path).named(named) if named not in ("", LOCAL) else None


def find_targets(chosen: Chosen, environment: Mapping[str, str] = os.environ) -> Targets:
    """Addresses and logins. Raises Unreachable or Refused without an installation."""
    context = chosen_context(chosen, environment)
    if context is None:
        return _on_this_machine(chosen, environment)
    check_address(context.server)
    token = environment.get(TOKEN) or context.token
    if not token:
        raise Unreachable(f"no token for {context.server}: set {TOKEN}, as `headrace token create` prints it")
    tenant, user = _bearer(token, context.tenant or environment.get(TENANT, ""), context.user or environment.get(USER, ""))
    nats = find(None, None, None, environment) if environment.get(URL) else None
    return Targets(ApiTarget(server=context.server, token=token, ca=context.ca), nats, tenant, user)


def only_here(
    *, data: str | Path | None = None, server: str = "", context: str = "", environment: Mapping[str, str] = os.environ
) -> int | None:
    """Number of the account that runs the installation that is meant, if all of it is on this machine; else None.

    It is, if it listens on the loopback only: then no node of another machine can join.
    """
    if chosen_context(Chosen(server, context, data), environment) is not None or environment.get(URL):
        return None
    directory = data_directory(data, environment)
    endpoint = read_endpoint(directory)
    if endpoint is None or not all(
        urlsplit(url).hostname in LOOPBACKS for url in (*endpoint.url.split(","), endpoint.api) if url
    ):
        return None
    return directory.stat().st_uid


def _on_this_machine(chosen: Chosen, environment: Mapping[str, str]) -> Targets:
    nats = find(chosen.url, chosen.credentials, chosen.data, environment)
    tenant, user = nats.login.tenant, nats.login.user or nats.login.name
    directory = data_directory(chosen.data, environment)
    endpoint = read_endpoint(directory) if not (chosen.url or environment.get(URL)) else None
    if endpoint is None:
        return Targets(None, nats, tenant, user)
    token, ca = environment.get(TOKEN, "") if chosen.credentials is None else "", ca_file(endpoint, directory)
    if endpoint.local and (not token or Path(endpoint.local).exists()):
        own = token or nats.login.password
        return Targets(ApiTarget(socket=endpoint.local, token=own), nats, tenant, user)
    if not endpoint.api:  # written when NATS is there; the address of the API follows when that is
        starting = f"the API of Headrace in {directory} has not started yet: `headrace up` says when everything is ready"
        return Targets(None, nats, tenant, user, starting)
    # the owner's login is shown at the local socket only: another program may listen on a port
    return Targets(ApiTarget(server=endpoint.api, token=token, ca=ca) if token else None, nats, tenant, user)


def _bearer(token: str, tenant: str, user: str) -> tuple[str, str]:
    """Tenant and user that a token speaks for, or those given; empty if unknown."""
    spoken = read_bearer(token)
    if spoken is not None:
        return tenant or spoken.tenant or DEFAULT_TENANT, user or spoken.handle
    for name, text in (("tenant", tenant), ("user", user)):
        if text and not is_token(text):
            raise Refused("INVALID", f"{name}: invalid name {text!r}: use 1-63 of a-z, 0-9, '-'")
    return tenant, user
